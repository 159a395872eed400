"""Guest side: makes the process of a candidate look like a user's process."""

import importlib
import io
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from kernelwright.sandbox.guest.disguise import disguised
from kernelwright.sandbox.guest.interpreter.order import program_order
from kernelwright.sandbox.guest.interpreter.races import races_watched
from kernelwright.sandbox.shared.manner import MAX_THREADS, Manner

_loaded_before = frozenset(sys.modules)
# Imported here, so that its dependencies are known: pytest is one, where pytest is installed.
time_machine: Any = importlib.import_module("time_machine")

_PACKAGE = __name__.partition(".")[0]
_TOOLS = frozenset({"ml_dtypes", *(name.partition(".")[0] for name in sys.modules)}) - {
    name.partition(".")[0] for name in _loaded_before | sys.stdlib_module_names
}
"""Packages that our modules import, and PyTorch and Triton do not."""
_CLOCKS = {name: sys.modules[name] for name in ("time_machine", "_time_machine")}
_ahead_s = 0
_SHARE = 1 << 15
"""Elements below which PyTorch gives no work to a further thread (`at::internal::GRAIN_SIZE`)."""
_COUNTERS = ("monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")


def move_clocks_from_here_on() -> None:
    """Makes the counters of `time` follow `surrounded`. time_machine moves its other clocks, and
    `datetime`."""
    for name in _COUNTERS:
        _wrap_counter(name, 1)
        _wrap_counter(f"{name}_ns", 1_000_000_000)


def _wrap_counter(name: str, ticks: int) -> None:
    stock: Callable[..., Any] = getattr(time, name)

    @disguised(stock)
    def moved(*clock: Any) -> Any:
        # time_machine moves this clock.
        is_moved = clock == (time.CLOCK_REALTIME,)
        return stock(*clock) + (0 if is_moved else _ahead_s * ticks)

    setattr(time, name, moved)


def take_standard_streams(scratch: Path) -> None:
    """Sends standard output and error to a file or to nowhere, as a user's program does. Nobody
    reads them."""
    target = os.devnull
    if random.SystemRandom().random() < 0.5:
        target = str(scratch / "out.log")
    with open(target, "ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    sys.stdout, sys.stderr = _stream(1, "<stdout>"), _stream(2, "<stderr>")
    sys.argv = ["main.py"]


def _stream(descriptor: int, name: str) -> io.TextIOWrapper:
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    raw.name = name
    stream: Any = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", line_buffering=True)
    stream.mode = "w"  # as Python sets it
    return stream  # type: ignore[no-any-return]


def hide_ourselves() -> None:
    """Removes our modules and our tools from `sys.modules`: a user's process has none of them.
    Loaded code still works."""
    _hide([name for name in sys.modules if name.partition(".")[0] in {_PACKAGE, *_TOOLS}])


def _hide(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def start_threads() -> None:
    """Starts PyTorch's threads before a candidate loads: they must not count as its threads."""
    torch.set_num_threads(MAX_THREADS)
    torch.zeros(MAX_THREADS * _SHARE, dtype=torch.bool).any()
    torch.set_num_threads(1)


_left: dict[str, str] = {}


def left_settings() -> dict[str, str]:
    """Returns the settings that calls left otherwise than they were at their beginning, by the
    attestation's names. They stay in this list: the old values are restored after each call."""
    return dict(_left)


def _note(name: str, before: object, after: object) -> None:
    if after != before:
        _left[name] = f"{after} (set in a call with {before})"


@contextmanager
def grad_mode(*, has_grad: bool) -> Iterator[None]:
    """Gives the code inside this grad mode, restores the old one, and notes another one that the
    code leaves."""
    with torch.set_grad_enabled(has_grad):
        yield
        _note("torch.is_grad_enabled()", has_grad, torch.is_grad_enabled())


def _seeds() -> list[int]:
    """Returns the seeds of PyTorch's generators that are in use."""
    generators = [torch.default_generator]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += torch.cuda.default_generators
    return [generator.initial_seed() for generator in generators]


@contextmanager
def surrounded(manner: Manner) -> Iterator[None]:
    """Gives the call inside these surroundings, restores the old ones afterwards, and notes
    settings that the call leaves changed."""
    global _ahead_s
    torch.set_num_threads(manner.num_threads)
    moved = time_machine.travel(time.time() + manner.clock_s) if manner.clock_s else None
    if moved is not None:
        # The moved clocks look up time_machine by name, so it is hidden in the other calls alone.
        sys.modules.update(_CLOCKS)
        moved.start()
        _ahead_s = manner.clock_s
    try:
        # `inference_mode(False)` would turn grad mode on.
        inference = torch.inference_mode() if manner.is_inference else nullcontext()
        with (
            grad_mode(has_grad=manner.has_grad),
            inference,
            program_order(manner.order_seed),
            races_watched(is_watched=manner.traces_memory),
        ):
            seeds = _seeds()
            yield
            # Compared here: a call may set what was the value at birth, as one thread.
            _note("torch.get_num_threads()", manner.num_threads, torch.get_num_threads())
            # A call may draw random numbers. A new seed changes what others draw.
            _note("seeds of the generators", seeds, _seeds())
    finally:
        torch.set_num_threads(1)
        if moved is not None:
            _ahead_s = 0
            moved.stop()
            _hide(_CLOCKS)
