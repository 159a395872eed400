"""A graph's program at several sizes: what the search needs, and which calls kernels serve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelwright.compile.searching import Sought
from kernelwright.compile.sizes import GraphSizes
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.programs.sizes.fit import Sizes, fitted
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.search.sizes.lowering import check_ties
from kernelwright.search.sizes.requested import Range

Number = Callable[[Sequence[Any]], int]


@dataclass(frozen=True, slots=True)
class SizedGraph:
    """A graph whose sizes vary."""

    program: SizedProgram
    limits: tuple[tuple[int, int, Range], ...]
    """(position of an input, its dimension, allowed sizes): kernels serve these calls."""
    numbers: tuple[Number | None, ...]
    """For each output of the graph: what computes it from the inputs, where it is a number."""

    @classmethod
    def of(
        cls,
        first: Lowered,
        others: Sequence[Lowered],
        points: Sequence[Sizes],
        sizes: GraphSizes,
    ) -> "SizedGraph":
        """Read the programs of a graph at several sizes.

        Raises:
            ValueError: one program cannot serve all sizes.
        """
        check_ties(_without_numbers(first), list(map(_without_numbers, others)))
        name_of = {
            source.position: value.name
            for value, source in zip(first.program.inputs, first.sources, strict=True)
            if source.kind == "user"
        }
        dimensions = sizes.dimensions()
        if sizes.hints.keys() - dimensions.keys():
            raise ValueError("an integer among its inputs varies")
        texts = {
            name: f"{name_of[position]}.shape[{dim}]"
            for name, (position, dim) in dimensions.items()
            if position in name_of
        }
        programs = [first.program, *(_like(other, first) for other in others)]
        limits = tuple(
            (*dimensions[name], size_range) for name, size_range in sizes.served(points).items()
        )
        program = SizedProgram(programs=tuple(programs), sizes=tuple(points), texts=texts)
        read = {name: f"inputs[{at}].shape[{dim}]" for name, (at, dim) in dimensions.items()}
        outputs = zip(*(other.user_outputs for other in (first, *others)), strict=True)
        numbers = tuple(
            _number([value for _, value in column], points, read) if _is_number(column[0]) else None
            for column in outputs
        )
        return cls(program, limits, numbers)

    @property
    def sought(self) -> Sought:
        """The program that a search looks for kernels for."""
        return Sought(self.program.programs[0], self.program)

    def serves(self, inputs: Sequence[Any]) -> bool:
        """Whether kernels were verified for sizes like those of a call."""
        return all(
            allowed.low <= inputs[position].shape[dim] <= allowed.high
            for position, dim, allowed in self.limits
        )


def _is_number(output: tuple[str, Any]) -> bool:
    kind, value = output
    return kind == "value" and type(value) is int


def _without_numbers(lowered: Lowered) -> Lowered:
    outputs = [
        (kind, 0) if _is_number((kind, v)) else (kind, v) for kind, v in lowered.user_outputs
    ]
    return replace(lowered, user_outputs=tuple(outputs))


def _number(values: Sequence[int], points: Sequence[Sizes], read: Mapping[str, str]) -> Number:
    """The function that computes an integer output.

    Raises:
        ValueError: the output is no known function of the sizes.
    """
    function: Number = eval(f"lambda inputs: {fitted(values, points, read)!r}")
    return function


def _like(other: Lowered, first: Lowered) -> Any:
    """A program whose inputs are drawn as those of the first."""
    inputs = tuple(
        replace(value, init=like.init)
        for value, like in zip(other.program.inputs, first.program.inputs, strict=True)
    )
    return replace(other.program, inputs=inputs)
