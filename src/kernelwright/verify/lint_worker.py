"""The workers of `verify.lint_files`: each lints one task after another in a process of its own.

A job is {"spec": ...}; its answer has "report", or "error" with its "kind": "usage" (the task's
own), "memory" (it may fit when it is alone) or "infra" (ours).
"""

import fcntl
import gc
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.core.record import Record
from kernelwright.verify.lint_task import lint, task_name


def lints(device: str, budget_s: float, num_workers: int, lock: str) -> "LintWorker":
    """The factory of the workers.

    Args:
        budget_s: seconds for one task's values and operators.
        num_workers: that share the device and the cores.
        lock: a file; who holds it runs a task too large to run beside others of its size.
    """
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // num_workers))
    return LintWorker(device, budget_s, num_workers, Path(lock))


class LintWorker:
    def __init__(self, device: str, budget_s: float, num_workers: int, lock: Path) -> None:
        self.device, self.budget_s, self.num_workers = device, budget_s, num_workers
        self.lock = lock

    def begin(self, job: Record) -> None:
        """Nothing to do beforehand."""

    def run(self, job: Record) -> Record:
        spec = job["spec"]
        try:
            report = lint(spec, device=self.device, budget_s=self.budget_s, room=self._room)
            return {"report": report.to_json()}
        except torch.OutOfMemoryError as error:
            return {"kind": "memory", "error": str(error).splitlines()[0]}
        except UsageError as error:
            kind = "memory" if "memory" in error.message or "too big" in error.message else "usage"
            return {"kind": kind, "error": _without_place(error, spec)}
        except (KernelwrightError, Exception) as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            return {"kind": "infra", "error": text}
        finally:
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def close(self) -> None: ...

    @contextmanager
    def _room(self, needed_bytes: int) -> Iterator[None]:
        """Tasks that need more than their share of the device's memory run one at a time."""
        if not torch.cuda.is_available() or self.num_workers == 1:
            yield
            return
        share = torch.cuda.get_device_properties(0).total_memory / (2 * self.num_workers)
        if needed_bytes <= share:
            yield
            return
        with self.lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _without_place(error: UsageError, spec: str) -> str:
    """The message with the task's name in place of where the file lies."""
    where = task_name(spec) if error.file == spec else Path(error.file or "").name
    line = f":{error.line}" if error.line else ""
    return f"{where}{line}: {error.message}" if error.file else error.message
