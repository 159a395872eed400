"""The task at other sizes: one size changed wherever it occurs, or in one dimension alone."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.draws.structure import Structure, are_kept
from kernelwright.programs.resizing.variants import larger_size
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.resized import resized, sizes_of
from kernelwright.verify.tasks.task import CPU, FunctionTask, InputChange, Task
from kernelwright.verify.tasks.varied_arguments import are_plain, rebuilt

Place = tuple[int, int] | None
"""Input and dimension; None for all dimensions of one size."""

Resized = tuple[str, FunctionTask | ModuleTask]
"""The change, and the task."""


def other_sizes(
    task: FunctionTask | ModuleTask,
    first: list[Any],
    kept: list[Structure | None],
    dice: random.Random,
    *,
    is_drop_in: bool,
) -> Iterator[list[Resized]]:
    """Yields ways to change one size wherever it occurs; the first way that the reference accepts
    is used.

    A size changes in tensors alone, with numbers among the inputs, or with arguments of the
    constructor. The larger size lies beyond the next power of two, which is the usual block size of
    kernels.

    Args:
        first: one draw of the inputs.
        kept: structure of each input (`programs.draws.structure`), which other sizes must keep.
        is_drop_in: a size that several inputs have changes in one dimension alone, too, and a batch
            becomes a single sample, which the reference may broadcast. Otherwise one dimension
            changes alone only where the size cannot change in all of them: a kernel may rely on
            equal sizes, such as those of queries and values.
    """
    sizes = sorted(sizes_of(first))
    # Only some of the variants are tried, so their order is drawn.
    dice.shuffle(sizes)
    everywhere: dict[int, list[Resized]] = {}
    turns = [_larger, _single, _smaller, *([_one_sample] if is_drop_in else [])]
    for new_sizes in turns:
        for size in sizes:
            for new, place in new_sizes(first, size, dice):
                if place is not None and kept[place[0]] is not None:
                    continue  # a triangle or a symmetric matrix is square
                tried = _resizings(task, first, kept, size, new, place)
                ways = [way for way in tried if _keeps_structures(way[1], kept, size, dice)]
                if place is None:
                    everywhere.setdefault(size, ways)
                elif not is_drop_in and _is_shared(first, size):
                    # `_larger` is the first turn, so the size has an entry.
                    ways = [*everywhere[size], *ways]
                yield ways
    for i, value in enumerate(first):
        # A batch of one has a size below MIN_SIZE, which the turns above leave out.
        is_single = isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[0] == 1
        if is_single and kept[i] is None:
            yield _resizings(task, first, kept, 1, 3, (i, 0))


def _larger(_first: list[Any], size: int, dice: random.Random) -> Iterator[tuple[int, Place]]:
    """Yields a size that a kernel with one block of fixed size cannot hold."""
    yield larger_size(size, dice), None


def _smaller(_first: list[Any], size: int, dice: random.Random) -> Iterator[tuple[int, Place]]:
    """Yields a size that is smaller by up to a third."""
    if (new := size - dice.randint(1, max(size // 3, 1))) >= 1:
        yield new, None


def _one_sample(first: list[Any], size: int, _dice: random.Random) -> Iterator[tuple[int, Place]]:
    """A batch of one, where the size is the first dimension of an input."""
    shapes = [value.shape for value in first if isinstance(value, torch.Tensor)]
    if size > 1 and any(len(shape) > 1 and shape[0] == size for shape in shapes):
        yield 1, None


def _single(first: list[Any], size: int, dice: random.Random) -> Iterator[tuple[int, Place]]:
    """Yields each dimension that has the size alone, where several have the size."""
    places = [
        (i, dim)
        for i, value in enumerate(first)
        if isinstance(value, torch.Tensor)
        for dim, length in enumerate(value.shape)
        if length == size
    ]
    if len(places) > 1:
        yield from ((size + dice.randint(1, 3), place) for place in places)


def _is_shared(first: list[Any], size: int) -> bool:
    """Whether several inputs have the size."""
    return sum(isinstance(v, torch.Tensor) and size in v.shape for v in first) > 1


def _keeps_structures(
    task: Task, kept: list[Structure | None], size: int, dice: random.Random
) -> bool:
    """Whether two draws at the new size have the structures that the inputs had before."""
    try:
        first, second = (task.inputs(dice.getrandbits(31), "plain", CPU) for _ in range(2))
    except UsageError:
        return False
    return are_kept(kept, first, second, size)


def _resizings(
    task: FunctionTask | ModuleTask,
    first: list[Any],
    kept: list[Structure | None],
    size: int,
    new: int,
    place: Place = None,
) -> list[Resized]:
    """Returns ways to change one size, from the smallest change to the largest: tensors; numbers
    too; arguments of the constructor too."""
    name = f"size {new} in place of {size}"
    resizing = partial(_resizing, kept, size, new, place)
    if place is not None:
        name = f"size {new} in place of {size} in dimension {place[1]} of input {place[0]}"
    ways = [(name, task.with_inputs(resizing(with_numbers=False)))]
    numbers = resizing(with_numbers=True)
    # Without a number of this size, the second way would equal the first.
    if any(_swapped(v, size, new) != v for v in first if not isinstance(v, torch.Tensor)):
        ways.append((f"{name}, numbers too", task.with_inputs(numbers)))
    if not isinstance(task, ModuleTask) or task.get_arguments is None:
        return ways
    args, kwargs = task.get_arguments()
    others = (
        [_swapped(value, size, new) for value in args],
        {key: _swapped(value, size, new) for key, value in kwargs.items()},
    )
    if others != (args, kwargs) and are_plain(others) and (other := rebuilt(task, others)):
        ways.append((f"{name}, arguments too", other.with_inputs(numbers)))
    return ways


def _resizing(
    kept: list[Structure | None], size: int, new: int, place: Place, *, with_numbers: bool
) -> InputChange:
    """Returns a change of drawn inputs from one size to another, in all dimensions of the size or
    at one place."""

    def change(inputs: list[Any], seed: int) -> list[Any]:
        generator = torch.Generator().manual_seed(derive(seed, "size") >> 1)

        def changed(i: int, value: Any, structure: Structure | None) -> Any:
            if not isinstance(value, torch.Tensor):
                return _swapped(value, size, new) if with_numbers else value
            if place is not None and place[0] != i:
                return value
            # Repeated rows destroy symmetry or a triangle, so the structure is made again.
            value = resized(value, size, new, generator, None if place is None else place[1])
            return value if structure is None else structure.resized(value, size, new)

        return [changed(i, *pair) for i, pair in enumerate(zip(inputs, kept, strict=True))]

    return change


def _swapped(value: Any, size: int, new: int) -> Any:
    """The new size in place of the old size, in tuples and lists too."""
    if isinstance(value, list | tuple):
        return type(value)(_swapped(part, size, new) for part in value)
    if isinstance(value, dict):
        return {key: _swapped(part, size, new) for key, part in value.items()}
    return new if type(value) is int and value == size else value
