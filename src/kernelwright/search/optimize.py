"""The main job: a program's fragments become verified kernels wherever that wins.

Fragments are proposed, each is tuned on its own, disjoint winners are combined into the largest
total saving, the whole is verified against the original and written with its records. A program is
searched in several forms (`search.forms`), and the fastest whole is kept.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.names import DEFAULT
from kernelwright.search.beside_compile import compile_fields
from kernelwright.search.describe import (
    Spent,
    program_record,
    result_record,
    run_record,
    tuned_records,
    verdict_record,
)
from kernelwright.search.graphed import waits_for_launches
from kernelwright.search.search import Search
from kernelwright.search.sources import Sources
from kernelwright.search.target import Target, load_target
from kernelwright.search.variant import Variant, Whole
from kernelwright.search.wholes import Say, Wholes
from kernelwright.timing.stages import worked_s
from kernelwright.verify.judge import Judge
from kernelwright.verify.room import Hold

JUDGING_SHARE = 0.2
"""Of the budget: for the cases of judging the whole."""
TUNING_CLOCK_SHARE = 0.6
"""Of the time on the clock: until when fragments are tuned, whatever was waited for."""


def optimize_target(
    spec: str,
    *,
    out: Path,
    device: str = "auto",
    precision: str = "strict",
    mode: str = "hybrid",
    budget_s: float = 600.0,
    policy: str = DEFAULT,
    progress: Say | None = None,
    with_slower: bool = False,
    beside_compile: bool = True,
    hold: Hold = nullcontext,
    for_s: float = math.inf,
) -> Record:
    """Optimize a target; write `optimized.py` and `records.jsonl` to `out`.

    Args:
        policy: who writes candidates for fragments; several with commas (`search.sources`).
        with_slower: where nothing is worth keeping, write `slower.py` with a right kernel all the
            same; the result's "slower" has its verdict.
        beside_compile: on a GPU, time torch.compile beside the result in what is left of the
            budget.
        hold: as `Judge`'s.
        for_s: seconds on the clock, waiting for other processes included, after which nothing more
            is begun: what was tuned by then is judged once, and PyTorch stays where that fails.

    Returns:
        The result record, the last of the records.

    Raises:
        UsageError: the target or an option cannot be used; nothing is written.
        InfraError: our side failed; nothing is written.
    """
    begin_s, clock_s = worked_s(), time.monotonic()
    say = progress or (lambda _: None)
    _check_writable(out)
    sources = Sources(policy)
    with Judge(
        device=device,
        precision=precision,
        mode=mode,
        budget_s=JUDGING_SHARE * budget_s,
        hold=hold,
        trusted=not sources.has_models,
    ) as judge:
        say("loading and lowering")
        with hold():
            target = load_target(spec, judge.rules.device)
        search = Search(
            judge,
            sources,
            begin_s=begin_s,
            budget_s=budget_s,
            say=say,
            end_s=clock_s + TUNING_CLOCK_SHARE * for_s,
        )
        end_s = clock_s + for_s
        outcome = search_target(
            target,
            search,
            judge,
            say=say,
            with_slower=with_slower,
            beside_compile=beside_compile,
            end_s=end_s,
        )
    options: Record = {"device": device, "precision": precision, "mode": mode}
    options |= {"budget_s": budget_s, "policy": policy}
    run = run_record(target.name, options, outcome.verdict, outcome.spent)
    _write(out, outcome.files, [run, *outcome.records])
    return outcome.result


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a search ended with."""

    files: Mapping[str, str]
    """Name -> source: optimized.py, and slower.py where there is one."""
    verdict: Verdict
    """On optimized.py."""
    spent: Spent
    records: Sequence[Record]
    """All but the first, which says how it was run."""

    @property
    def result(self) -> Record:
        """The last of the records."""
        return self.records[-1]


def search_target(
    target: Target,
    search: Search,
    judge: Judge,
    *,
    say: Say,
    with_slower: bool = False,
    beside_compile: bool = True,
    end_s: float = math.inf,
) -> Outcome:
    """Search the target's program in its forms, and settle on the whole that is kept.

    Args:
        with_slower, beside_compile: as of `optimize_target`.
        end_s: on the monotonic clock; nothing more is begun after it.

    Raises:
        UsageError, InfraError: as `optimize_target`.
    """
    wholes = Wholes(judge, say, end_s=end_s)
    searched = search.variants(target.program, target.task)
    variants = wholes.ranked(searched)
    say("judging the whole against the original")
    whole, slower = _settled(wholes, variants, searched, target, with_slower=with_slower)
    variant, spent = whole.variant, search.spent()
    files = {"optimized.py": whole.source}
    result = result_record(target.name, whole, spent)
    result |= {"forms": wholes.forms, "failed_sources": [asdict(each) for each in search.failed]}
    if beside_compile and judge.on_gpu:
        say("timing torch.compile beside the result")
        left_s = min(search.left_s(), end_s - time.monotonic())
        result |= compile_fields(whole, target.task, judge, for_s=left_s)
    if slower is not None:
        files["slower.py"] = slower.source
        result["slower"] = verdict_record(slower)
    records = [program_record(variant), *tuned_records(variant), *wholes.judged, result]
    return Outcome(files=files, verdict=whole.verdict, spent=spent, records=records)


def _settled(
    wholes: Wholes,
    variants: Sequence[Variant],
    searched: Sequence[Variant],
    target: Target,
    *,
    with_slower: bool,
) -> tuple[Whole, Whole | None]:
    """What is kept, and where that is PyTorch alone and it was asked for, what is right all the
    same. PyTorch that waits for launches may lose to a right kernel in a CUDA graph."""
    whole = wholes.settle(variants, target)
    if whole.variant.chosen:
        return whole, None
    waits = target.write_graphed is not None and waits_for_launches(whole.verdict)
    slower = wholes.slower(searched, target) if with_slower or waits else None
    if waits and slower is not None and slower.launched and wholes.wins(slower.verdict):
        return slower, None
    return whole, slower if with_slower else None


def _write(out: Path, files: Mapping[str, str], lines: Sequence[Record]) -> None:
    """The files of a result; the records of an earlier one go."""
    out.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        (out / name).write_text(source, encoding="utf-8")
    (out / "records.jsonl").unlink(missing_ok=True)
    record.append(out / "records.jsonl", lines)


def _check_writable(out: Path) -> None:
    """Find out before the search, not after it."""
    path = out.absolute()
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise UsageError(f"cannot write to {out}", remedy="give a folder with --out")
