"""Guest side: the programs of a launch run in another order than the interpreter's.

A GPU runs programs in any order, and the interpreter one after the other. There a program could
use what the program before has stored, without waiting for it. Kernels that wait for each other
need the order, so kernels with atomic operations or volatile loads keep it.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

from triton.runtime import interpreter as stock

_WAITS = ("atomic", "volatile", "cache_modifier", "inline_asm")
"""Parts of names in kernels by which programs wait for each other."""
_MAX_PROGRAMS = 1 << 16
"""A larger grid keeps its order."""

Sizes = tuple[int, int, int]


class _Order:
    """The order of the launch in progress."""

    def __init__(self) -> None:
        self.seed = 0
        self.may_change = False
        """The kernel of the launch does not wait."""
        self.sizes: Sizes = (1, 1, 1)
        self.places: list[int] = []
        """The number of the program that runs in each turn; empty: programs run in order."""


_order = _Order()


@contextmanager
def program_order(seed: int) -> Iterator[None]:
    """Runs the programs of launches inside in an order that the seed draws; 0: in the
    interpreter's order."""
    before, _order.seed = _order.seed, seed
    try:
        yield
    finally:
        _order.seed = before


def install() -> None:
    """Patch the interpreter of this process."""
    executor: Any = stock.GridExecutor
    builder: Any = stock.InterpreterBuilder
    stock_init = executor._init_args_hst
    stock_dim, stock_idx = builder.set_grid_dim, builder.set_grid_idx

    def init_args(self: Any, *args: Any) -> Any:
        _order.may_change = bool(_order.seed) and not waits(self.fn)
        return stock_init(self, *args)

    def set_grid_dim(self: Any, nx: int, ny: int, nz: int) -> None:
        _order.sizes, _order.places = (nx, ny, nz), []
        if _order.may_change and 1 < nx * ny * nz <= _MAX_PROGRAMS:
            _order.places = list(range(nx * ny * nz))
            random.Random(_order.seed).shuffle(_order.places)
        stock_dim(self, nx, ny, nz)

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        if _order.places:
            _, ny, nz = _order.sizes
            rest, z = divmod(_order.places[(x * ny + y) * nz + z], nz)
            x, y = divmod(rest, ny)
        stock_idx(self, x, y, z)

    executor._init_args_hst = init_args
    builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx


def waits(kernel: Any) -> bool:
    """Whether programs of a kernel may wait for each other, by the names in the kernel and in the
    functions that it calls."""
    todo, seen = [kernel], set[int]()
    while todo:
        function = todo.pop()
        function = getattr(function, "__func__", function)  # of a static method
        function = getattr(function, "fn", function)  # of a kernel
        code = getattr(function, "__code__", None)
        if id(function) in seen or not isinstance(code, CodeType):
            continue
        seen.add(id(function))
        words = set(_words(code))
        values = [function.__globals__[name] for name in words if name in function.__globals__]
        values += [cell.cell_contents for cell in function.__closure__ or ()]
        # Functions may lie in a class or in another module.
        for space in [value for value in values if isinstance(value, type | ModuleType)]:
            values += [value for name, value in vars(space).items() if name in words]
        words |= {str(getattr(value, "__name__", "")) for value in values}
        if any(wait in word for word in words for wait in _WAITS):
            return True
        todo += values
    return False


def _words(code: CodeType) -> Iterator[str]:
    """Yields names and keywords of a function's code."""
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, str))
        elif isinstance(value, CodeType):
            yield from _words(value)
