"""Runs KernelBench's own evaluator on kernels that the judge accepted, and records differences.

The evaluator comes from the user's checkout and runs in a child process, on a GPU only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.bench.kernelbench import kernel_file
from kernelwright.bench.suite import SuiteCase
from kernelwright.bench.worker import BenchWorker
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record

EVALUATOR = Path("src", "kernelbench", "eval.py")
"""In a checkout."""
WORKER = "kernelwright.bench.judge.kernelbench_child"
NUM_TRIALS = 5
"""Sets of inputs for each kernel, as in KernelBench's scripts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossCheck:
    """The settings of a cross-check."""

    root: Path
    """A checkout of KernelBench."""
    kernels: Path
    """Folder of kernels, named as it names them."""
    records: Path
    """JSONL; kernels already there are not looked at again."""
    timeout_s: float
    """The time limit of one kernel."""

    def run(self, tasks: Sequence[SuiteCase], say: Callable[[str], None]) -> list[Record]:
        """Evaluate each task that has a kernel and no record yet.

        Returns:
            All records, earlier ones included.

        Raises:
            UsageError: there is no evaluator at `root`.
        """
        if not (self.root / EVALUATOR).is_file():
            raise UsageError(
                "no evaluator here",
                file=str(self.root / EVALUATOR),
                remedy="give --root a whole checkout of KernelBench",
            )
        lines = record.resumed(self.records)
        done = {(line["level"], line["id"], line["sample"]) for line in lines}
        with BenchWorker(WORKER, self.records.with_suffix(".log")) as worker:
            for task in tasks:
                kernel = self.kernels / kernel_file(task)
                if task.key in done or not kernel.exists():
                    continue
                line = _line(task, self._evaluated(task, kernel, worker))
                record.append(self.records, [line])
                say(f"{task.level}/{task.name}: {line['issue'] or 'agrees'}")
                lines.append(line)
                if not line["agrees"]:
                    worker.end()  # what went wrong may have broken its CUDA context
        return lines

    def _evaluated(self, task: SuiteCase, kernel: Path, worker: BenchWorker) -> Record:
        job = {
            "root": str(self.root),
            "reference": task.spec,
            "kernel": str(kernel),
            "trials": NUM_TRIALS,
        }
        try:
            return worker.run(job, self.timeout_s)
        except InfraError as error:
            return {"compiled": False, "correct": False, "issue": str(error)}


def _line(task: SuiteCase, theirs: Record) -> Record:
    """The record of a kernel. The judge accepted all of them, so both agree if the evaluator calls
    the kernel correct."""
    return {
        "record": "cross_check",
        "level": task.level,
        "id": task.id,
        "sample": task.sample,
        "name": task.name,
        "agrees": theirs["correct"],
        **theirs,
    }
