"""Room on one device for several processes: who needs much waits until others give it back."""

import fcntl
import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.program import Program
from kernelwright.timing.stages import stage

NUM_SLOTS = 64
"""Parts that the device's memory is given out in."""
USABLE = 0.85
"""Share of the memory that is given out: the rest is for the contexts of all processes."""
POLL_S = 0.02
WHOLE_FACTOR = 5
"""Memory that calling a task needs, as a multiple of inputs and outputs: two draws, a copy, two
answers, and what the reference makes in between."""
PARTS_FACTOR = 2.5
"""Memory that probing operators needs, as a multiple of all values of one run: two runs."""


Hold = Callable[[], AbstractContextManager[object]]
"""Makes the context in which a process has anything in the device's memory."""


def needed_bytes(program: Program) -> int:
    """Device memory at most, from experience: for calling the whole, and for probing its parts."""
    return max(WHOLE_FACTOR * program.bytes_fused(), parts_bytes(program))


def parts_bytes(program: Program) -> int:
    """Device memory for everything that two runs make and read."""
    made = [value.type for value in program.inputs]
    made += [each for call in program.calls for each in call.types]
    return int(PARTS_FACTOR * sum(each.num_bytes for each in made))


def is_about_memory(error: UsageError) -> bool:
    """It may fit when it is alone, or on a larger device."""
    return "memory" in error.message or "too big" in error.message


@contextmanager
def room(folder: Path, num_bytes: int) -> Iterator[None]:
    """Hold a part of the GPU's memory; wait while others who share the folder hold too much.

    More than there is means all of it. What PyTorch keeps for later is given back at the end.
    """
    if not torch.cuda.is_available():
        yield
        return
    usable = USABLE * torch.cuda.get_device_properties(0).total_memory
    with reserved(folder, min(math.ceil(NUM_SLOTS * num_bytes / usable), NUM_SLOTS)):
        try:
            yield
        finally:
            gc.collect()
            torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()


@contextmanager
def reserved(folder: Path, num_slots: int) -> Iterator[None]:
    """Hold so many of the slots that processes share by locks on files of this folder.

    Who waits for slots keeps the gate, so that two never wait for each other.
    """
    with ExitStack() as held:
        with stage("wait for room", is_waiting=True), (folder / "gate").open("a") as gate:
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
