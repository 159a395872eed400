"""The workers of `verify.linting.files`: each lints one task after another in a process of its own.

A job is {"spec": ...}; its answer has "report", or "error" with its "kind": "usage" (the task's
own), "memory" (it may fit when it is alone) or "infra" (ours).
"""

import gc
import os
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.core.record import Record
from kernelwright.verify.linting.task import lint, task_name
from kernelwright.verify.room import is_about_memory, room


def lints(device: str, budget_s: float, num_workers: int, memory: str) -> "LintWorker":
    """The factory of the workers.

    Args:
        budget_s: seconds for one task's values and operators.
        num_workers: that share the device and the cores.
        memory: an empty folder, in which they agree on who has how much of the GPU's memory.
    """
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // num_workers))
    return LintWorker(device, budget_s, num_workers, Path(memory))


class LintWorker:
    def __init__(self, device: str, budget_s: float, num_workers: int, memory: Path) -> None:
        self.device, self.budget_s, self.num_workers = device, budget_s, num_workers
        self.memory = memory

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
            kind = "memory" if is_about_memory(error) else "usage"
            message = _without_place(error, spec)
            return {"kind": kind, "error": message, "remedy": error.remedy}
        except (KernelwrightError, Exception) as error:
            text = "".join(traceback.format_exception_only(error)).strip()
            return {"kind": "infra", "error": text}
        finally:
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def close(self) -> None: ...

    def _room(self, needed_bytes: int) -> AbstractContextManager[None]:
        return nullcontext() if self.num_workers == 1 else room(self.memory, needed_bytes)


def _without_place(error: UsageError, spec: str) -> str:
    """The message with the task's name in place of where the file lies."""
    where = task_name(spec) if error.file == spec else Path(error.file or "").name
    line = f":{error.line}" if error.line else ""
    return f"{where}{line}: {error.message}" if error.file else error.message
