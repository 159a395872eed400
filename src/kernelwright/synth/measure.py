"""What "uniform" means for sizes: the weight of each size."""

from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Measure(StrEnum):
    """A solution weighs the product of its roots' weights (remainders weigh 1 always)."""

    UNIFORM = "uniform"
    """Every solution the same: the counting measure."""
    LOG = "log"
    """1 / size: every octave the same."""
    MODELS = "models"
    """1 / size, and more for what models are built of: multiples of 8, 32, 64, powers of two."""


def _weights(measure: Measure, highest: int) -> Floats:
    sizes = np.arange(1, highest + 1)
    if measure is Measure.UNIFORM:
        return np.ones(highest)
    weights = 1 / sizes
    if measure is Measure.MODELS:
        for divisor, bonus in ((8, 8), (32, 2), (64, 2)):
            weights[sizes % divisor == 0] *= bonus
        weights[sizes & (sizes - 1) == 0] *= 4
    return weights


@lru_cache
def cumulative(measure: Measure, highest: int) -> Floats:
    """(highest + 1,): at i, the weight of the sizes 1 .. i together."""
    return np.concatenate([[0.0], np.cumsum(_weights(measure, highest))])
