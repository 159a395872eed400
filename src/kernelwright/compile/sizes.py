"""Sizes that are symbols of Dynamo: their allowed values, and inputs at such values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._subclasses.fake_tensor import FakeTensor

from kernelwright.programs.sizes.fit import Sizes
from kernelwright.search.sizes.requested import MOST_GROWTH, OPEN_RANGE, Range

NUM_POINTS, LEAST_POINTS = 7, 4
"""Sizes at which a graph is read: as many as there are, and the least number."""
LEAST_VALUES = 4
"""Values of a size that show how numbers depend on the size."""
NUM_DRAWS = 400
"""How many sizes are drawn. Those that Dynamo's guards refuse are left out."""

Expression = Any
"""An expression of sympy, or an int."""


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """The sizes of a graph that vary from call to call."""

    hints: Sizes
    """Names of Dynamo's symbols -> their sizes at the call for which Dynamo compiles."""
    ranges: Mapping[str, Range]
    inputs: tuple[Expression | tuple[Expression, ...], ...]
    """For each input of the graph: the shape of a tensor, or the value of an integer."""
    conditions: tuple[Expression, ...]
    """Conditions on the symbols that Dynamo checks before each call."""

    @classmethod
    def of(cls, graph: torch.fx.GraphModule) -> "GraphSizes | None":
        """The sizes of a graph; None where all are numbers.

        Raises:
            ValueError: an input is neither a tensor nor an integer.
        """
        values = [n.meta.get("example_value") for n in graph.graph.nodes if n.op == "placeholder"]
        inputs = tuple(map(_expressions, values))
        symbols = sorted(_symbols(inputs), key=str)
        if not symbols:
            return None
        env = next(filter(None, map(_environment, values)))
        known = getattr(env, "backed_var_to_val", None)
        known = env.var_to_val if known is None else known  # before PyTorch 2.12
        hints = {str(symbol): int(known[symbol]) for symbol in symbols}
        ranges = {}
        for symbol in symbols:
            allowed, hint = env.var_to_range[symbol], hints[str(symbol)]
            high = min(allowed.upper, OPEN_RANGE * hint)
            ranges[str(symbol)] = Range(max(int(allowed.lower), 2), int(high))
        return cls(hints, ranges, inputs, tuple(guard.expr for guard in env.guards))

    def points(self) -> list[Sizes]:
        """Sizes that Dynamo's guards allow. The sizes of the call come first.

        Each further point has as many new values of sizes as possible, because a number is fitted
        as a function of sizes from these points.
        """
        allowed = {
            tuple(sizes.items()): sizes for sizes in self._draws() if self._is_allowed(sizes)
        }
        points: list[Sizes] = [dict(self.hints)]
        while len(points) < NUM_POINTS and allowed:
            seen = {name: {point[name] for point in points} for name in self.hints}

            def worth(sizes: Sizes, seen: dict[str, set[int]] = seen) -> tuple[int, int]:
                few = [name for name, size in sizes.items() if size not in seen[name]]
                return sum(len(seen[name]) < LEAST_VALUES for name in few), sum(sizes.values())

            best = max(allowed, key=lambda items: worth(allowed[items]))
            points.append(allowed.pop(best))
        return points

    def served(self, points: Sequence[Sizes]) -> dict[str, Range]:
        """The ranges of sizes that a program read at these points serves.

        A size with fewer than `LEAST_VALUES` values among the points is not generalized: the range
        is the size of the call alone.
        """
        ranges = {}
        for name, size_range in self.ranges.items():
            values = {point[name] for point in points}
            low, high = size_range.low, max(values)
            if len(values) < LEAST_VALUES:
                low = high = self.hints[name]
            ranges[name] = Range(low, high)
        return ranges

    def _draws(self) -> Iterator[dict[str, int]]:
        """Yields random sizes: all sizes drawn, then one size drawn and the others as in the call.

        Every second draw is half or a multiple of the call's size, because guards often ask for
        multiples.
        """
        draw = Random(0)
        for number in range(NUM_DRAWS):
            some = {
                name: draw.choice((hint // 2, hint * draw.randint(1, OPEN_RANGE)))
                if number % 2
                else draw.randint(self.ranges[name].low, self.ranges[name].high)
                for name, hint in self.hints.items()
            }
            yield some
            name = draw.choice(list(self.hints))
            yield {**self.hints, name: some[name]}

    def _is_allowed(self, sizes: Sizes) -> bool:
        growth = 1.0
        for name, size in sizes.items():
            if not self.ranges[name].low <= size <= self.ranges[name].high:
                return False
            growth *= size / self.hints[name]
        if len(sizes) > 1 and growth > MOST_GROWTH:
            return False
        return all(_value(condition, sizes) for condition in self.conditions)

    def inputs_at(self, inputs: Sequence[Any], sizes: Sizes) -> list[Any]:
        """The inputs of a call, at other sizes: rows are repeated, or cut off.

        Args:
            inputs: of the graph, at the hints.
        """
        return [
            _resized(value, [int(_value(size, sizes)) for size in expressions])
            if isinstance(expressions, tuple)
            else int(_value(expressions, sizes))
            for value, expressions in zip(inputs, self.inputs, strict=True)
        ]

    def dimensions(self) -> dict[str, tuple[int, int]]:
        """Where the sizes are read: name -> (position of an input, its dimension)."""
        places: dict[str, tuple[int, int]] = {}
        for position, expressions in enumerate(self.inputs):
            if isinstance(expressions, tuple):
                for dim, size in enumerate(expressions):
                    if isinstance(size, sympy.Symbol):
                        places.setdefault(str(size), (position, dim))
        return places


def _expressions(value: Any) -> Expression | tuple[Expression, ...]:
    if isinstance(value, torch.SymInt):
        return value.node.expr
    if isinstance(value, FakeTensor | torch.Tensor):
        return tuple(_expressions(size) for size in value.shape)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("numbers among its inputs vary from call to call")


def _symbols(inputs: Sequence[Any]) -> set[Any]:
    symbols: set[Any] = set()
    for value in inputs:
        sizes = value if isinstance(value, tuple) else (value,)
        symbols = symbols.union(*(s.free_symbols for s in sizes if isinstance(s, sympy.Basic)))
    return symbols


def _environment(value: Any) -> Any:
    """PyTorch's record of the symbols, from one of the values that have them."""
    sizes = value.shape if isinstance(value, torch.Tensor) else [value]
    return next((s.node.shape_env for s in sizes if isinstance(s, torch.SymInt)), None)


def _value(expression: Expression, sizes: Sizes) -> Any:
    if not isinstance(expression, sympy.Basic):
        return expression
    known = {s: sizes[str(s)] for s in expression.free_symbols if str(s) in sizes}
    value = expression.subs(known)
    # A condition on other symbols, of sizes that are constants here, holds in each call.
    return True if value.free_symbols else value


def _resized(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The tensor with other sizes, its dimensions in the same order in memory."""
    if list(tensor.shape) == list(shape):
        return tensor
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    for dim, size in enumerate(shape):
        if size != tensor.shape[dim]:
            rows = torch.arange(size, device=tensor.device) % tensor.shape[dim]
            tensor = tensor.index_select(dim, rows)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return tensor.detach().permute(order).contiguous().permute(inverse)
