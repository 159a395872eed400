"""A module's program at several sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.lowering.lower import Lowered, lower
from kernelwright.programs.program import Program
from kernelwright.programs.sizes.fit import Sizes
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.search.arguments import Call
from kernelwright.search.sizes.requested import Range, Requested


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedLowered:
    """A module's computation at the sizes of the example, and at all sizes that may vary."""

    lowered: Lowered
    sized: SizedProgram
    requested: Requested
    """The sizes that vary, with the ranges that kernels can serve."""
    elsewhere: tuple[tuple[Sizes, Program], ...]
    """Programs at other sizes, by which the whole is judged."""


def lower_at_sizes(module: torch.nn.Module, example: Call, asked: Requested) -> SizedLowered:
    """Lowers the module at each of the points of `Requested`.

    If the module computes in another way at size 1, the ranges begin at 2, and the original serves
    size 1.

    Raises:
        UsageError: the module cannot be captured, or one program cannot serve all sizes.
    """
    points = asked.points()
    lowered = [_lower_at(module, asked.resized(example, sizes), sizes) for sizes in points]
    first = lowered[0]
    # PyTorch often computes in another way at size 1, so such points do not decide the program.
    usual = [i for i in range(len(points)) if i == 0 or min(points[i].values()) > 1]
    try:
        check_ties(first, [lowered[i] for i in usual])
        sized = SizedProgram(
            programs=tuple(lowered[i].program for i in usual),
            sizes=tuple(points[i] for i in usual),
            texts=_texts(first, asked),
        )
    except ValueError as error:
        raise _cannot_vary(asked, str(error)) from error
    ones = [i for i in range(len(points)) if i not in usual]
    if any(_ties(lowered[i]) != _ties(first) for i in ones):
        ranges = {name: Range(max(r.low, 2), r.high) for name, r in asked.ranges.items()}
        asked, ones = replace(asked, ranges=ranges), []
    elsewhere = tuple((points[i], lowered[i].program) for i in [*usual[1:], *ones])
    return SizedLowered(lowered=first, sized=sized, requested=asked, elsewhere=elsewhere)


def _lower_at(module: torch.nn.Module, example: Call, sizes: Sizes) -> Lowered:
    args, kwargs = example
    try:
        return lower(module, args, kwargs)
    except UsageError as error:
        error.add_note(f"with {sizes_text(sizes)}")
        raise


def sizes_text(sizes: Sizes) -> str:
    """For example "batch 3, tokens 17"."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def check_ties(first: Lowered, others: Sequence[Lowered]) -> None:
    """
    Raises:
        ValueError: more than the program differs by size.
    """
    if any(_ties(other) != _ties(first) for other in others):
        raise ValueError("its inputs, results or changes of state differ by size")


def _cannot_vary(asked: Requested, reason: str) -> UsageError:
    names = ", ".join(asked.ranges)
    return UsageError(
        f"one program cannot serve all values of {names}: {reason}",
        remedy="narrow the range with torch.export.Dim(min=..., max=...), or optimize for one size",
    )


def _ties(lowered: Lowered) -> tuple[object, ...]:
    """The conditions that tie a program to its module. Only the program may depend on sizes."""
    constants = [
        (source.path, None if source.tensor is None else _value(source.tensor))
        for source in lowered.sources
    ]
    sources = [replace(source, tensor=None) for source in lowered.sources]
    bare = replace(lowered, program=Program((), (), ()), sources=())
    return bare, sources, constants


def _value(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), str(tensor.tolist())


def _texts(lowered: Lowered, asked: Requested) -> dict[str, str]:
    """Expressions of the program's inputs that read the sizes."""
    texts: dict[str, str] = {}
    # The plainest place of a size comes first: reading it needs no division.
    for place in sorted(asked.places, key=lambda place: (place.scale, abs(place.shift))):
        for value, source in zip(lowered.program.inputs, lowered.sources, strict=True):
            if source.kind == "user" and source.position == place.leaf:
                text = f"{value.name}.shape[{place.dim}]"
                texts.setdefault(place.size, _solved(text, place.scale, place.shift))
    return texts


def _solved(text: str, scale: int, shift: int) -> str:
    """The size of a dimension that has `scale * size + shift` elements."""
    inside = f"({text} - {shift})" if shift else text
    return f"({inside} // {scale})" if scale != 1 else inside
