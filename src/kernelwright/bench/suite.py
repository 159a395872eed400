"""Runs the cases of a suite with a policy, in several workers, and records each case."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.delivered import BETTER, COMPILE, EAGER, Ratio, delivered_timing, over
from kernelwright.core.errors import InfraError
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Verdict
from kernelwright.timing.clock import gpus

RECORDS = "records.jsonl"
WORKER = "kernelwright.bench.case"
KERNEL, SLOWER = "optimized.py", "slower.py"
"""In a case's folder: what the teacher wrote; what is right where nothing was worth keeping."""
RIVALS = {BETTER: "the better of both", COMPILE: "torch.compile", EAGER: "eager"}
"""The rivals of a case, in words."""
MEMORY = "memory"
"""How a case ends that found too little memory: beside others, it is run again alone."""

ALONE_S = 60.0
"""Kept back of a run's time for each case that is to be run again alone."""

RETRIED = ("infra", MEMORY)
"""Ends of a case that are no finding: it is run again when the run is resumed."""

Key = tuple[str, int, int]
"""Level, number and sample of a case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteCase:
    """A task of a suite, to be searched, or to be judged with a given candidate."""

    level: str
    id: int
    """Number within its level."""
    name: str
    spec: str
    """A file, or "package.module:factory"."""
    candidate: str | None = None
    """File to judge; None: the teacher writes one."""
    sample: int = 0
    """Number of the candidate among those of the same task."""

    @property
    def key(self) -> Key:
        return self.level, self.id, self.sample

    @property
    def folder(self) -> Path:
        """The case's folder, relative to the folder of all cases."""
        name = f"{self.name}-sample-{self.sample}" if self.candidate else self.name
        return Path(self.level, name)


