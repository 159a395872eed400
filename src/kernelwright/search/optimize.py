"""The main job: a program's fragments become verified kernels wherever that wins.

Fragments are proposed, each is tuned on its own, disjoint winners are combined into the largest
total saving, the whole is verified against the original and written with its records. A program is
searched in several forms (`search.forms`), and the fastest whole is kept.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

from kernelwright.core.errors import InfraError
from kernelwright.core.folders import check_folder
from kernelwright.core.progress import OnProgress, ignore
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.names import DEFAULT, DEFAULT_MODE
from kernelwright.search.beside_compile import bar_of, compile_fields, rival
from kernelwright.search.describe import (
    Spent,
    program_record,
    result_record,
    run_record,
    tuned_records,
    verdict_record,
)
from kernelwright.search.files import write_result
from kernelwright.search.interrupts import signal_name, terminating
from kernelwright.search.outcome import Ended, outcome_record
from kernelwright.search.search import Search
from kernelwright.search.sources import Sources
from kernelwright.search.steps import Steps
from kernelwright.search.target import Target, load_target
from kernelwright.search.variant import Served, Variant, Whole
from kernelwright.search.wholes import Wholes
from kernelwright.timing.deadline import Budget, Deadline
from kernelwright.timing.turns import OURS
from kernelwright.verify.judge import Judge
from kernelwright.verify.room import Hold

JUDGING_SHARE = 0.2
"""Of the budget: for the cases of judging the whole."""
RIVAL_SHARE = 0.4
"""Of the time that is left after tuning: for timing torch.compile of the original, at most."""
SETTLING_S = 10.0
"""After Ctrl-C: seconds in which the whole is judged with the kernels that are right so far."""


def optimize_target(
    spec: str,
    *,
    out: Path,
    device: str = "auto",
    precision: str = "strict",
    mode: str = DEFAULT_MODE,
    budget_s: float = 600.0,
    policy: str = DEFAULT,
    progress: OnProgress = ignore,
    with_slower: bool = False,
    beside_compile: bool = True,
    hold: Hold = nullcontext,
    for_s: float | None = None,
    begin_s: float | None = None,
) -> Record:
    """Optimize a target; write `optimized.py` and `records.jsonl` to `out`.

    Ctrl-C and SIGTERM end the search, and the best result so far is written; the result's
    "interrupted_by" names the signal. A second one ends the judging of that result too: then
    `optimized.py` holds the original.

    Args:
        budget_s: seconds on the clock for everything from loading to writing.
        policy: who writes candidates for fragments; several with commas (`search.sources`).
        progress: is told each step.
        with_slower: where nothing is worth keeping, write `slower.py` with a right kernel all the
            same; the result's "slower" has its verdict.
        beside_compile: on a GPU, time torch.compile beside the result in what is left of the
            budget.
        hold: as `Judge`'s.
        for_s: seconds on the clock. With it, the time that this process waits for other processes
            is no part of `budget_s`.
        begin_s: on `time.monotonic`, when the user's call began; now if not given.

    Returns:
        The result record, the last of the records.

    Raises:
        UsageError: the target or an option cannot be used, or the folder cannot be written.
        InfraError: our side failed; nothing is written.
    """
    budget = Budget.start(budget_s, wall_s=for_s, begin_s=begin_s)
    steps = Steps(progress, budget)
    steps("starting", spec)
    check_folder(out)
    sources = Sources(policy)
    rules = {"device": device, "precision": precision, "mode": mode}
    with terminating(), judges(sources, budget_s, hold=hold, **rules) as (judge, teacher_judge):
        steps("loading and lowering", spec)
        with hold():
            target = load_target(spec, judge.rules.device)
        search = Search(
            judge,
            sources,
            budget=budget,
            steps=steps,
            teacher_judge=teacher_judge,
            tries_useless=with_slower,
        )
        outcome = search_target(
            target,
            search,
            judge,
            budget=budget,
            steps=steps,
            with_slower=with_slower,
            beside_compile=beside_compile,
        )
    options: Record = rules | {"budget_s": budget_s, "policy": policy}
    run = run_record(target.name, options, outcome.verdict, outcome.spent)
    steps("writing the result", str(out))
    write_result(out, outcome.files, [run, *outcome.records])
    return outcome.result


@contextmanager
def judges(sources: Sources, budget_s: float, **options: Any) -> Iterator[tuple[Judge, Judge]]:
    """The judge of everything, and the judge of the teacher's candidates: one judge where the
    teacher is alone, whose candidates are trusted.

    Args:
        options: as of `Judge`.
    """
    options["budget_s"] = JUDGING_SHARE * budget_s
    with ExitStack() as stack:
        judge = stack.enter_context(Judge(**options, trusted=not sources.has_models))
        teacher_judge = judge
        if sources.has_models and sources.has_teacher:
            teacher_judge = stack.enter_context(Judge(**options, seed=judge.seed))
        # Beside loading and lowering. A failure is raised again where a guest is wanted.
        Thread(target=_start, args=(judge,), daemon=True).start()
        yield judge, teacher_judge


def _start(judge: Judge) -> None:
    with suppress(InfraError):
        judge.start()


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a search ended with."""

    files: Mapping[str, str]
    """Name -> source: optimized.py, and slower.py where there is one."""
    whole: Whole
    """What optimized.py holds."""
    spent: Spent
    records: Sequence[Record]
    """All but the first, which says how it was run."""

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
    steps: Steps | None = None,
    with_slower: bool = False,
    beside_compile: bool = True,
) -> Outcome:
    """Search the target's program in its forms, and settle on the whole that is kept.

    Args:
        budget: of the whole job.
        with_slower, beside_compile: as of `optimize_target`.

    Raises:
        UsageError, InfraError: as `optimize_target`.
    """
    steps = steps or Steps()
    searched = search.variants(target.program, target.task)
    timed: Record = {}
    is_compared = beside_compile and judge.on_gpu and search.interruption is None
    if is_compared:
        steps("timing torch.compile", target.name)
        try:
            timed = rival(target.task, judge, for_s=RIVAL_SHARE * budget.deadline.left_s())
        except KeyboardInterrupt as interruption:
            search.interruption = interruption
    bar = bar_of(timed) if timed else 1.0
    wholes = Wholes(judge, steps, deadline=budget.deadline, bar=bar)
    whole = _settled(wholes, searched, target, search)
    slower = None
    if with_slower and not whole.variant.chosen and search.interruption is None:
        slower = wholes.slower(searched, target)
    if is_compared and whole.variant.chosen and search.interruption is None:
        steps("timing torch.compile beside the result", target.name)
        left_s = budget.deadline.left_s()
        beside = compile_fields(whole, target.task, judge, for_s=left_s)
        is_timed = beside["torch_compile"]["timed"] or not timed
        timed = beside if is_timed else timed | {"speedups": beside.get("speedups", {})}
    whole, timed = _delivered(whole, wholes, target, timed)
    variant, spent = whole.variant, search.spent()
    ended = Ended(
        whole=whole,
        searched=searched,
        tuned=search.tuned,
        refused=wholes.refused,
        left_out=wholes.left_out,
        is_interrupted=search.interruption is not None,
        on_gpu=judge.on_gpu,
        budget_s=budget.seconds,
        timed=timed,
    )
    result = result_record(target.name, whole, spent) | timed
    result |= {
        "forms": wholes.forms,
        "failed_sources": [asdict(each) for each in search.failed],
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
    return Outcome(files=files, whole=whole, spent=spent, records=records)


def _delivered(whole: Whole, wholes: Wholes, target: Target, timed: Record) -> tuple[Whole, Record]:
    """What the user gets, and the fields of its record that tell of speed: torch.compile of the
    unchanged original where that is faster than the whole, and right."""
    compiled_over_eager = bar_of(timed) if timed else 1.0
    speedups = timed.get("speedups", {})
    is_behind = "over_compile" in speedups and speedups["over_compile"][0] < 1.0
    if whole.variant.chosen and not (is_behind and timed["torch_compile"]["right"]):
        return whole, timed
    moves_layouts = bool(timed.get("torch_compile", {}).get("moves_layouts", True))
    compiled_text = target.compiled(moves_layouts=moves_layouts)
    times = {name: timing for name, timing in timed.get("times", {}).items() if name != OURS}
    kept = wholes.unchanged(whole.variant, target)
    if compiled_over_eager > 1.0:
        kept = replace(kept, source=compiled_text, served=Served.COMPILED)
    return kept, {**timed, "times": times, "speedups": {}} if timed else timed


def _settled(wholes: Wholes, searched: Sequence[Variant], target: Target, search: Search) -> Whole:
    """The whole that is kept. A first Ctrl-C leaves some seconds for judging the whole with the
    kernels that are right so far; a second one leaves the original."""
    while True:
        if search.interruption is not None:
            wholes.deadline = Deadline(clock_s=time.monotonic() + SETTLING_S)
        try:
            variants = list(searched)
            if search.interruption is None:
                variants = wholes.ranked(variants)
            return wholes.settle(variants, target)
        except KeyboardInterrupt as interruption:
            if search.interruption is not None:
                return wholes.unchanged(searched[-1], target)
            search.interruption = interruption
