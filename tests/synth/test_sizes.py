"""Sizes are drawn in proportion to the measure from all solutions, and from nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from enumerating import Pairs, Shapes, fit, named, solutions

from kernelwright.ops.sizes import Var, evaluate, variables
from kernelwright.synth.equations import Contradiction, Equations
from kernelwright.synth.measure import Measure, cumulative
from kernelwright.synth.recipe import Sizes
from kernelwright.synth.sizes import Drawn, NoSizes, draw_sizes

A, B, C, D = (Var(name) for name in "abcd")
SYSTEMS: dict[str, tuple[Shapes, Pairs, Sizes]] = {
    "products": ([(A, B), (B, C), (A, C)], [], Sizes(high=9, elements=(4, 30))),
    "a matrix product": ([(A, B), (B, C), (A, C)], [(C, D * 2)], Sizes(high=12, elements=(6, 40))),
    "a window": (
        [(A, B), (A, (B + 2 - 3) // 2 + 1), (C, D)],
        [(C, A), (D, (B - 1) // 2 + 1)],
        Sizes(high=10, elements=(2, 24)),
    ),
    "two windows that meet": ([(A, B), (B, C)], [(A // 2, (C + 1) // 3)], Sizes(high=14)),
    "cat": ([(A, B), (A, C), (A, D)], [(B + C, D)], Sizes(high=9, elements=(4, 25))),
    "flattened twice": ([(A, B), (C, D), (A * B,)], [(A * B, C * D)], Sizes(high=12)),
    "multiples": ([(A, B), (C,)], [(A * 2, B * 3), (C * 4, A * B)], Sizes(high=20)),
    "sizes from 2 on": ([(A, 1), (A, B)], [], Sizes(low=2, high=9, elements=(4, 20))),
}


def solved(pairs: Pairs) -> Equations:
    equations = Equations()
    for a, b in pairs:
        equations.equate(a, b)
    return equations


def full(drawn: Drawn, equations: Equations, names: list[Var]) -> tuple[int, ...]:
    """The named variables' values."""
    return tuple(evaluate(equations.solved(v), drawn.values.__getitem__) for v in names)


def weights(shapes: Shapes, pairs: Pairs, limits: Sizes) -> dict[tuple[int, ...], float]:
    """Every solution -> the product of its roots' weights."""
    names, equations = named(shapes, pairs), solved(pairs)
    expected = {tuple(found.values()) for found in solutions(shapes, pairs, limits)}
    equations.settle()
    roots = sorted({v for n in names for v in variables(equations.solved(n))}, key=str)
    ranges = [range(equations.remainders.get(root, limits.high + 1)) for root in roots]
    weighed = {}
    for values in product(*ranges):
        assigned = dict(zip(roots, values, strict=True))
        solution = tuple(evaluate(equations.solved(v), assigned.__getitem__) for v in names)
        if solution in expected:
            sizes = [n for root, n in assigned.items() if root not in equations.remainders]
            weighed[solution] = prod(weight(limits.measure, n) for n in sizes)
    assert weighed.keys() == expected
    return weighed


def weight(measure: str, size: int) -> float:
    if measure == "uniform":
        return 1.0
    multiple = 8 ** (size % 8 == 0) * 2 ** (size % 32 == 0) * 2 ** (size % 64 == 0)
    power = 4 ** (size.bit_count() == 1)
    return multiple * power / size if measure == "models" else 1 / size


def draws(shapes: Shapes, pairs: Pairs, limits: Sizes, num: int) -> Iterator[tuple[int, ...]]:
    names, rng = named(shapes, pairs), np.random.default_rng(7)
    for _ in range(num):
        equations = solved(pairs)
        drawn = draw_sizes(shapes, equations, limits, rng)
        yield full(drawn, equations, names)


@pytest.mark.parametrize("measure", Measure)
@pytest.mark.parametrize(("shapes", "pairs", "limits"), SYSTEMS.values(), ids=SYSTEMS)
def test_draws_fit_the_measure(shapes, pairs, limits, measure):
    limits = replace(limits, measure=measure)
    assert fit(draws(shapes, pairs, limits, 1000), weights(shapes, pairs, limits)) > 1e-3


@pytest.mark.parametrize(("shapes", "pairs", "limits"), SYSTEMS.values(), ids=SYSTEMS)
def test_every_solution_is_reached(shapes, pairs, limits):
    limits = replace(limits, measure="uniform")
    expected = {tuple(found.values()) for found in solutions(shapes, pairs, limits)}
    num = int(len(expected) * (np.log(len(expected)) + 7))  # P(one is missed) < 0.1%
    assert set(draws(shapes, pairs, limits, num)) == expected


def test_what_is_not_accepted_is_drawn_again():
    shapes, limits = [(A, B)], Sizes(high=9, elements=(4, 30), measure="uniform")
    rng = np.random.default_rng(1)
    found = []
    for _ in range(600):
        drawn = draw_sizes(shapes, Equations(), limits, rng, accept=lambda v: v[A] > 2 * v[B])
        assert drawn.is_uniform
        assert 1 <= drawn.accepted <= drawn.proposals
        found.append((drawn.values[A], drawn.values[B]))
    expected = [s for s in solutions(shapes, [], limits) if s[A] > 2 * s[B]]
    assert fit(found, {(s[A], s[B]): 1.0 for s in expected}) > 1e-3


def test_the_same_generator_gives_the_same_sizes():
    shapes, limits = [(A, B), (B, C)], Sizes()
    one, two = (
        [draw_sizes(shapes, Equations(), limits, rng).values for _ in range(5)]
        for rng in (np.random.default_rng(3), np.random.default_rng(3))
    )
    assert one == two


def test_ranges_without_a_solution_are_a_contradiction():
    with pytest.raises(Contradiction):
        draw_sizes([(A * 8, B)], Equations(), Sizes(high=7), np.random.default_rng(0))


def test_sampling_gives_up_where_nothing_is_accepted():
    with pytest.raises(NoSizes, match="proposals"):
        draw_sizes([(A,)], Equations(), Sizes(), np.random.default_rng(0), accept=lambda _: False)


@pytest.mark.parametrize("measure", Measure)
def test_the_weights_of_a_measure(measure):
    steps = np.diff(cumulative(measure, 200))
    assert steps == pytest.approx([weight(measure, size) for size in range(1, 201)])
