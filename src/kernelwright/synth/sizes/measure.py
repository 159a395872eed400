"""The meaning of "uniform" for sizes: the weight of each size."""

from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Measure(StrEnum):
    """The weight of a solution is the product of the weights of its roots. The weight of a
    remainder is always 1."""

    UNIFORM = "uniform"
    """Every solution has the same weight."""
    LOG = "log"
    """A size weighs 1 / size, so that every octave has the same weight."""
    MODELS = "models"
    """As `LOG`, with more weight for the usual sizes of models: multiples of 8, 32 and 64, and
    powers of two."""


class Weights:
    """The weights of the sizes 1 .. highest under a measure."""

    def __init__(self, measure: Measure, highest: int) -> None:
        self._is_uniform = measure is Measure.UNIFORM
        self._up_to = np.concatenate([[0.0], np.cumsum(_weights(measure, highest))])

    def between(self, low: Any, high: Any) -> Floats:
        """The total weight of the sizes low .. high, elementwise for arrays of equal shape."""
        total: Floats = self._up_to[high] - self._up_to[low - 1]
        return total

    def draw(self, low: Any, high: Any, chance: Floats) -> Floats:
        """Sizes low .. high in proportion to their weights, for `chance` uniform in [0, 1).

        The three arrays broadcast to the shape of `chance`.
        """
        # Without weights a product and a floor suffice; the search below is slower.
        if self._is_uniform:
            return evenly(low, high, chance)
        # Inverse transform: the size is where the running sum of weights passes the drawn share.
        below = self._up_to[low - 1]
        share = below + chance * (self._up_to[high] - below)
        # The share may round up to the whole sum, and the search then returns high + 1.
        sizes: Floats = np.minimum(self._up_to.searchsorted(share, side="right"), high, dtype=float)
        return sizes


def evenly(low: Any, high: Any, chance: Floats) -> Floats:
    """Integers low .. high, all equally likely; arguments as those of `Weights.draw`."""
    sizes: Floats = np.floor(low + chance * (high - low + 1))
    return sizes


@lru_cache
def weights(measure: Measure, highest: int) -> Weights:
    return Weights(measure, highest)


def _weights(measure: Measure, highest: int) -> Floats:
    sizes = np.arange(1, highest + 1)
    if measure is Measure.UNIFORM:
        return np.ones(highest)
    inverse = 1 / sizes
    if measure is Measure.MODELS:
        for divisor, bonus in ((8, 8), (32, 2), (64, 2)):
            inverse[sizes % divisor == 0] *= bonus
        inverse[sizes & (sizes - 1) == 0] *= 4
    return inverse
