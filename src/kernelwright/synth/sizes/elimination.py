"""Variable elimination: sums over all assignments of a product of tables, and draws from it.

A variable is summed out of the product of the tables it occurs in, which leaves a table over its
neighbours; when all are, the total is known. Drawing goes backwards: each variable given those that
were eliminated after it, by its share of the sum, so that an assignment is drawn in proportion to
its product exactly.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelwright.synth.sizes.measure import Floats

Scope = tuple[int, ...]
"""The variables of a table, one an axis."""
Table = tuple[Scope, NDArray[Any]]
Step = tuple[int, Scope]
"""A variable, and the neighbours it has when it is eliminated."""


def plan(num_variables: int, scopes: Sequence[Scope]) -> list[Step]:
    """An order of elimination: always the variable with the fewest neighbours."""
    neighbours: list[set[int]] = [set() for _ in range(num_variables)]
    for scope in scopes:
        for variable in scope:
            neighbours[variable].update(scope)
    left = set(range(num_variables))
    steps = []
    while left:
        variable = min(left, key=lambda v: (len(neighbours[v]), v))
        left.remove(variable)
        around = neighbours[variable] - {variable}
        for other in around:
            neighbours[other] |= around
            neighbours[other].discard(variable)
        steps.append((variable, tuple(sorted(around))))
    return steps


def largest_table(steps: Sequence[Step], sizes: Sequence[int]) -> int:
    """Entries of the largest table elimination makes, where variables have so many values."""
    return max((sizes[v] * prod(sizes[n] for n in around) for v, around in steps), default=0)


class Elimination:
    """The assignments of variables, each in proportion to the product of all tables' entries."""

    def __init__(self, steps: Sequence[Step], tables: Sequence[Table]) -> None:
        """Every variable must be in the scope of a table."""
        self._draws: list[tuple[int, Scope, Floats]] = []
        self.is_empty = False
        """Whether no assignment has any weight."""
        left = list(tables)
        for variable, around in steps:
            bucket = [table for table in left if variable in table[0]]
            left = [table for table in left if variable not in table[0]]
            # (*neighbours, variable)
            # Running sums along the variable: a draw is then one search for a number below the
            # total.
            shares = np.cumsum(_product((*around, variable), bucket), axis=-1)
            total = shares[..., -1]
            largest = total.max()
            if largest == 0:
                self.is_empty = True
                return
            # Scaled to 1: twenty factors would leave the range of a float. Scales do not change
            # shares.
            left.append((around, total / largest))
            self._draws.append((variable, around, shares.reshape(-1, shares.shape[-1])))
        self._sizes = {variable: shares.shape[-1] for variable, _, shares in self._draws}

    def sample(self, num: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """(variables, num): independent assignments."""
        drawn = np.zeros((len(self._draws), num), np.intp)
        for variable, around, shares in reversed(self._draws):
            # Backwards: the neighbours of a variable were eliminated after the variable, so they
            # are drawn.
            row = np.zeros(num, np.intp)
            for neighbour in around:
                row = row * self._sizes[neighbour] + drawn[neighbour]
            drawn[variable] = _places(shares, row, rng.random(num) * shares[row, -1])
        return drawn


def _places(table: Floats, rows: NDArray[np.intp], values: Floats) -> NDArray[np.intp]:
    """(num,): how many entries of a row are no larger than its value. Rows of the table ascend;
    whole rows would be gigabytes where there are thousands to look at."""
    low, high = np.zeros(len(rows), np.intp), np.full(len(rows), table.shape[-1])
    for _ in range(table.shape[-1].bit_length()):
        middle = np.minimum((low + high) // 2, table.shape[-1] - 1)
        is_low = (table[rows, middle] <= values) & (low < high)
        low, high = np.where(is_low, middle + 1, low), np.where(is_low, high, middle)
    return low


def _product(scope: Scope, tables: Sequence[Table]) -> Floats:
    """The product of tables over part of `scope`, over all of it."""
    axis = {variable: i for i, variable in enumerate(scope)}
    whole: Any = np.ones((1,) * len(scope))
    for variables, table in tables:
        order = sorted(range(len(variables)), key=lambda i: axis[variables[i]])
        shape = [1] * len(scope)
        for i in order:
            shape[axis[variables[i]]] = table.shape[i]
        whole = whole * table.transpose(order).reshape(shape)
    return np.asarray(whole, float)
