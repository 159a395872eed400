"""Versions of one computation timed in turn, so that drift hits all of them alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Timing
from kernelwright.timing.stats import ratio_interval, summarize

ROUNDS = 10
"""Each round draws its own inputs and begins with another contender."""
REPEATS = 3
"""Timed calls of every contender in a round, after one that is not timed."""
OURS = "optimized"
"""The contender that all others are compared with."""


class Contender(Protocol):
    """One version of the computation."""

    def prepare(self, inputs: list[Any], seed: int) -> None:
        """Take the inputs of the next calls."""

    def time(self) -> float:
        """Milliseconds of one call."""

    def release(self) -> None:
        """Let go of inputs and results: the others need room on the GPU."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Times of contenders that took turns."""

    times: dict[str, Timing]
    """By contender."""
    speedup_intervals: dict[str, tuple[float, float]]
    """By baseline: 95% interval of its median over that of OURS; empty where OURS is missing."""


def take_turns(
    contenders: Mapping[str, Contender],
    draw: Callable[[int], list[Any]],
    *,
    seed: int,
    rounds: int = ROUNDS,
    repeats: int = REPEATS,
) -> dict[str, list[float]]:
    """Returns times in ms by contender, in the order in which they were taken. Only the contender
    whose turn it is has inputs.

    Args:
        draw: fresh inputs under a seed below 2^31.
        seed: seed of all draws.
        rounds: rounds with inputs of their own.
        repeats: timed calls of each contender in a round.
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        round_seed = derive(seed, number) % (1 << 31)
        inputs = draw(round_seed)
        # Another contender begins each round, so that no place in the round favours one of them.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            contender = contenders[name]
            contender.prepare(inputs, round_seed)
            contender.time()
            samples[name] += [contender.time() for _ in range(repeats)]
            contender.release()
        del inputs
    return samples


def compared(samples: Mapping[str, Sequence[float]]) -> Compared:
    """Returns medians of all contenders, and how much faster OURS is than each of the others. The
    call number i of every contender belongs to the same turn, so whole turns are resampled."""
    ours = samples.get(OURS)
    return Compared(
        {name: summarize(times) for name, times in samples.items()},
        {
            name: ratio_interval(times, ours, is_paired=True)
            for name, times in samples.items()
            if ours and name != OURS
        },
    )
