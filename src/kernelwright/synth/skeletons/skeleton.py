"""Skeletons: programs up to forms, choices and sizes; drawn exactly uniformly.

A skeleton of n calls is a sequence of n operators with the Kinds of their results, and says which
slots read which values. Values are results and *shared inputs*: inputs of the program that several
calls read. Every other slot takes an input of its own, which the skeleton does not name.

- A slot may read a value of its Kind if results may stand in it. A shared input is first read in a
  slot that also takes inputs. The slots of one call read distinct values.
- Of each call but the last, a result is read later; the last call's results are what the program
  returns. So nothing is computed in vain, and the program is connected.
- After any call, at most `width` values wait to be read by later calls.
- Some form of the operator has these slots and results, and takes inputs in its other slots.

Two orders of the same calls are two skeletons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from kernelwright.ops.forms.form import Form, ValueKind
from kernelwright.synth.skeletons.calls import (
    Calls,
    FittingForm,
    Kinds,
    Pattern,
    Place,
    SkeletonStep,
)
from kernelwright.synth.skeletons.counting import SkeletonCounts
from kernelwright.synth.skeletons.weighted import Weighted


@dataclass(frozen=True, slots=True)
class SkeletonCall:
    """Values are numbered as they come up: a call's new shared inputs, in order of their places,
    and then its results."""

    op: str
    pattern: Pattern
    values: tuple[int, ...]
    """For each entry of `pattern.reads`: the value that the call reads there."""
    results: tuple[int, ...]

    @property
    def reads(self) -> Mapping[Place, int]:
        """The slots that read a value, and which."""
        return {
            read.place: value for read, value in zip(self.pattern.reads, self.values, strict=True)
        }


@dataclass(frozen=True, slots=True)
class Skeleton:
    calls: tuple[SkeletonCall, ...]

    @property
    def shared(self) -> Mapping[int, ValueKind]:
        """The shared inputs: value -> Kind."""
        return {
            value: read.kind
            for call in self.calls
            for read, value in zip(call.pattern.reads, call.values, strict=True)
            if read.is_new
        }


class Skeletons:
    """All skeletons that can be made of some forms.

    The weight of a skeleton is the product of its operators' weights. With all weights 1, `count`
    is the number of skeletons and `sample` is uniform.
    """

    def __init__(
        self,
        forms: Iterable[Form],
        *,
        weights: Mapping[str, int] | None = None,
        width: int = 3,
    ) -> None:
        """
        Args:
            weights: operator -> weight, 0 or more; 1 for operators without a weight.
            width: the most values that may wait to be read after any call.
        """
        self._calls = Calls(forms, weights or {}, width)
        self._counts = SkeletonCounts(self._calls, width)
        self._by_move = lru_cache(_KEPT_TABLES)(self._counts.by_move)
        self._by_gain = lru_cache(_KEPT_TABLES)(self._counts.by_gain)

    def count(self, n: int) -> int:
        """The total weight of the skeletons of n calls, n >= 1; their number if all weights are
        1."""
        return self._counts.count(n)

    def fits(self, call: SkeletonCall) -> tuple[FittingForm, ...]:
        """The forms of the call's operator that fit it."""
        return self._calls.fits(call.pattern, call.op)

    def ops(self, call: SkeletonCall) -> Weighted[str]:
        """The operators that the call could have in the same skeleton."""
        return self._calls.ops[call.pattern]

    def sample(self, n: int, rng: Random) -> Skeleton:
        """A skeleton of n calls, with probability in proportion to its weight.

        Raises:
            ValueError: there is no skeleton of n calls.
        """
        if not self.count(n):
            raise ValueError(f"no skeleton has {n} calls")
        wiring = _Wiring(self._calls.kinds)
        state = 0
        # `k` calls are left. The outer sum first, then the inner sum: each option has the weight
        # of all skeletons that continue with it, so the draw is exact without any rejection.
        for k in range(n, 1, -1):
            move = self._by_move(k, state).draw(rng)
            gain, state = self._by_gain(k, move.landing).draw(rng)
            wiring.add(self._calls.steps[gain].draw(rng), move.drops, rng)
        reads = self._counts.states[state]
        wiring.add(self._calls.last[reads].draw(rng), reads, rng)
        return Skeleton(tuple(wiring.calls))


_KEPT_TABLES = 1 << 16
"""The most tables of each kind. A table has some 10 to 100 integers; with 20 calls there are about
a million."""


class _Wiring:
    """Calls one after the other, and the values that wait to be read."""

    def __init__(self, kinds: tuple[ValueKind, ...]) -> None:
        self.calls: list[SkeletonCall] = []
        self._kinds = kinds
        self._waiting: dict[ValueKind, list[int]] = {kind: [] for kind in kinds}
        self._num_values = 0

    def add(self, step: SkeletonStep, drops: Kinds, rng: Random) -> None:
        """A call that reads waiting values; of these, `drops` are read for the last time.

        Which values of a Kind, and in which slots, is drawn uniformly.
        """
        values: list[int] = []
        results_kept: list[tuple[ValueKind, int]] = []
        read: dict[ValueKind, list[int]] = {}
        for _, kind, is_new in step.pattern.reads:
            if is_new:
                values.append(self._next())
                results_kept.append((kind, values[-1]))
            else:
                values.append(_take(self._waiting[kind], rng))
                read.setdefault(kind, []).append(values[-1])
        # The counts say how many values of a Kind are read for the last time, not which: all
        # choices weigh the same, so a uniform draw is right.
        for drop in drops:
            _take(read[self._kinds[drop]], rng)
        for kind, kept in read.items():
            self._waiting[kind].extend(kept)
        results = tuple(self._next() for _ in step.pattern.results)
        results_kept.extend((step.pattern.results[at], results[at]) for at in step.kept)
        for kind, value in results_kept:
            self._waiting[kind].append(value)
        op = step.ops.draw(rng)
        self.calls.append(SkeletonCall(op, step.pattern, tuple(values), results))

    def _next(self) -> int:
        self._num_values += 1
        return self._num_values - 1


def _take(values: list[int], rng: Random) -> int:
    return values.pop(rng.randrange(len(values)) if len(values) > 1 else 0)
