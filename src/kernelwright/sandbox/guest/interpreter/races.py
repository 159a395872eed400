"""Guest side: programs of a launch that read what other programs of the launch have stored.

The interpreter runs programs one after the other, so a sum that each program loads, raises and
stores is right there in any order. On a GPU, programs run at the same time, and such a sum loses
updates. Kernels with operations by which programs wait for each other are not looked at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

from kernelwright.sandbox.guest.interpreter.order import names_waiting

_MAX_BYTES = 4 << 20
"""Larger storages are not looked at."""


class Race(Exception):
    """A program reads what another program of the launch has stored."""


class Stores:
    """The program that stored last at each address, in the launch in progress."""

    def __init__(self) -> None:
        self.is_watched = False
        """Calls in progress are watched for races."""
        self._is_on = False
        self._programs: dict[int, np.ndarray[Any, Any]] = {}

    def start(self, kernel: Any) -> None:
        """Forgets the stores of the last launch."""
        self._programs.clear()
        self._is_on = self.is_watched and not names_waiting(kernel)

    def note(self, what: str, addresses: np.ndarray[Any, Any], start: int, end: int) -> None:
        """Notes a store to addresses in the storage from `start` to `end`, or checks a load.

        Raises:
            Race: another program has stored at an address of the load.
        """
        if not self._is_on or end - start > _MAX_BYTES:
            return
        programs = self._programs.get(start)
        if programs is None:
            if what == "load":
                return
            programs = self._programs[start] = np.zeros(end - start, dtype=np.int32)
        builder = stock.interpreter_builder
        (x, y, z), (nx, ny, _) = builder.grid_idx, builder.grid_dim
        number, at = 1 + x + nx * (y + ny * z), (addresses - np.uint64(start)).astype(np.int64)
        if what != "load":
            programs[at] = number
            return
        before = programs[at]
        others = before[(before != 0) & (before != number)]
        if others.size:
            raise Race(
                f"program {number - 1} of the launch loads {others.size} elements that other"
                f" programs have stored (program {int(others[0]) - 1} was one), and does not wait"
                " for them: on a GPU, programs run at the same time"
            )


stores = Stores()


@contextmanager
def races_watched(*, is_watched: bool) -> Iterator[None]:
    """Watches launches inside for races where asked."""
    stores.is_watched = is_watched
    try:
        yield
    finally:
        stores.is_watched = False