def module_cases(specs: Sequence[str]) -> list[SuiteCase]:
    """Factories as cases, numbered from 1."""
    return [
        SuiteCase(level="real", id=i, name=spec.rpartition(":")[2], spec=spec)
        for i, spec in enumerate(specs, 1)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteRun:
    """How a suite is run."""

    suite: str
    policy: str
    out: Path
    """Folder: records.jsonl, whose cases are not run again, and each case's files under work/."""
    options: dict[str, Any]
    """Fields of `SearchOptions`."""
    max_autotune: bool = False
    """Time that mode of torch.compile too."""
    dtype: str | None = None
    """The dtype that the tasks were cast to; None: they are as written."""
    jobs: int
    """Processes at once, spread over `gpus`; what is timed still has its GPU alone."""
    gpus: Sequence[str] = field(default_factory=lambda: gpus() or [""])
    """As `CUDA_VISIBLE_DEVICES` names them; one without a name: there is none."""
    deadline_s: float
    """On the monotonic clock; cases not begun by then are left for the next run."""
    timeout_s: float
    """The time limit of one case. The search ends before; a longer case is recorded as `infra`."""

    @property
    def records(self) -> Path:
        return self.out / RECORDS

    @property
    def work(self) -> Path:
        return self.out / "work"

    @property
    def is_shared(self) -> bool:
        """A GPU may have several processes at once."""
        return self.jobs > len(self.gpus)

    def head(self) -> Record:
        """The settings that the verdicts and times of all cases rest on: the same whenever the run
        is resumed."""
        head: Record = {"record": "run", "command": f"eval {self.suite}", "policy": self.policy}
        head |= {"options": self.options, "max_autotune": self.max_autotune}
        return head | {"dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class CasesLeft:
    """The cases of a run that the same command would run again."""

    not_begun: int
    """Cases without a record."""
    failed: int
    """Cases in which our side failed."""


def run_suite(run: SuiteRun, todo: Sequence[SuiteCase], say: Callable[[str], None]) -> CasesLeft:
    """Run all cases without a record, or whose record ends in `RETRIED`, and append their records.

    The order is mixed, so that an interrupted run is a fair sample. Mixing also keeps large tasks,
    which are often neighbours, from waiting for each other. A case that found too little memory
    beside others runs last and alone, in time that is kept back for it.

    Returns:
        The cases that the same command would run again.

    Raises:
        UsageError: the folder holds a run with other settings.
    """
    ends = _ends(run)
    record.begin(run.records, run.head() | {"cases": len(todo)})
    beside, alone = _queues(run, todo, ends)

    def kept_back_s(queue: SimpleQueue[SuiteCase]) -> float:
        return 0.0 if queue is alone else ALONE_S * alone.qsize() / len(run.gpus)

    def serve(number: int, queue: SimpleQueue[SuiteCase]) -> None:
        is_alone = queue is alone
        gpu = run.gpus[number % len(run.gpus)]
        log = run.work / f"worker-{number}.log"
        with BenchWorker(WORKER, log, gpu, jobs=run.jobs) as worker:
            while time.monotonic() < run.deadline_s - kept_back_s(queue):
                try:
                    case = queue.get_nowait()
                except Empty:
                    return
                line = _line(run, case) | _found(run, case, worker, gpu, is_alone=is_alone)
                record.append(run.records, [line])
                say(f"{case.level}/{case.name}: {describe(cast(CaseLine, line))}")
                if line["code"] == MEMORY and run.is_shared and not is_alone:
                    alone.put(case)

    run.work.mkdir(parents=True, exist_ok=True)
    # A case that runs alone has a GPU to itself; several GPUs still work at the same time.
    for queue, jobs in ((beside, run.jobs), (alone, min(run.jobs, len(run.gpus)))):
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(partial(serve, queue=queue), range(jobs)))
    return _left(todo, _ends(run))


def _queues(
    run: SuiteRun, todo: Sequence[SuiteCase], ends: Mapping[Key, str]
) -> tuple[SimpleQueue[SuiteCase], SimpleQueue[SuiteCase]]:
    """(Cases that may run beside others, cases that must run alone), each in a mixed order."""
    beside, alone = SimpleQueue[SuiteCase](), SimpleQueue[SuiteCase]()
    for case in sorted(todo, key=lambda case: derive(0, *case.key)):
        code = ends.get(case.key)
        if code is None or code in RETRIED:
            (alone if code == MEMORY and run.is_shared else beside).put(case)
    return beside, alone


def _left(todo: Sequence[SuiteCase], ends: Mapping[Key, str]) -> CasesLeft:
    """The cases that the same command would run again.

    Args:
        ends: case -> the code of its last record.
    """
    codes = [ends.get(case.key) for case in todo]
    return CasesLeft(codes.count(None), failed=sum(code in RETRIED for code in codes))


def _ends(run: SuiteRun) -> dict[Key, str]:
    """Case -> the code of its last record.

    Raises:
        UsageError: the head has other settings.
    """
    cases = record.of_kind(record.resumed(run.records, run.head()), CaseLine)
    return {(case["level"], case["id"], case["sample"]): case["code"] for case in cases}


def _found(
    run: SuiteRun, case: SuiteCase, worker: BenchWorker, gpu: str, *, is_alone: bool
) -> Record:
    job: Record = {
        "spec": case.spec,
        "candidate": case.candidate,
        "folder": str(run.work / case.folder),
        "options": run.options,
        "max_autotune": run.max_autotune,
        "room": str(_room(run, gpu)),
        "alone": is_alone,
        "timeout_s": run.timeout_s,
    }
    try:
        return worker.run(job, run.timeout_s)
    except InfraError as error:
        return failure("infra", str(error))


def _room(run: SuiteRun, gpu: str) -> Path:
    """The folder in which the processes of a GPU share out its memory."""
    room = run.work / f"gpu-{gpu}"
    room.mkdir(exist_ok=True)
    return room


def _line(run: SuiteRun, case: SuiteCase) -> Record:
    return {
        "record": "benchmark_case",
        "suite": run.suite,
        "level": case.level,
        "policy": run.policy,
        "mode": run.options["mode"],
        "precision": run.options["precision"],
        "id": case.id,
        "sample": case.sample,
        "name": case.name,
    }


def failure(code: str, message: str) -> Record:
    """The record of a case that came to no verdict."""
    return {"correct": False, "kept": False, "has_triton": False, "code": code, "message": message}


def found_of(verdict: Verdict) -> Record:
    """The fields of a case's record that follow from its verdict. Times are there if the candidate
    was accepted and timed."""
    facts: Record = {
        "correct": verdict.accepted,
        "kept": verdict.accepted,
        "has_triton": verdict.accepted,
        "code": verdict.code,
        "message": verdict.message,
        "errors": asdict(verdict.errors) if verdict.errors else None,
        "eager": None,
        "compiled": None,
        "optimized": None,
        "speedup_intervals": {},
    }
    if verdict.accepted and verdict.times:
        facts["eager"] = asdict(verdict.times["reference"])
        facts["optimized"] = asdict(verdict.times["candidate"])
        facts["speedup_intervals"] = {"eager": verdict.speedup_interval}
    return facts


def describe(line: CaseLine) -> str:
    """One line about a case: ratios to rivals and the time as delivered, then failure and form."""
    words = [] if line["correct"] else [_failed(line)]
    if line.get("form"):
        words.append(f"form {line['form']}")
    ratios = [
        f"{ratio.value:.2f}x over {label}{_interval(ratio)}"
        for name, label in RIVALS.items()
        if (name != BETTER or line.get(COMPILE)) and (ratio := over(line, name))
    ]
    if timing := delivered_timing(line):
        words = [*ratios, f"{timing['median_ms']:.3f} ms", *words]
    return ", ".join(words) or str(line["code"])


def _failed(line: CaseLine) -> str:
    return f"{line['code']}: {line.get('message', '')[:160]}"


def _interval(ratio: Ratio) -> str:
    return f" ({ratio.interval[0]:.2f} to {ratio.interval[1]:.2f})" if ratio.interval else ""
