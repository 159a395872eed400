"""Guest side: the programs of a launch run in another order than the interpreter's.

A GPU runs programs in any order, and the interpreter one after the other. There a program could
use what the program before has stored, without waiting for it. Programs that wait for each other
need the order: they load in a loop until another program has stored. So kernels with such loops
and with atomic operations or volatile loads keep the order.
"""

import dis
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

from triton.runtime import interpreter as stock
from triton.runtime.jit import KernelInterface

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
    """Whether programs of a kernel may wait for each other, by names and loops in the kernel and in
    the functions that it calls."""
    functions = list(_functions(kernel))
    codes = [function.__code__ for function in functions if not _is_of_triton(function)]
    words = {function.__name__ for function in functions}.union(*map(_words, codes))
    is_waiting = any(wait in word for word in words for wait in _WAITS)
    return is_waiting and any(map(_loops_until, codes))


def _functions(kernel: Any) -> Iterator[FunctionType]:
    """Yields the function of a kernel, and all functions that its code names. The code of Triton's
    own functions is not read."""
    todo, seen = [kernel], set[int]()
    while todo:
        function = todo.pop()
        # By their types: attributes of the candidate's own classes may run code.
        if type(function) is staticmethod:
            function = function.__func__
        while issubclass(type(function), KernelInterface):
            function = function.fn
        if type(function) is not FunctionType or id(function) in seen:
            continue
        seen.add(id(function))
        yield function
        if _is_of_triton(function):
            continue
        words = set(_words(function.__code__))
        values = [function.__globals__[name] for name in words if name in function.__globals__]
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # the cell is empty
                values.append(cell.cell_contents)
        # Functions may lie in a class or in another module.
        for space in [value for value in values if issubclass(type(value), type | ModuleType)]:
            values += [value for name, value in vars(space).items() if name in words]
        todo += values


def _is_of_triton(function: FunctionType) -> bool:
    return str(function.__module__).startswith("triton.")


def _loops_until(code: CodeType) -> bool:
    """Whether a code has a loop with a condition: a jump backwards that is no `for`."""
    instructions = {step.offset: step for step in dis.get_instructions(code)}
    back = [
        instructions[step.argval]
        for step in instructions.values()
        if "JUMP" in step.opname and isinstance(step.argval, int) and step.argval < step.offset
    ]
    return any(target.opname != "FOR_ITER" for target in back)


def _words(code: CodeType) -> Iterator[str]:
    """Yields names and keywords of a function's code."""
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, str))
        elif isinstance(value, CodeType):
            yield from _words(value)
