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
    """Returns device memory in bytes, from experience: the larger need of calling the whole and of
    probing its parts."""
    return max(WHOLE_FACTOR * program.bytes_fused(), parts_bytes(program))


def parts_bytes(program: Program) -> int:
    """Returns bytes of device memory for all values that two runs make and read."""
    types = [value.type for value in program.inputs]
    types += [tensor_type for call in program.calls for tensor_type in call.types]
    return int(PARTS_FACTOR * sum(tensor_type.num_bytes for tensor_type in types))


def is_about_memory(error: UsageError) -> bool:
    """Whether a task may succeed when it runs alone, or on a larger device."""
    return "memory" in error.message or "too big" in error.message


@contextmanager
def room(folder: Path, num_bytes: int) -> Iterator[None]:
    """Holds a part of the GPU's memory; waits while processes that share the folder hold too much.

    A need above the GPU's size means all of it. PyTorch's cached memory is given back at the end.
    Without a GPU nothing is held.

    Args:
        folder: lock files of all processes that share the GPU.
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
    """Holds `num_slots` slots, which processes share by locks on files of this folder.

    A process that waits for slots holds a gate, so that two never wait for each other. Small
    requests have a gate and slots of their own, so that they need not wait behind a large request.
    Either kind takes slots of the other kind if it lacks some and nobody waits there.
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
                # Every process takes both gates in this order: no two can wait in a circle.
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
    """Locks slots until there are `num_slots`: own slots as they come free, and slots of the other
    kind only if these complete the request."""
    kind, theirs = others
    left = num_slots
    while True:
        left -= _take_some(folder, left, own, held)
        if left and (gate := _locked(folder / f"gate-{kind}")) is not None:
            with gate, ExitStack() as rest:
                # All or none: slots of the other kind are not kept while this process still waits.
                if _take_some(folder, left, theirs, rest) == left:
                    held.push(rest.pop_all())
                    left = 0
        if not left:
            return
        time.sleep(POLL_S)


def _take_some(folder: Path, num_slots: int, among: Iterable[int], held: ExitStack) -> int:
    """Locks up to `num_slots` free slots, and returns how many it locked."""
    num_taken = 0
    for i in among:
        if num_taken < num_slots and _take(folder / f"slot-{i}", held):
            num_taken += 1
    return num_taken


@contextmanager
def _gate(folder: Path, kind: str) -> Iterator[None]:
    """Waits for the gate and holds it: no other process gathers slots of this kind meanwhile."""
    with (folder / f"gate-{kind}").open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _take(slot: Path, held: ExitStack) -> bool:
    """Locks a slot's file until `held` is closed. False if another process has the lock."""
    file = _locked(slot)
    if file is not None:
        held.enter_context(file)
    return file is not None


def _locked(path: Path) -> IO[str] | None:
    """Returns the file, locked until it is closed; None if another process has the lock."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
