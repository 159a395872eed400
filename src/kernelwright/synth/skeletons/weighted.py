"""Exact draws by integer weights."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")


class Weighted(Generic[T]):
    """Items with weights, drawn in proportion. Weights are integers of any size: no rounding."""

    __slots__ = ("_totals", "items")

    def __init__(self, items: Sequence[T], weights: Iterable[int]) -> None:
        self.items = items
        self._totals = list(accumulate(weights))

    @property
    def total(self) -> int:
        return self._totals[-1] if self._totals else 0

    @property
    def weights(self) -> list[int]:
        return [high - low for low, high in pairwise((0, *self._totals))]

    def draw(self, rng: Random) -> T:
        """An item in proportion to its weight. The total must not be 0."""
        return self.find(rng.randrange(self._totals[-1]))

    def find(self, number: int) -> T:
        """The item at `number` (0 <= number < total) if items of weight w take w places each."""
        # `bisect` goes to the right of equal totals, so an item of weight 0 is never returned.
        return self.items[bisect(self._totals, number)]


def weighted(items: Iterable[tuple[T, int]]) -> Weighted[T]:
    """A weighted choice from (item, weight)."""
    pairs = list(items)
    return Weighted([item for item, _ in pairs], [weight for _, weight in pairs])
