"""The state of each run of a queue, from the run's own records and its last exit code."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kernelwright.bench.queue.runs import SLICES, QueuedRun
from kernelwright.bench.suite import RETRIED
from kernelwright.core import record
from kernelwright.core.commits import DIRTY, distinct, with_commits
from kernelwright.core.kinds.suites import SliceLine
from kernelwright.core.record import Record

RECORDS = "records.jsonl"
"""The file of records in the folder of a run."""
KEYS = {
    "benchmark_case": ("suite", "level", "id", "sample"),
    "tritonbench_case": ("name",),
    "corpus_case": ("kind", "name"),
    "model_case": ("model", "dtype", "phase", "batch", "block"),
    "lint": ("task",),
    "verdict": ("id",),
}
"""Kind of record that is a case -> the fields that tell cases apart."""


class RunState(StrEnum):
    """Whether a run is complete."""

    DONE = "done"
    """The last exit code says that the run is complete, and the command is still the same."""
    PART = "part"
    """The run has records, and is not complete."""
    MISSING = "missing"
    """The run has no records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """The state of a run of the queue, from the records in its folder."""

    name: str
    state: RunState
    cases: int
    """The number of settled cases: the same command would not run these cases again."""
    total: int | None
    """The number of all cases of the run; None if no record says this number."""
    commits: tuple[str, ...]
    """The commits at which the cases were measured; "" stands for a record without a commit."""
    gpus: tuple[str, ...]
    """The GPUs on which the run was measured; "CPU" stands for a machine without a GPU."""
    is_other: bool
    """Whether some case was measured at another commit than the present commit."""
    code: int | None
    """The last exit code; None if no child ended."""
    lacks: str
    """A text about a checkout or a GPU that the run needs and this call does not have; "" if the
    run can begin."""

    @property
    def is_left(self) -> bool:
        """Whether the run is not complete and can begin or continue here."""
        return self.state is not RunState.DONE and not self.lacks


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueCall:
    """The folder of all runs, with the checkouts and the environment of a call."""

    folder: Path
    values: Mapping[str, str]
    """Name in braces of a command -> value."""
    environment: Record

    @property
    def commit(self) -> str:
        """The present commit of kernelwright; "" if it is not known."""
        return str(self.environment.get("commit") or "")

    def status(self, runs: Sequence[QueuedRun]) -> list[RunStatus]:
        """The state of each run, in the order of the runs."""
        slices = self.folder / SLICES
        lines = record.whole_lines(slices)
        with record.damage_in(slices):
            last = {line["run"]: line for line in record.of_kind(lines, SliceLine)}
        return [self._status(run, last.get(run.name)) for run in runs]

    def _status(self, run: QueuedRun, last: SliceLine | None) -> RunStatus:
        path = self.folder / run.name / RECORDS
        lines = record.whole_lines(path)
        with record.damage_in(path):
            settled = _settled(lines)
            total = _total(lines, len(settled))
            gpus = tuple(dict.fromkeys(_gpu(line) for line in lines if line.get("environment")))
        commits = tuple(distinct(settled.values()))
        # A run that was changed in the queue may have more cases than before.
        is_done = last is not None and last["command"] == run.command and last["code"] in run.ends
        begun = RunState.DONE if is_done else RunState.PART
        return RunStatus(
            name=run.name,
            state=begun if lines else RunState.MISSING,
            cases=len(settled),
            total=total,
            commits=commits,
            gpus=gpus,
            is_other=any(commit != self.commit for commit in commits),
            code=last["code"] if last else None,
            lacks=run.lacks(self.values, has_gpu=bool(self.environment.get("gpu"))),
        )


def _settled(lines: Iterable[Record]) -> dict[tuple[str, ...], str]:
    """Key of a settled case -> the commit of the last record of the case. A case that the same
    command would run again is not settled, and is left out."""
    settled: dict[tuple[str, ...], str] = {}
    for line, commit in with_commits(lines):
        if fields := KEYS.get(line.get("record", "")):
            # A block of a model is a dictionary, which cannot be a key. Its JSON text can.
            key = tuple(json.dumps(line.get(field)) for field in fields)
            settled[key] = commit
            if line.get("code") in RETRIED:
                del settled[key]
    return settled


def _total(lines: Sequence[Record], settled: int) -> int | None:
    """The number of cases of the run, from the last head of the records; None if the head does not
    say the number.

    Args:
        settled: the number of settled cases. Older heads have only the number of cases that were
            left.
    """
    heads = [line for line in lines if line.get("record") == "run"]
    if not heads:
        return None
    head = heads[-1]
    if "cases" in head:
        return int(head["cases"])
    return settled + int(head["left"]) if "left" in head else None


def _gpu(line: Record) -> str:
    return str(line["environment"].get("gpu") or "CPU").partition(",")[0]


def ordered(
    runs: Sequence[QueuedRun], states: Sequence[RunStatus], ages: Mapping[str, int]
) -> list[QueuedRun]:
    """The runs in the order of work: runs without records, then the runs of the oldest commit.
    Among equals, the shortest run is first.

    Args:
        ages: commit -> number of commits in its history (`ages_of`). An old commit has a small
            number.
    """
    by_name = {state.name: state for state in states}

    def rank(run: QueuedRun) -> tuple[bool, int, float]:
        state = by_name[run.name]
        oldest = min((ages[commit] for commit in state.commits), default=0)
        return state.state is not RunState.MISSING, oldest, run.seconds

    return sorted(runs, key=rank)


def ages_of(states: Iterable[RunStatus]) -> dict[str, int]:
    """Commit of some case -> the number of commits in its history, with the commit itself. The
    number is 0 if the checkout does not have the commit."""
    commits = {commit for state in states for commit in state.commits}
    return {commit: _age(commit.removesuffix(DIRTY)) for commit in commits}


def _age(commit: str) -> int:
    command = ["git", "-C", str(Path(__file__).parent), "rev-list", "--count", commit]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(answer.stdout) if commit and answer.returncode == 0 else 0
