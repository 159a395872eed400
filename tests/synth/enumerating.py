"""Small systems of sizes, all their solutions by trying, and whether draws fit weights."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from operator import mul

import numpy as np
import torch
from hypothesis import strategies as st

from kernelwright.ops.sizes import Size, Var, evaluate, variables
from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes.draw import draw_sizes
from kernelwright.synth.sizes.equations import Equations
from kernelwright.synth.sizes.system import Total

Values = tuple[int, ...]
"""Of the variables of a case, in order."""


@dataclass(frozen=True)
class Case:
    shapes: tuple[tuple[Size, ...], ...]
    pairs: tuple[tuple[Size, Size], ...]
    """What is equal."""
    limits: SizeLimits
    total: Total | None = None

    def under(self, measure: str) -> "Case":
        return replace(self, limits=replace(self.limits, measure=measure))

    @property
    def names(self) -> list[Var]:
        """All variables."""
        sizes = [size for shape in (*self.shapes, *self.pairs) for size in shape]
        return list(dict.fromkeys(v for size in sizes for v in variables(size)))

    def equations(self) -> Equations:
        equations = Equations()
        for a, b in self.pairs:
            equations.equate(a, b)
        equations.settle()
        return equations

    def solutions(self) -> set[Values]:
        """By the definition."""
        names = self.names
        values = product(range(self.limits.low, self.limits.high + 1), repeat=len(names))
        return {each for each in values if self._holds(dict(zip(names, each, strict=True)))}

    def _holds(self, values: Mapping[Var, int]) -> bool:
        at = values.__getitem__
        shapes = [[evaluate(size, at) for size in shape] for shape in self.shapes]
        return (
            all(evaluate(a, at) == evaluate(b, at) for a, b in self.pairs)
            and all(map(self._fits, self.shapes, shapes))
            and self._is_in_total([prod(sizes) for sizes in shapes])
        )

    def _fits(self, shape: Iterable[Size], sizes: list[int]) -> bool:
        lows = [1 if isinstance(size, int) else self.limits.low for size in shape]
        low, high = self.limits.elements
        return low <= prod(sizes) <= high and all(
            least <= size <= self.limits.high for least, size in zip(lows, sizes, strict=True)
        )

    def _is_in_total(self, elements: list[int]) -> bool:
        if self.total is None:
            return True
        whole = sum(map(mul, self.total.weights, elements))
        return self.total.limits[0] <= whole <= self.total.limits[1]

    def weights(self) -> dict[Values, float]:
        """Every solution -> the product of its roots' weights."""
        expected, equations = self.solutions(), self.equations()
        solved = [equations.solved(name) for name in self.names]
        roots = list(dict.fromkeys(v for size in solved for v in variables(size)))
        weights = {}
        for values in product(*(self.range_of(equations, root) for root in roots)):
            assignment = dict(zip(roots, values, strict=True))
            solution = tuple(evaluate(size, assignment.__getitem__) for size in solved)
            if solution in expected:
                sizes = [n for root, n in assignment.items() if root not in equations.remainders]
                weights[solution] = prod(weight(self.limits.measure, n) for n in sizes)
        assert weights.keys() == expected
        return weights

    def range_of(self, equations: Equations, root: Var) -> range:
        if root in equations.remainders:
            return range(equations.remainders[root])
        low = 1 if root in equations.multiples else self.limits.low
        return range(low, self.limits.high + 1)


A, B, C, D = (Var(name) for name in "abcd")
CASES = {
    "products": Case(((A, B), (B, C), (A, C)), (), SizeLimits(low=1, high=9, elements=(4, 30))),
    "linear layer": Case(
        ((A, B), (B, C), (A, C)), ((C, D * 2),), SizeLimits(low=1, high=12, elements=(6, 40))
    ),
    "window": Case(
        ((A, B), (A, (B + 2 - 3) // 2 + 1), (C, D)),
        ((C, A), (D, (B - 1) // 2 + 1)),
        SizeLimits(low=1, high=10, elements=(2, 24)),
    ),
    "windows that meet": Case(
        ((A, B), (B, C)), ((A // 2, (C + 1) // 3),), SizeLimits(low=1, high=9)
    ),
    "cat": Case(
        ((A, B), (A, C), (A, D)), ((B + C, D),), SizeLimits(low=1, high=9, elements=(4, 25))
    ),
    "flattened twice": Case(
        ((A, B), (C, D), (A * B,)), ((A * B, C * D),), SizeLimits(low=1, high=8)
    ),
    "multiples": Case(((A, B), (C,)), ((A * 2, B * 3), (C * 4, A * B)), SizeLimits(low=1, high=20)),
    "multiples from 2 on": Case(((A, B),), ((A * 2, B * 3 + 1),), SizeLimits(low=2, high=20)),
    "bytes": Case(
        ((A, B), (B, C), (A,), (A // 2, B)),
        (),
        SizeLimits(low=1, high=9),
        Total((4, 4, 0, 2), (40, 200)),
    ),
    "from 2 on": Case(((A, 1), (A, B)), (), SizeLimits(low=2, high=9, elements=(4, 20))),
}


def any_size(least: int = -3) -> st.SearchStrategy[Size]:
    """Up to three leaves, with constants from `least` on; those below 1 make some negative."""
    grown = st.recursive(
        st.sampled_from([A, B, C, D]) | st.integers(1, 9),
        lambda size: st.one_of(
            st.builds(lambda x, y: x + y, size, size),
            st.builds(lambda x, k: x * k, size, st.integers(2, 3)),
            st.builds(lambda x, k: x + k, size, st.integers(least, 3)),
            st.builds(lambda x, k: x // k, size, st.integers(2, 3)),
            st.builds(lambda x, y: x * y, size, size),
        ),
        max_leaves=3,
    )
    return grown | st.sampled_from([A, B, C, D])


def draws(case: Case, num: int) -> Iterator[Values]:
    """Drawn values of the variables."""
    rng, names = np.random.default_rng(7), case.names
    for _ in range(num):
        equations = case.equations()
        values = draw_sizes(case.shapes, equations, case.limits, rng, total=case.total).values
        yield tuple(evaluate(equations.solved(name), values.__getitem__) for name in names)


def weight(measure: str, size: int) -> float:
    """Of one size."""
    if measure == "uniform":
        return 1.0
    multiple = 8 ** (size % 8 == 0) * 2 ** (size % 32 == 0) * 2 ** (size % 64 == 0)
    power = 4 ** (size.bit_count() == 1)
    return multiple * power / size if measure == "models" else 1 / size


def fit(draws: Iterable[Hashable], weights: Mapping[Hashable, float]) -> float:
    """p-value of a chi-square test: that draws have these weights. 0 where one has none.

    What is expected fewer than 5 times is pooled.
    """
    seen = Counter(draws)
    if not seen.keys() <= weights.keys():
        return 0.0
    cells = list(_cells(seen, weights))
    if len(cells) < 2:
        return 1.0
    statistic = sum((n - expected) ** 2 / expected for expected, n in cells)
    halves = torch.tensor([len(cells) - 1, statistic], dtype=torch.float64) / 2
    return float(torch.special.gammaincc(halves[0], halves[1]))


def _cells(
    seen: Counter[Hashable], weights: Mapping[Hashable, float]
) -> Iterator[tuple[float, int]]:
    scale = seen.total() / sum(weights.values())
    pooled, num_pooled = 0.0, 0
    for item, weight in weights.items():
        if weight * scale < 5:
            pooled, num_pooled = pooled + weight * scale, num_pooled + seen[item]
        else:
            yield weight * scale, seen[item]
    if pooled:
        yield pooled, num_pooled
