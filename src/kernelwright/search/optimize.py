"""The main job: replaces fragments of a program by verified kernels wherever that is faster.

1. Fragments are proposed, and each is tuned alone.
2. The disjoint winners with the largest total saving are combined.
3. The whole is verified against the original, and written with its records.

A program is searched in several forms (`search.forms`), and the fastest whole is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.folders import check_folder
from kernelwright.core.progress import OnProgress, ignore
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.library.entry import LibraryEntry
from kernelwright.library.store import Library
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.search.contest.contest import COMPILED_GRAPHS, EAGER, Contest
from kernelwright.search.contest.process import ContestProcess
from kernelwright.search.contest.settling import Settling
from kernelwright.search.contest.wholes import Wholes
from kernelwright.search.fleet import Workers
from kernelwright.search.interrupts import signal_name, terminating
from kernelwright.search.module.files import write_result
from kernelwright.search.options import SearchOptions
from kernelwright.search.search import Search
from kernelwright.search.shelf import Shelf
from kernelwright.search.sources import Sources
from kernelwright.search.target import Target, load_target
from kernelwright.search.telling.describe import (
    Spent,
    program_record,
    result_record,
    run_record,
    tuned_records,
    verdict_record,
)
from kernelwright.search.telling.outcome import EndedSearch, outcome_record
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.variant import ServedForm, Whole
from kernelwright.timing.deadline import Budget
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.room import Hold


def optimize_target(
    spec: str,
    options: SearchOptions,
    *,
    out: Path,
    progress: OnProgress = ignore,
    hold: Hold = nullcontext,
    for_s: float | None = None,
    begin_s: float | None = None,
    library: Library | None = None,
    sized: SizedProgram | None = None,
    workers: Workers | None = None,
) -> Record:
    """Optimizes a target, and writes `optimized.py` and `records.jsonl` to `out`.

    Ctrl-C and SIGTERM end the search, and the best result so far is written. The result's
    "interrupted_by" names the signal. A second signal also ends the judging of that result, and
    `optimized.py` then holds the original.

    Args:
        progress: is told each step.
        hold: as `Judge`'s.
        for_s: seconds on the clock. With it, the time that this process waits for other processes
            is no part of the budget.
        begin_s: on `time.monotonic`, when the user's call began; now if not given.
        library: where fragments that an earlier search tuned are looked up, and new ones are kept.
        sized: the target, which is a flat program, at several sizes.
        workers: tune fragments side by side; tuned fragments go through `library`.

    Returns:
        The result record, the last of the records.

    Raises:
        UsageError: the target or an option cannot be used, or the folder cannot be written.
        InfraError: our side failed; nothing is written.
    """
    budget = Budget.start(options.budget_s, wall_s=for_s, begin_s=begin_s)
    steps = SearchSteps(progress, budget)
    steps("starting", spec)
    check_folder(out)
    sources = Sources(options.policy)
    rules = options.judging.resolve_rules()
    shelf = Shelf(library, rules, sources, steps)
    load = partial(_load, spec, options, rules.device, steps, hold, sized)
    with terminating(), ExitStack() as judging:
        target = load() if library is not None else None
        known = shelf.known_module(target, options.budget_s) if target is not None else None
        if known is not None:
            return _write_known(known, out, budget)
        judge, teacher_judge = judging.enter_context(
            judges(sources, options.judging, has_foreign=shelf.has_foreign(), hold=hold)
        )
        executor = judging.enter_context(workers.executor(options.rules)) if workers else None
        target = target or load()  # beside the start of the judge's processes
        clock: dict[str, Any] = {"budget": budget, "steps": steps}
        further: dict[str, Any] = {"tries_useless": options.with_slower, "workers": executor}
        search = Search(
            judge, sources, teacher_judge=teacher_judge, shelf=shelf, **clock, **further
        )
        outcome = search_target(
            target,
            search,
            judge,
            with_slower=options.with_slower,
            beside_compile=options.beside_compile,
            **clock,
        )
    run = run_record(target.name, options.to_record(), outcome.verdict, outcome.spent)
    steps("writing the result", str(out))
    records = [run, *outcome.records]
    write_result(out, outcome.files, records)
    shelf.keep_module(target, outcome.whole.source, outcome.verdict, records)
    return outcome.result


def _load(
    spec: str,
    options: SearchOptions,
    device: torch.device,
    steps: SearchSteps,
    hold: Hold,
    sized: SizedProgram | None,
) -> Target:
    """The target; in pure mode optimized.py has no PyTorch code to fall back to."""
    steps("loading and lowering", spec)
    with hold():
        return load_target(
            spec,
            device,
            falls_back=options.mode != "pure",
            training=options.training,
            dynamic=options.dynamic,
            sized=sized,
        )


def _write_known(known: LibraryEntry, out: Path, budget: Budget) -> Record:
    """Write what the library has of a module, as its search wrote it. The result's "searched_s"
    says when that was, in seconds since 1970."""
    *others, last = known.records
    spent = {"budget_s": budget.seconds, "spent_s": budget.spent_s()}
    result = last | {"searched_s": known.created_s, "budget": spent}
    write_result(out, {"optimized.py": known.source}, [*others, result])
    return result


@contextmanager
def judges(
    sources: Sources,
    options: JudgeOptions,
    *,
    has_foreign: bool = False,
    hold: Hold = nullcontext,
) -> Iterator[tuple[Judge, Judge]]:
    """A context with (the judge of all candidates, the judge of the teacher's candidates).

    The teacher's candidates are trusted. If there are no models, both are the same judge.

    Args:
        has_foreign: the library may give kernels of somebody else in the teacher's pass. Then no
            candidate is trusted.
        hold: as of `Judge`.
    """
    with ExitStack() as stack:
        is_trusted = not (sources.has_models or has_foreign)
        judge = stack.enter_context(Judge(options, hold=hold, trusted=is_trusted))
        teacher_judge = judge
        if sources.has_models and sources.has_teacher:
            same_inputs = replace(options, seed=judge.seed)
            teacher_judge = stack.enter_context(
                Judge(same_inputs, hold=hold, trusted=not has_foreign)
            )
        judge.start_ahead()  # beside loading and lowering
        yield judge, teacher_judge


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOutcome:
    """The end of a search."""

    files: Mapping[str, str]
    """Name -> source: optimized.py, and slower.py where there is one."""
    whole: Whole
    """The whole that optimized.py holds."""
    spent: Spent
    records: Sequence[Record]
    """The records of the search, without the first, which says how the search was run."""

    @property
    def verdict(self) -> Verdict:
        """On optimized.py."""
        return self.whole.verdict

    @property
    def result(self) -> Record:
        """The last of the records."""
        return self.records[-1]


def search_target(
    target: Target,
    search: Search,
    judge: Judge,
    *,
    budget: Budget,
    steps: SearchSteps | None = None,
    with_slower: bool = False,
    beside_compile: bool = True,
) -> SearchOutcome:
    """Search the target's program in its forms, and settle on the whole that is kept.

    Args:
        budget: of the whole job.
        with_slower, beside_compile: as of `SearchOptions`.

    Raises:
        UsageError, InfraError: as `optimize_target`.
    """
    steps = steps or SearchSteps()
    has_contest = beside_compile and judge.on_gpu
    wholes = Wholes(judge, steps, deadline=budget.deadline)
    contest = Contest()
    # The contest's process takes seconds to load PyTorch. Started here, it loads during the search.
    with closing(ContestProcess()) as process:
        if has_contest:
            process.start()
        searched = search.variants(target.program, target.task, target.sized)
        settling = Settling(target, search, judge, wholes, budget, steps, process)
        if has_contest and search.interruption is None:
            whole, contest = settling.beside_compile(searched)
        else:
            whole = settling.alone(searched)
    slower = None
    if with_slower and not whole.variant.chosen and search.interruption is None:
        slower = wholes.slower(searched, target)
    if whole.served is ServedForm.ORIGINAL:
        whole = _best_original(whole, contest, target)
    timed = _timed_fields(whole, contest) if has_contest else Record()
    variant, spent = whole.variant, search.spent()
    ended = EndedSearch(
        whole=whole,
        searched=searched,
        tuned=search.tuned,
        refused=wholes.refused,
        left_out=wholes.left_out,
        is_interrupted=search.interruption is not None,
        on_gpu=judge.on_gpu,
        budget_s=budget.seconds,
        timed=timed,
        beaten_ms=None if whole.variant.chosen else contest.beaten_ms,
        failed=contest.failed_wholes,
    )
    result = result_record(target.name, whole, spent) | timed
    result |= {
        "forms": wholes.forms,
        "failed_sources": [asdict(failure) for failure in search.failed],
        "outcome": outcome_record(ended),
        "measured": judge.on_gpu,
        "budget": {"budget_s": budget.seconds, "spent_s": budget.spent_s()},
        "interrupted_by": signal_name(search.interruption),
    }
    files = {"optimized.py": whole.source}
    if slower is not None:
        files["slower.py"] = slower.source
        result["slower"] = verdict_record(slower)
    records = [program_record(variant), *tuned_records(variant), *wholes.judged, result]
    return SearchOutcome(files=files, whole=whole, spent=spent, records=records)


def _best_original(whole: Whole, contest: Contest, target: Target) -> Whole:
    """The original in its fastest right form: unchanged, or inside torch.compile."""
    best = contest.best_original
    if best == EAGER:
        return whole
    is_graph = best == COMPILED_GRAPHS
    text = target.compiled(moves_layouts=contest.moves_layouts, is_graph=is_graph)
    contender = best if is_graph else None  # torch.compile in its default mode is a baseline
    return replace(whole, source=text, served=ServedForm.COMPILED, contender=contender)


def _timed_fields(whole: Whole, contest: Contest) -> Record:
    """The fields of the result record about speed. A whole that took part in no contest has its
    speed-up over PyTorch as the judge measured it."""
    verdict, fields = whole.verdict, contest.fields(whole.contender)
    if not whole.variant.chosen or whole.contender is not None:
        return fields
    speedups: Record = {}
    if verdict.speedup is not None and verdict.speedup_interval is not None:
        speedups["over_eager"] = [verdict.speedup, *verdict.speedup_interval]
    return {"torch_compile": fields["torch_compile"], "speedups": speedups}
