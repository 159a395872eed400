"""A program at several sizes: the same calls, whose attributes are functions of the sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelwright.core.record import Record
from kernelwright.programs.program import Call, Program
from kernelwright.programs.sizes.fit import Sizes, fitted
from kernelwright.programs.text import parse, to_text

INFERRED = -1
"""The size that a reshape finds itself: PyTorch allows one in each call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedProgram:
    """A program at several sizes."""

    programs: tuple[Program, ...]
    """The first is the one that is searched."""
    sizes: tuple[Sizes, ...]
    """The sizes of each program."""
    texts: Mapping[str, str]
    """Name of a size -> the expression of the program's inputs that reads it: "x0.shape[0]"."""
    spelled: Program = field(init=False, repr=False, compare=False)
    """The first program, whose text computes at all sizes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "spelled", self.spell(self.programs))

    @property
    def elsewhere(self) -> Iterator[tuple[Sizes, Program]]:
        """The other programs, with their sizes."""
        return zip(self.sizes[1:], self.programs[1:], strict=True)

    def spell(self, programs: Sequence[Program]) -> Program:
        """The first of other programs at the same sizes, in a form that computes at all sizes.

        Raises:
            ValueError: as `spelled`.
        """
        return spelled(programs, self.sizes, self.texts)


def sized_record(sized: SizedProgram) -> Record:
    """The programs as data."""
    return {
        "programs": list(map(to_text, sized.programs)),
        "sizes": list(map(dict, sized.sizes)),
        "texts": dict(sized.texts),
    }


def sized_of(record: Record) -> SizedProgram:
    """The program that `sized_record` describes.

    Raises:
        UsageError: a text is no program.
    """
    return SizedProgram(
        programs=tuple(map(parse, record["programs"])),
        sizes=tuple(record["sizes"]),
        texts=record["texts"],
    )


def spelled(
    programs: Sequence[Program], sizes: Sequence[Sizes], texts: Mapping[str, str]
) -> Program:
    """The first program, whose attributes are expressions of sizes where they vary.

    Args:
        programs: of the same calls, one for each of `sizes`.
        texts: as of `SizedProgram`.

    Raises:
        ValueError: the programs have different calls, or an attribute is no known function of the
            sizes.
    """
    first, *others = programs
    for other in others:
        if _outline(other) != _outline(first):
            raise ValueError("other operators are called at other sizes")
    calls = [
        _spelled(calls, sizes, texts) for calls in zip(*(p.calls for p in programs), strict=True)
    ]
    return replace(first, calls=tuple(calls))


def _outline(program: Program) -> tuple[Any, ...]:
    """The parts of a program that do not depend on sizes."""
    inputs = [(value.name, value.type.dtype, value.type.rank) for value in program.inputs]
    calls = [
        (
            call.op,
            [name for name, _ in call.args],
            list(call.refs()),
            call.outputs,
            [(result_type.dtype, result_type.rank) for result_type in call.types],
        )
        for call in program.calls
    ]
    return inputs, calls, program.outputs


def _spelled(calls: Sequence[Call], sizes: Sequence[Sizes], texts: Mapping[str, str]) -> Call:
    """One call at several sizes."""
    args = []
    for column in zip(*(call.args for call in calls), strict=True):
        name, values = column[0][0], [value for _, value in column]
        try:
            args.append((name, fitted(values, sizes, texts)))
        except ValueError as error:
            if calls[0].op != "reshape":
                raise ValueError(f"{name} of {calls[0].op}: {error}") from error
            args.append((name, _with_inferred(values, sizes, texts)))
    return replace(calls[0], args=tuple(args))


def _with_inferred(
    shapes: Sequence[Sequence[int]], sizes: Sequence[Sizes], texts: Mapping[str, str]
) -> tuple[int, ...]:
    """The shapes of a reshape, of which one size is no known function of the sizes.

    Raises:
        ValueError: two sizes are none.
    """
    return tuple(_items(shapes, sizes, texts))


def _items(
    shapes: Sequence[Sequence[int]], sizes: Sequence[Sizes], texts: Mapping[str, str]
) -> Iterator[int]:
    has_inferred = False
    for values in zip(*shapes, strict=True):
        try:
            yield fitted(values, sizes, texts)
        except ValueError:
            if has_inferred:
                raise
            has_inferred = True
            yield INFERRED
