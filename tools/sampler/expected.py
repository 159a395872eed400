"""How often one operator reads from another, in expectation: for pairs that no program drawn had.

Which operator a call of a skeleton is depends on nothing but the call's pattern. So a skeleton
tells for each pair of operators how often the pair occurs among all skeletons that differ in
operators alone. The mean over drawn skeletons tells pairs of one in a million from impossible
pairs.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelwright.synth.skeletons.calls import Pattern
from kernelwright.synth.skeletons.skeleton import Skeleton, Skeletons

Floats = npt.NDArray[np.float64]


class ExpectedPairs:
    """Sums over skeletons."""

    def __init__(self, operators: Sequence[str]) -> None:
        self._place = {op: place for place, op in enumerate(operators)}
        self._readings: Floats = np.zeros((len(operators), len(operators)))
        self._chances: dict[Pattern, tuple[list[int], Floats]] = {}
        self._num_skeletons = 0

    def add(self, skeleton: Skeleton, skeletons: Skeletons) -> None:
        """One that was drawn from these."""
        pattern_of: dict[int, Pattern] = {}
        for call in skeleton.calls:
            if call.pattern not in self._chances:
                ops = skeletons.ops(call)
                chances = np.array([weight / ops.total for weight in ops.weights])
                self._chances[call.pattern] = [self._place[op] for op in ops.items], chances
            readers, read_by = self._chances[call.pattern]
            for value in call.values:
                if value in pattern_of:
                    makers, made_by = self._chances[pattern_of[value]]
                    self._readings[np.ix_(makers, readers)] += np.outer(made_by, read_by)
            pattern_of.update(dict.fromkeys(call.results, call.pattern))
        self._num_skeletons += 1

    def merge(self, other: "ExpectedPairs") -> None:
        """Add the expectations of a process that drew the same operators."""
        self._readings += other._readings
        self._num_skeletons += other._num_skeletons

    def readings(self, pair: tuple[str, str], num: int) -> float:
        """The expected readings of a (producer, consumer) in `num` skeletons."""
        producer, read = (self._place[op] for op in pair)
        return float(self._readings[producer, read]) * num / self._num_skeletons
