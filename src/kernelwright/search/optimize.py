"""The main job: replaces fragments of a program by verified kernels wherever that is faster.

1. Fragments are proposed, and each is tuned alone.
2. The disjoint winners with the largest total saving are combined.
3. The whole is verified against the original, and written with its records.

A program is searched in several forms (`search.forms`), and the fastest whole is kept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Self

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
from kernelwright.search.variant import ServedForm, Variant, Whole
from kernelwright.timing.deadline import Budget
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.room import Hold


def optimize_target(
    spec: str,
    options: SearchOptions,
    *,
    out: Path,
    budget: Budget | None = None,
    progress: OnProgress = ignore,
    hold: Hold = nullcontext,
    library: Library | None = None,
    sized: SizedProgram | None = None,
    workers: Workers | None = None,
) -> Record:
    """Optimizes a target, and writes `optimized.py` and `records.jsonl` to `out`.

    Ctrl-C and SIGTERM end the search, and the best result so far is written. The result's
    "interrupted_by" names the signal. A second signal also ends the judging of that result, and
    `optimized.py` then holds the original.

    Args:
        budget: of the whole job; by default the seconds of `options`, from now.
        progress: is told each step.
        hold: as `Judge`'s.
        library: where fragments that an earlier search tuned are looked up, and new ones are kept.
        sized: the target, which is a flat program, at several sizes.
        workers: tune fragments side by side; tuned fragments go through `library`.

    Returns:
        The result record, the last of the records.

    Raises:
        UsageError: the target or an option cannot be used, or the folder cannot be written.
        InfraError: our side failed; nothing is written.
    """
    budget = budget or Budget.start(options.budget_s)
    steps = SearchSteps(progress, budget)
    steps("starting", spec)
    check_folder(out)
    job = SearchJob.of(options, budget, steps, library, hold)
    load = cache(partial(_load, job, spec, sized))
    with terminating():
        # The target is loaded first, because its program is a part of the library's key.
        known = job.shelf.known_module(load(), options.budget_s) if library is not None else None
        if known is not None:
            return _write_known(known, out, budget)
        outcome = job.run(load, workers)
    target, verdict = load(), outcome.verdict
    run = run_record(target.name, options.to_record(), verdict, outcome.spent)
    steps("writing the result", str(out))
    records = [run, *outcome.records]
    write_result(out, outcome.files, records)
    job.shelf.keep_module(target, outcome.whole.source, verdict, records)
    return outcome.result


def _load(job: "SearchJob", spec: str, sized: SizedProgram | None) -> Target:
    """The target; in pure mode optimized.py has no PyTorch code to fall back to."""
    job.steps("loading and lowering", spec)
    with job.hold():
        return load_target(
            spec,
            job.shelf.rules.device,
            falls_back=job.options.mode != "pure",
            training=job.options.training,
            dynamic=job.options.dynamic,
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
    sources: Sources, options: JudgeOptions, *, has_foreign: bool = False, hold: Hold = nullcontext
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
            # Both judges draw the same inputs, so that their verdicts can be compared.
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
    search: Search
    """The search, with what it tuned and how it ended."""
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


@dataclass(frozen=True, slots=True)
class SearchJob:
    """The parts that a search of one target is made of."""

    options: SearchOptions
    budget: Budget
    steps: SearchSteps
    sources: Sources
    shelf: Shelf
    hold: Hold

    @classmethod
    def of(
        cls,
        options: SearchOptions,
        budget: Budget,
        steps: SearchSteps,
        library: Library | None,
        hold: Hold = nullcontext,
    ) -> Self:
        """The job of a user who chose these options.

        Raises:
            UsageError: an option cannot be used.
        """
        sources = Sources(options.policy)
        shelf = Shelf(library, options.judging.resolve_rules(), sources, steps)
        return cls(options, budget, steps, sources, shelf, hold)

    def run(self, load: Callable[[], Target], workers: Workers | None = None) -> SearchOutcome:
        """Search the target, which is loaded beside the start of the judge's processes."""
        options, has_foreign = self.options, self.shelf.has_foreign()
        opened = judges(self.sources, options.judging, has_foreign=has_foreign, hold=self.hold)
        with opened as (judge, teacher_judge), ExitStack() as stack:
            executor = stack.enter_context(workers.executor(options.rules)) if workers else None
            target = load()
            search = Search(
                judge,
                self.sources,
                budget=self.budget,
                steps=self.steps,
                teacher_judge=teacher_judge,
                tries_useless=options.with_slower,
                shelf=self.shelf,
                workers=executor,
            )
            return search_target(target, search, options)


def search_target(target: Target, search: Search, options: SearchOptions) -> SearchOutcome:
    """Search the target's program in its forms, and settle on the whole that is kept.

    Raises:
        UsageError, InfraError: as `optimize_target`.
    """
    judge, budget = search.judge, search.budget
    wholes = Wholes(judge, search.steps, deadline=budget.deadline)
    has_contest = options.beside_compile and judge.on_gpu
    searched, whole, contest = _settled(target, search, wholes, has_contest=has_contest)
    slower = None
    if options.with_slower and not whole.variant.chosen and search.interruption is None:
        slower = wholes.slower(searched, target)
    timed = _timed_fields(whole, contest) if has_contest else Record()
    spent = search.spent()
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
    records = [program_record(whole.variant), *tuned_records(whole.variant), *wholes.judged]
    return SearchOutcome(
        files=files, whole=whole, search=search, spent=spent, records=[*records, result]
    )


def _settled(
    target: Target, search: Search, wholes: Wholes, *, has_contest: bool
) -> tuple[list[Variant], Whole, Contest]:
    """The searched variants, the whole that is kept, and the contest that it took part in."""
    contest = Contest()
    # The contest's process takes seconds to load PyTorch. Started here, it loads during the search.
    with closing(ContestProcess()) as process:
        if has_contest:
            process.start()
        searched = search.variants(target.program, target.task, target.sized)
        settling = Settling(target, search, wholes, process)
        if has_contest and search.interruption is None:
            whole, contest = settling.beside_compile(searched)
        else:
            whole = settling.alone(searched)
    # No kernel is kept, so the fastest right form of the original takes their place.
    if whole.served is ServedForm.ORIGINAL:
        whole = _best_original(whole, contest, target)
    return searched, whole, contest


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
