"""Small systems of sizes, every solution of them by trying all, and whether draws fit a weight."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

import torch

from kernelwright.ops.sizes import Size, Var, evaluate, variables
from kernelwright.synth.recipe import Sizes

Pairs = Sequence[tuple[Size, Size]]
Shapes = Sequence[Sequence[Size]]


def named(shapes: Shapes, pairs: Pairs) -> list[Var]:
    sizes = [size for shape in [*shapes, *pairs] for size in shape]
    return list(dict.fromkeys(v for size in sizes for v in variables(size)))


def solutions(shapes: Shapes, pairs: Pairs, limits: Sizes) -> Iterator[dict[Var, int]]:
    """Every assignment to the variables, by the definition."""
    unknown = named(shapes, pairs)
    for values in product(range(limits.low, limits.high + 1), repeat=len(unknown)):
        assignment = dict(zip(unknown, values, strict=True))
        if all(_equal(pair, assignment) for pair in pairs) and all(
            _fits(shape, assignment, limits) for shape in shapes
        ):
            yield assignment


def _equal(pair: tuple[Size, Size], assignment: Mapping[Var, int]) -> bool:
    left, right = (evaluate(size, assignment.__getitem__) for size in pair)
    return bool(left == right)


def _fits(shape: Sequence[Size], assignment: Mapping[Var, int], limits: Sizes) -> bool:
    sizes = [evaluate(size, assignment.__getitem__) for size in shape]
    lows = [1 if isinstance(size, int) else limits.low for size in shape]
    return (
        all(low <= size <= limits.high for low, size in zip(lows, sizes, strict=True))
        and limits.elements[0] <= prod(sizes) <= limits.elements[1]
    )


def fit(draws: Iterable[Hashable], weights: Mapping[Hashable, float]) -> float:
    """p-value of a chi-square test: that the draws come from these weights. 0 for a draw that has
    none. Few expected draws (below 5) are pooled."""
    seen = Counter(draws)
    if not seen.keys() <= weights.keys():
        return 0.0
    scale = seen.total() / sum(weights.values())
    expected = [(weights[item] * scale, seen[item]) for item in weights]
    rare = [pair for pair in expected if pair[0] < 5]
    cells = [pair for pair in expected if pair[0] >= 5]
    if rare:
        cells.append((sum(e for e, _ in rare), sum(n for _, n in rare)))
    statistic = sum((n - e) ** 2 / e for e, n in cells)
    degrees = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    half = torch.tensor(statistic / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees, half)) if len(cells) > 1 else 1.0
