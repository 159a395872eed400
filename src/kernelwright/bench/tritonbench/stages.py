"""The two stages before the judge. The first stage poses the calls of the tasks to the judge. The
second stage runs scripts as the benchmark does. Both stages continue files of an earlier run."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelwright.bench.tritonbench.checkout import BenchFile
from kernelwright.bench.tritonbench.posing import on_device
from kernelwright.bench.tritonbench.spread import spread
from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.errors import InfraError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.text import digest
from kernelwright.sandbox.host.scripts import ScriptOutcome, ScriptRunner
from kernelwright.timing.clock import gpu_lock, gpus

WORKER = "kernelwright.bench.tritonbench.posing"
CALLS, SCRIPTS = "calls.jsonl", "scripts.jsonl"
"""Files in the folder of a run: the calls of the tasks, and the results of the scripts."""
POSING, RUNNING = "eval tritonbench: calls", "eval tritonbench: scripts"
POSED_S = 8
"""The time limit of posing a task, in time limits of a script: posing lowers the calls, and makes
them several times."""
MAX_MESSAGE = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlan:
    """The settings of the two stages."""

    out: Path
    """The folder of the run."""
    channel: str
    """"T" or "G"."""
    device: str
    """"cpu" or "cuda"."""
    workers: int
    """The number of processes that work at the same time."""
    timeout_s: float
    """The most seconds that a script may take."""

    def head(self, command: str) -> Record:
        """The first record of a stage's file. The record does not name the writer of the code,
        because results of the stages do not depend on the writer.

        Args:
            command: `POSING` or `RUNNING`.
        """
        options = {"channel": self.channel, "device": self.device, "timeout_s": self.timeout_s}
        return {"record": "run", "command": command, "options": options}


# -- posing


def posed_tasks(plan: StagePlan, files: Sequence[BenchFile], say: Say) -> dict[str, Record]:
    """File's name -> record with the calls of the task. Tasks that an earlier run posed are not
    posed again.

    Raises:
        UsageError: the earlier run had other settings.
    """
    path = plan.out / CALLS
    by_name = {
        line["name"]: line
        for line in lines_of(path, plan.head(POSING))
        if line["record"] == "tritonbench_task"
    }
    left = [
        file
        for file in files
        if by_name.get(file.name, {}).get("digest") != digest(file.text) and file.fault is None
    ]

    def opened(number: int, gpu: str) -> BenchWorker:
        log = plan.out / f"posing-{number}.log"
        return BenchWorker(WORKER, log, gpu, jobs=plan.workers)

    for line in spread(left, plan.workers, opened, partial(_posed, plan)):
        record.append(path, [line])
        by_name[line["name"]] = line
        say(f"{line['name']}: {sum('reference' in call for call in line['calls'])} calls posed")
    faults = {file.name: file.fault for file in files if file.fault is not None}
    return by_name | {name: _task(name, "", [], fault) for name, fault in faults.items()}


def _task(name: str, text: str, calls: list[Record], refused: str | None) -> Record:
    line: Record = {"record": "tritonbench_task", "name": name, "digest": digest(text)}
    return line | {"calls": calls, "refused": refused}


def _posed(plan: StagePlan, worker: BenchWorker, file: BenchFile) -> Record:
    job = {"name": file.name, "golden": file.golden, "tail": file.tail}
    job |= {"channel": file.channel, "device": plan.device}
    try:
        answer = worker.run(job, POSED_S * plan.timeout_s)
    except InfraError as error:  # the golden code ended or hung the process
        why = str(error).split(":", 1)[0]
        return _task(file.name, file.text, [], f"running the golden code: {why}")
    return _task(file.name, file.text, answer["calls"], answer["refused"])


# -- scripts


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchScript:
    """A script as the benchmark runs it: code, with the tests of the task below."""

    name: str
    """The name of the task's file."""
    text: str

    @classmethod
    def of(cls, file: BenchFile, code: str, device: str) -> "BenchScript":
        """The script of a task.

        Args:
            code: the golden code or a prediction.
            device: "cpu" or "cuda".
        """
        return cls(name=file.name, text=on_device(f"{code}\n{file.tail}", device))

    @property
    def digest(self) -> str:
        """The key of the script in the file of results."""
        return digest(self.text)


def run_scripts(plan: StagePlan, scripts: Iterable[BenchScript], say: Say) -> Mapping[str, Record]:
    """Digest of a script -> record of its result. Scripts that an earlier run has run are not run
    again. A script that could not be run because of a fault of ours has no record.

    Raises:
        UsageError: the earlier run had other settings.
    """
    path = plan.out / SCRIPTS
    by_digest = {
        line["digest"]: line
        for line in lines_of(path, plan.head(RUNNING))
        if line["record"] == "tritonbench_script"
    }
    wanted = {script.digest: script for script in scripts}
    left = [script for name, script in wanted.items() if name not in by_digest]

    def opened(_number: int, gpu: str) -> ScriptRunner:
        return ScriptRunner(plan.device, gpu)

    for number, line in enumerate(spread(left, plan.workers, opened, partial(_run, plan)), 1):
        if line is not None:
            record.append(path, [line])
            by_digest[line["digest"]] = line
            say(f"{number} of {len(left)} scripts run: {line['name']} exits with {line['code']}")
    return by_digest


def _run(plan: StagePlan, runner: ScriptRunner, script: BenchScript) -> Record | None:
    try:
        with _beside_others(plan, runner):
            outcome = runner.run(script.text, plan.timeout_s, script.name)
    except InfraError:
        return None
    return {
        "record": "tritonbench_script",
        "name": script.name,
        "digest": script.digest,
        "code": outcome.code,
        "output": hashlib.sha256(outcome.stdout).hexdigest()[:16],
        "message": _last_line(outcome),
        "seconds": round(outcome.seconds, 2),
    }


def _beside_others(plan: StagePlan, runner: ScriptRunner) -> AbstractContextManager[None]:
    """The lock of the runner's GPU, shared: processes that take times there wait meanwhile."""
    if plan.device != "cuda":
        return nullcontext()
    return gpu_lock(gpus().index(runner.gpu), shared=True)


def _last_line(outcome: ScriptOutcome) -> str:
    lines = outcome.stderr.strip().splitlines()
    return lines[-1][:MAX_MESSAGE] if lines and outcome.code else ""


def lines_of(path: Path, head: Record) -> list[Record]:
    """The records of a file in the folder of a run, without the head. A new file gets the head.

    Raises:
        UsageError: the file has a head with other settings.
    """
    lines = record.resumed(path, head)
    if not lines:
        record.append(path, [head | {"environment": record.environment()}])
    return lines[1:]
