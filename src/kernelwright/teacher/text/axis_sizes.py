"""The wrapper's expressions for the sizes of a kernel's axes."""

from collections.abc import Sequence

from kernelwright.programs.program import Program
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.index import Dim
from kernelwright.teacher.tile.views import Side, sources


def measure(program: Program, symbol: str, sides: Sequence[Side]) -> str:
    """The wrapper's expression for a size.

    The first of these that exists: a dimension of an input; a product of dimensions that a view
    joined; a dimension of a value that other calls make; the number that a view gives.

    Args:
        symbol: size text of a term in the sides' indices.
        sides: values with indices over the kernel's axes.
    """
    [term] = {t for side in sides for dim in side.index for t in dim if t.size == symbol}
    inputs = {value.name for value in program.inputs}
    joined = viewed = ""
    for side in sides:
        for name, index in sources(program, side.value, side.index):
            alone = next((i for i, dim in enumerate(index) if _is_alone(dim, symbol)), None)
            if name not in inputs:
                if alone is not None and not viewed:
                    sizes = ValueSizes(program)
                    text = sizes.of(name)[alone]
                    viewed = sizes.closed(sizes.symbols.get(text, text))
                continue
            if alone is not None:
                return f"{name}.shape[{alone}]"
            # Dimensions that hold other axes too would make the product too large.
            along = [i for i, dim in enumerate(index) if _walks(dim, term.axis)]
            is_apart = all(t.axis == term.axis for i in along for t in index[i])
            if along and is_apart and term.is_whole:
                joined = joined or " * ".join(f"{name}.shape[{i}]" for i in along)
    return joined or viewed or str(term.length)


def _is_alone(dim: Dim, symbol: str) -> bool:
    """Whether the dimension has this size, apart from parts of one element that a view added."""
    sizes = [term.size for term in dim]
    return sizes == [symbol] or [t.size for t in dim if t.length > 1] == [symbol]


def _walks(dim: Dim, axis: str) -> bool:
    return axis in {term.axis for term in dim}
