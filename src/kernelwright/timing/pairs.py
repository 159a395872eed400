"""How many pairs of timed calls to take, and which of them to judge; without torch or a GPU."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from kernelwright.timing.stats import ratio_interval

BATCH = 5
"""Pairs come in batches of this many; one batch is the least there is."""
USUAL_PAIRS, MAX_PAIRS = 20, 60
"""Where the budget allows: at least, at most."""
WIDTH = 0.02
"""Width of the ratio's interval, as a share of it, that is worth more pairs."""

Measure = Callable[[int, bool], tuple[float, float]]
"""(number of the pair, is it judged) -> ms of the reference and of the candidate. Warm-up pairs
have negative numbers."""


@dataclass(slots=True)
class Pairs:
    """Times of paired calls in ms: entry i of both lists is one call of the reference and one of
    the candidate."""

    reference_ms: list[float] = field(default_factory=list)
    candidate_ms: list[float] = field(default_factory=list)

    def add(self, pair: tuple[float, float]) -> None:
        self.reference_ms.append(pair[0])
        self.candidate_ms.append(pair[1])

    def interval(self) -> tuple[float, float]:
        """Returns the 95% interval of the ratio of medians, reference / candidate, by resampling
        pairs."""
        return ratio_interval(self.reference_ms, self.candidate_ms, is_paired=True)


def take_pairs(
    measure: Measure,
    budget_s: float,
    warmup: int,
    *,
    now: Callable[[], float] = time.monotonic,
    draw: Callable[[int], int] = secrets.randbelow,
) -> Pairs:
    """Warms up, takes a first batch, and decides from its noise and pace how many more pairs to
    take.

    In each third of all pairs at least one is judged. `draw` decides which, so that no candidate
    can know. The number of pairs follows from the first batch alone, never from a ratio that looks
    good.

    Args:
        measure: takes one pair of times.
        budget_s: seconds that all pairs may take; the first batch is taken in any case.
        warmup: pairs before the timed ones.
        draw: returns a random number below its argument.
    """
    for number in range(-warmup, 0):
        measure(number, False)
    pairs, begin_s = Pairs(), now()
    judged = drawn_from_thirds(0, BATCH, draw)
    for number in range(BATCH):
        pairs.add(measure(number, number in judged))
    num = planned(pairs, (now() - begin_s) / BATCH, budget_s)
    judged = drawn_from_thirds(BATCH, num, draw)
    for number in range(BATCH, num):
        pairs.add(measure(number, number in judged))
    return pairs


def planned(first: Pairs, pair_s: float, budget_s: float) -> int:
    """Returns the number of pairs in all, in whole batches. The interval narrows with the root of
    the number, so the wanted number grows with the square of the width."""
    low, high = first.interval()
    width = (high - low) * median(first.candidate_ms) / median(first.reference_ms)
    wanted = max(BATCH * (width / WIDTH) ** 2, USUAL_PAIRS)
    affordable = budget_s / pair_s if pair_s > 0 else MAX_PAIRS
    return max(int(min(wanted, affordable, MAX_PAIRS)) // BATCH, 1) * BATCH


def drawn_from_thirds(begin: int, num: int, draw: Callable[[int], int]) -> set[int]:
    """Draws one pair of each third of the first `num`, among the pairs from `begin` on."""
    thirds = (range(part * num // 3, (part + 1) * num // 3) for part in range(3))
    # Pairs of the first batch have been drawn before the number of pairs was known.
    left = ([number for number in third if number >= begin] for third in thirds)
    return {numbers[draw(len(numbers))] for numbers in left if numbers}
