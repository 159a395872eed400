"""Elimination draws assignments in proportion to the product of tables."""

from itertools import product

import numpy as np
import pytest
from enumerating import fit
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.synth.sizes.elimination import Elimination, _places, largest_table, plan

SIZES = (2, 3, 4, 2)
SCOPES = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(tuple), max_size=4
)


def tables(scopes, seed):
    rng = np.random.default_rng(seed)
    whole = [*((variable,) for variable in range(len(SIZES))), *scopes]
    shapes = [[SIZES[variable] for variable in scope] for scope in whole]
    return [
        (scope, rng.integers(0, 4, shape) / 3) for scope, shape in zip(whole, shapes, strict=True)
    ]


def products(made):
    for values in product(*map(range, SIZES)):
        weight = 1.0
        for scope, table in made:
            weight *= table[tuple(values[variable] for variable in scope)]
        if weight:
            yield values, weight


@settings(max_examples=30, deadline=None)
@given(SCOPES, st.integers(0, 9))
def test_draws_fit_the_product_of_the_tables(scopes, seed):
    made = tables(scopes, seed)
    expected = dict(products(made))
    elimination = Elimination(plan(len(SIZES), [scope for scope, _ in made]), made)
    assert elimination.is_empty == (not expected)
    if expected:
        drawn = elimination.sample(2000, np.random.default_rng(seed))
        assert fit(map(tuple, drawn.T.tolist()), expected) > 1e-5


def test_a_wrong_table_does_not_fit():
    ones = [((variable,), np.ones(size)) for variable, size in enumerate(SIZES)]
    right = [*ones, ((0, 1), np.array([[1, 4, 2], [3, 1, 2]]))]
    wrong = [*ones, ((0, 1), np.array([[1, 3, 2], [3, 2, 2]]))]
    elimination = Elimination(plan(len(SIZES), [scope for scope, _ in wrong]), wrong)
    drawn = elimination.sample(2000, np.random.default_rng(0))
    assert fit(map(tuple, drawn.T.tolist()), dict(products(right))) < 1e-6


@pytest.mark.parametrize(
    ("scopes", "entries"),
    [([(0, 1), (1, 2), (2, 3), (3, 4)], 100), ([(0, 1), (1, 2), (2, 0), (3, 4)], 1000)],
    ids=["chain", "triangle"],
)
def test_tables_are_no_larger_than_the_wiring_asks(scopes, entries):
    assert largest_table(plan(5, scopes), [10] * 5) == entries


@given(
    st.integers(1, 70),
    st.integers(1, 5),
    st.integers(0, 1 << 30),
)
def test_places_are_those_that_a_look_at_whole_rows_finds(entries, num_rows, seed):
    rng = np.random.default_rng(seed)
    table = np.cumsum(rng.integers(0, 3, (num_rows, entries)).astype(float), axis=1)
    rows = rng.integers(0, num_rows, 40)
    values = rng.choice([1.0, 0.7, 0.0], 40) * np.floor(rng.random(40) * table[rows, -1])
    found = _places(table, rows, values)
    assert found.tolist() == (table[rows] <= values[:, None]).sum(axis=1).tolist()
