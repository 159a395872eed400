"""Judges the files of a corpus (`bench.judge.entries`), and writes a record for every file."""

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kernelwright.bench.judge.entries import CorpusEntry, read_corpus
from kernelwright.bench.judge.static_checker import read_by_kernelbench
from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.commits import with_commits
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.kinds.suites import CorpusRunLine
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict

if TYPE_CHECKING:
    from kernelwright.verify.judge import Judge
    from kernelwright.verify.judging import JudgeOptions

CALL_S = 30.0
"""Limit of a request to a guest. The tasks are small, and other judges wait for the GPU while a
cheat does not answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusPlan:
    """The settings of a run over a corpus."""

    root: Path
    out: Path
    """JSONL. A file with a verdict in it is not judged again."""
    device: str = "auto"
    jobs: int = 1
    """Judges at once. Timed calls still have the GPU alone."""
    grade: str = "fresh"
    """Under "recycled" each judge's guests go from file to file."""
    checks: str = "all"
    """The checks that may refuse a file (`core.verdict.Checks`)."""
    kernelbench: Path | None = None
    """A checkout of KernelBench, whose static checker reads the same files."""
    deadline_s: float = float("inf")
    """On the monotonic clock; files not begun by then are left for the next run."""


def run_corpus(plan: CorpusPlan, say: Say) -> list[Record]:
    """Judge every file that the device can judge.

    Records are written to `plan.out` as they come, and at the end again in the corpus's order. A
    file that our side failed to judge is judged again when the run is resumed.

    Returns:
        All records, with the run's head first.

    Raises:
        UsageError: the corpus, the device or the checkout is not there, or `plan.out` was begun
            with other settings.
        InfraError: a judging process died.
    """
    from kernelwright.verify.judging import device_named  # imports torch

    entries = read_corpus(plan.root)
    device = device_named(plan.device).type
    head: Record = {"record": "run", "command": "eval corpus", "device": device}
    head |= {"grade": plan.grade, "checks": plan.checks}
    judged = [entry for entry in entries if device == "cuda" or not entry.needs_gpu]
    theirs = read_by_kernelbench(plan.kernelbench, entries) if plan.kernelbench else []
    cases = _recorded(plan.out, head)
    record.begin(plan.out, head | {"cases": len(judged)})
    settled = {key for key, case in cases.items() if case["code"] != "infra"}
    _judge_all([entry for entry in judged if entry.key not in settled], device, plan, say)
    cases = _recorded(plan.out, head)
    first_head = next(record.of_kind(record.read(plan.out), CorpusRunLine))
    ordered = [cases[entry.key] for entry in judged if entry.key in cases]
    lines = [cast(Record, first_head) | {"cases": len(judged)}, *theirs, *ordered]
    record.rewrite(plan.out, lines)
    return lines


def _recorded(path: Path, head: Record) -> dict[tuple[str, str], Record]:
    """Kind and name of a judged file -> the last record of the file.

    The records are written anew in the order of the corpus, below the first head alone. So a record
    from another commit than that of the first head gets the field `commit`.

    Raises:
        UsageError: the records were begun with other settings.
    """
    lines = record.resumed(path, head)
    if not lines:
        return {}
    (_, first_commit), *_ = committed = list(with_commits(lines))
    return {
        (line["kind"], line["name"]): line | ({"commit": commit} if commit != first_commit else {})
        for line, commit in committed
        if line["record"] == "corpus_case"
    }


def is_right(case: Record) -> bool:
    """Whether a cheat was stopped or an honest kernel accepted. A failure of ours is not right."""
    is_honest: bool = case["kind"] == "honest"
    return case["code"] != "infra" and case["accepted"] is is_honest


def _judge_all(entries: Sequence[CorpusEntry], device: str, plan: CorpusPlan, say: Say) -> None:
    """Judge files, and append the record of each file as soon as the file is judged. After the
    deadline of the plan no file is begun.

    Judging processes are spawned, not forked: CUDA cannot be used in a fork of a process that has
    initialised it.

    Raises:
        InfraError: a judging process died.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(plan.jobs, mp_context=context) as pool:
        try:
            waiting = [
                pool.submit(_judge, entry, device, plan.grade, plan.checks) for entry in entries
            ]
            judged = (done for done in as_completed(waiting) if not done.cancelled())
            for number, done in enumerate(judged, 1):
                line = _result(done)
                record.append(plan.out, [line])  # an interruption loses nothing
                say(f"{number}/{len(entries)} {line['name']}: {line['stage']}/{line['code']}")
                if time.monotonic() >= plan.deadline_s:
                    for not_begun in waiting:
                        not_begun.cancel()  # does nothing to a file that is being judged
        except KeyboardInterrupt:  # the pool would wait for the files that are being judged
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:  # else the pool judges all other files before an error ends it
            pool.shutdown(cancel_futures=True)


def _result(done: "Future[Record]") -> Record:
    """The record that a judging process returned.

    Raises:
        InfraError: the process died, or our side failed in it.
    """
    try:
        return done.result()
    except InfraError:
        raise
    except Exception as error:
        raise InfraError(f"a judging process broke: {error}") from error


@cache
def _judge_of(judging: "JudgeOptions", large: bool) -> "Judge":
    """The judge of this process for all files with these settings, until the process ends."""
    import torch

    from kernelwright.verify.judge import Judge

    torch.set_num_threads(1)
    return Judge(judging, large=large, trusted=False)


def _judge(entry: CorpusEntry, device: str, grade: str, checks: str) -> Record:
    """The record of a file, in a process of the pool. If our side fails, the file is judged once
    more."""
    from kernelwright.verify.judging import JudgeOptions
    from kernelwright.verify.tasks.load import load_task

    begin_s = time.monotonic()
    candidate = Candidate(source=entry.path.read_text(encoding="utf-8"), origin="file")
    judging = JudgeOptions(
        device=device,
        mode=entry.facts.get("mode", "pure"),
        contract=entry.facts.get("contract", "fixed"),
        grade=grade,
        checks=checks,
        wall_s=CALL_S,
    )
    judge = _judge_of(judging, entry.facts.get("large") == "yes")
    for attempt in range(2):
        try:
            verdict = judge.verify(load_task(entry.task, judge.rules.device), candidate)
            break
        except UsageError as error:
            return _without_verdict(entry, "usage", error)
        except InfraError as error:
            if attempt:
                return _without_verdict(entry, "infra", error)
    return _with_verdict(entry, judging, verdict) | {
        "seconds": round(time.monotonic() - begin_s, 2)
    }


def _with_verdict(entry: CorpusEntry, judging: "JudgeOptions", verdict: Verdict) -> Record:
    """The record of a judged file, without the seconds. A surprising verdict has its message."""
    is_surprising = verdict.accepted != (entry.kind == "honest")
    return {
        "record": "corpus_case",
        **entry.head(),
        "mode": judging.mode,
        "contract": judging.contract,
        "device": verdict.device,
        "grade": verdict.grade,
        "accepted": verdict.accepted,
        "stage": verdict.stage.value,
        "code": verdict.code.value,
        **({"message": verdict.message} if is_surprising else {}),
        "cases": len(verdict.cases),
    }


def _without_verdict(entry: CorpusEntry, code: str, error: Exception) -> Record:
    """The record of a file without a verdict.

    Args:
        code: "usage": the task was refused; "infra": our side failed.
    """
    ours = {"accepted": False, "stage": code, "code": code, "message": f"{error}"}
    return {"record": "corpus_case", **entry.head(), **ours}
