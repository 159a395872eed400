"""Variable elimination: sums a product of tables over all assignments, and draws assignments.

To eliminate a variable, the tables with the variable are multiplied and summed over its values.
This leaves a table over the variable's neighbours. After the last variable the total is known.
Draws go backwards: each variable is drawn by its shares of the sum, given the variables that were
eliminated after it. So an assignment is drawn exactly in proportion to its product.
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
    """An order of elimination that always takes the variable with the fewest neighbours.

    The best order is NP-hard to find; this greedy rule (minimum degree) keeps tables small.
    """
    neighbours: list[set[int]] = [set() for _ in range(num_variables)]
    for scope in scopes:
        for variable in scope:
            neighbours[variable].update(scope)
    left = set(range(num_variables))
    steps = []
    while left:
        # The number breaks ties, so that the order does not depend on the order of a set.
        variable = min(left, key=lambda v: (len(neighbours[v]), v))
        left.remove(variable)
        around = neighbours[variable] - {variable}
        # The sum over the variable is a table over all its neighbours, so they become neighbours
        # of each other.
        for other in around:
            neighbours[other] |= around
            neighbours[other].discard(variable)
        steps.append((variable, tuple(sorted(around))))
    return steps


def largest_table(steps: Sequence[Step], sizes: Sequence[int]) -> int:
    """The entries of the largest table of an elimination; variable i has `sizes[i]` values."""
    return max((sizes[v] * prod(sizes[n] for n in around) for v, around in steps), default=0)


class Elimination:
    """Draws assignments of variables in proportion to the product of the entries of all tables."""

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
        """`num` independent assignments, as an array of shape (variables, num)."""
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
    """For each row and value, the number of entries of the row up to the value; shape (num,).

    The rows of the table ascend. The bisection reads single entries, because copies of thousands
    of whole rows would take gigabytes.
    """
    low, high = np.zeros(len(rows), np.intp), np.full(len(rows), table.shape[-1])
    # Each step halves the interval, so this many steps leave one place.
    for _ in range(table.shape[-1].bit_length()):
        # In a row that has ended, `low` may be the length of the row, which is no index.
        middle = np.minimum((low + high) // 2, table.shape[-1] - 1)
        is_low = (table[rows, middle] <= values) & (low < high)
        low, high = np.where(is_low, middle + 1, low), np.where(is_low, high, middle)
    return low


def _product(scope: Scope, tables: Sequence[Table]) -> Floats:
    """The product of tables as one table over `scope`; each table covers a part of `scope`."""
    axis = {variable: i for i, variable in enumerate(scope)}
    whole: Any = np.ones((1,) * len(scope))
    for variables, table in tables:
        order = sorted(range(len(variables)), key=lambda i: axis[variables[i]])
        shape = [1] * len(scope)
        for i in order:
            shape[axis[variables[i]]] = table.shape[i]
        whole = whole * table.transpose(order).reshape(shape)
    return np.asarray(whole, float)
