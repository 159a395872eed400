"""The workers of `verify.lint_files`: each lints one task after another in a process of its own.

A job is {"spec": ...}; its answer has "report", or "error" with its "kind": "usage" (the task's
own), "memory" (it may fit when it is alone) or "infra" (ours).
"""

import fcntl
import gc
import math
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.core.record import Record
from kernelwright.verify.lint_task import lint, task_name


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
        """Hold a part of the GPU's memory; wait while others hold too much of it."""
        if not torch.cuda.is_available() or self.num_workers == 1:
            yield
            return
        total = torch.cuda.get_device_properties(0).total_memory
        with reserved(self.memory, min(math.ceil(NUM_SLOTS * needed_bytes / total), NUM_SLOTS)):
            yield


NUM_SLOTS = 16
"""Parts that the device's memory is given out in."""
POLL_S = 0.02


@contextmanager
def reserved(folder: Path, num_slots: int) -> Iterator[None]:
    """Hold so many of the slots that processes share by locks on files of this folder.

    Who waits for slots keeps the gate, so that two never wait for each other.
    """
    with ExitStack() as held:
        with (folder / "gate").open("a") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            num_held = 0
            while num_held < num_slots:
                for i in range(NUM_SLOTS):
                    if num_held < num_slots and _take(folder / f"slot-{i}", held):
                        num_held += 1
                if num_held < num_slots:
                    time.sleep(POLL_S)
        yield


def _take(slot: Path, held: ExitStack) -> bool:
    """Lock a slot's file until `held` is closed; False where somebody has it."""
    file = slot.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    held.enter_context(file)
    return True


def _without_place(error: UsageError, spec: str) -> str:
    """The message with the task's name in place of where the file lies."""
    where = task_name(spec) if error.file == spec else Path(error.file or "").name
    line = f":{error.line}" if error.line else ""
    return f"{where}{line}: {error.message}" if error.file else error.message
