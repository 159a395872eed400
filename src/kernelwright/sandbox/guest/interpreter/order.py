"""Guest side: the programs of a launch run in another order than the interpreter's.

A GPU runs programs in any order, and the interpreter one after the other. There a program could
use what the program before has stored, without waiting for it. Programs that wait for each other
need the order: they load in a loop until another program has stored. So kernels with atomic
operations or volatile loads in such loops keep the order.
"""

import dis
import random
from collections.abc import Iterable, Iterator
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
    """Whether programs of a kernel may wait for each other: a loop with a condition, in the kernel
    or in a function that the kernel calls, names an operation by which programs wait."""
    if not names_waiting(kernel):  # most kernels: loops need not be read
        return False
    functions = list(_functions(kernel))
    words: dict[str, set[str]] = {}
    for name, function in functions:
        own = () if _is_of_triton(function) else _words(function.__code__)
        words.setdefault(name, {function.__name__}).update(own)
    waiting: set[str] = set()
    """Names of functions that wait, or that call others which do."""

    def wait(names: Iterable[str]) -> bool:
        return any(name in waiting or any(part in name for part in _WAITS) for name in names)

    while new := {name for name, own in words.items() if name not in waiting and wait(own)}:
        waiting |= new
    return any(wait(_loop_words(f.__code__)) for _, f in functions if not _is_of_triton(f))


def names_waiting(kernel: Any) -> bool:
    """Whether a kernel, or a function that the kernel calls, names an operation by which programs
    wait for each other."""
    functions = [function for _, function in _functions(kernel)]
    codes = [function.__code__ for function in functions if not _is_of_triton(function)]
    names = {function.__name__ for function in functions}.union(*map(_words, codes))
    return any(part in name for part in _WAITS for name in names)


def _functions(kernel: Any) -> Iterator[tuple[str, FunctionType]]:
    """Yields the function of a kernel, and all functions that its code names, each with its name
    there. The code of Triton's own functions is not read."""
    todo, seen = [("", kernel)], set[tuple[str, int]]()
    while todo:
        name, function = todo.pop()
        # By their types: attributes of the candidate's own classes may run code.
        if type(function) is staticmethod:
            function = function.__func__
        while issubclass(type(function), KernelInterface):
            function = function.fn
        if type(function) is not FunctionType or (name, id(function)) in seen:
            continue
        seen.add((name, id(function)))
        yield name, function
        if _is_of_triton(function):
            continue
        words, known = set(_words(function.__code__)), function.__globals__
        values = [(word, known[word]) for word in words & known.keys()]
        cells = function.__closure__ or ()
        for free, cell in zip(function.__code__.co_freevars, cells, strict=True):
            with suppress(ValueError):  # the cell is empty
                values.append((free, cell.cell_contents))
        # Functions may lie in a class or in another module.
        for _, space in [pair for pair in values if issubclass(type(pair[1]), type | ModuleType)]:
            values += [(word, value) for word, value in vars(space).items() if word in words]
        todo += values


def _is_of_triton(function: FunctionType) -> bool:
    return str(function.__module__).startswith("triton.")


def _loop_words(code: CodeType) -> Iterator[str]:
    """Yields names and keywords in the loops of a code that have a condition: a jump backwards that
    is no `for`."""
    steps = {step.offset: step for step in dis.get_instructions(code)}
    for jump in steps.values():
        if "JUMP" not in jump.opname or not isinstance(jump.argval, int):
            continue
        if jump.argval >= jump.offset or steps[jump.argval].opname == "FOR_ITER":
            continue
        for step in steps.values():
            if jump.argval <= step.offset <= jump.offset:
                names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
                yield from (name for name in names if isinstance(name, str))


def _words(code: CodeType) -> Iterator[str]:
    """Yields names and keywords of a function's code."""
    yield from (*code.co_names, *code.co_freevars)
    for value in code.co_consts:
        if isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, str))
        elif isinstance(value, CodeType):
            yield from _words(value)
