"""Room on one device for several processes: who needs much waits until others give it back."""

import fcntl
import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.program import Program
from kernelwright.timing.stages import stage

NUM_SLOTS = 64
"""Parts that the device's memory is given out in."""
NUM_SMALL = 10
"""Slots that are for those who want no more than so many."""
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
    types = [value.type for value in program.inputs]
    types += [tensor_type for call in program.calls for tensor_type in call.types]
    return int(PARTS_FACTOR * sum(tensor_type.num_bytes for tensor_type in types))


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

    Who waits for slots keeps a gate, so that two never wait for each other. Who wants few has a
    gate and slots of its own, so that a small case need not wait until a large one has had its
    turn; either kind takes of the other's what it is short of, if nobody waits there.
    """
    small, large = range(NUM_SMALL), range(NUM_SMALL, NUM_SLOTS)
    with ExitStack() as locks:
        with stage("wait for room", is_waiting=True), ExitStack() as gates:
            if num_slots <= NUM_SMALL:
                gates.enter_context(_gate(folder, "small"))
                _gather(folder, num_slots, small, ("large", large), locks)
            elif num_slots <= len(large):
                gates.enter_context(_gate(folder, "large"))
                _gather(folder, num_slots, large, ("small", small), locks)
            else:
                gates.enter_context(_gate(folder, "large"))
                gates.enter_context(_gate(folder, "small"))
                _gather(folder, num_slots, range(NUM_SLOTS), ("large", ()), locks)
        yield


def _gather(
    folder: Path,
    num_slots: int,
    own: Iterable[int],
    others: tuple[str, Iterable[int]],
    held: ExitStack,
) -> None:
    """Lock slots until there are so many: one's own as they come free, and others' if these are
    the rest."""
    kind, theirs = others
    left = num_slots
    while True:
        left -= _take_some(folder, left, own, held)
        if left and (gate := _locked(folder / f"gate-{kind}")) is not None:
            with gate, ExitStack() as rest:
                if _take_some(folder, left, theirs, rest) == left:
                    held.push(rest.pop_all())
                    left = 0
        if not left:
            return
        time.sleep(POLL_S)


def _take_some(folder: Path, num_slots: int, among: Iterable[int], held: ExitStack) -> int:
    """How many of so many were free."""
    num_taken = 0
    for i in among:
        if num_taken < num_slots and _take(folder / f"slot-{i}", held):
            num_taken += 1
    return num_taken


@contextmanager
def _gate(folder: Path, kind: str) -> Iterator[None]:
    """Nobody else waits for slots of this kind meanwhile."""
    with (folder / f"gate-{kind}").open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _take(slot: Path, held: ExitStack) -> bool:
    """Lock a slot's file until `held` is closed; False where somebody has it."""
    file = _locked(slot)
    if file is not None:
        held.enter_context(file)
    return file is not None


def _locked(path: Path) -> IO[str] | None:
    """The file, locked until it is closed; None where somebody has it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
