"""The inputs of a rule: one call, its parameters and the known facts about the values it reads."""

from collections.abc import Callable, Mapping
from typing import Any

from kernelwright.ops.operator import Bound, TensorType
from kernelwright.ops.ranges.spread import Spread, point


class RuleInputs:
    """A call, as rules see it: `of` gives the spread of a tensor, [] gives attributes and types."""

    __slots__ = ("_bound", "_spreads", "results")

    def __init__(
        self,
        bound: Bound,
        spreads: Mapping[str, Spread | tuple[Spread, ...]],
        results: tuple[TensorType, ...],
    ) -> None:
        self._bound, self._spreads, self.results = bound, spreads, results

    def __getitem__(self, name: str) -> Any:
        return self._bound[name]

    def of(self, name: str = "input") -> Spread:
        """The spread of a tensor parameter, or of the number in the tensor's place."""
        spread = self._spreads.get(name)
        if spread is None:
            return point(float(self._bound[name]))
        assert isinstance(spread, Spread)
        return spread

    def sequence(self, name: str) -> tuple[Spread, ...]:
        """The spreads of a parameter that is a sequence of tensors."""
        spreads = self._spreads[name]
        return spreads if not isinstance(spreads, Spread) else (spreads,)

    def has(self, name: str) -> bool:
        """Whether the call has a tensor for the parameter."""
        return name in self._spreads

    @property
    def count(self) -> float:
        """Number of elements of `input` for each element of the first result, at least 1."""
        read: TensorType = self._bound["input"]
        return max(read.numel / max(self.results[0].numel, 1), 1.0)


Rule = Callable[[RuleInputs], Spread | tuple[Spread, ...]]
"""The spread of a call's result; of each, where there are several.

Raises:
    OutOfDomain: it is not defined for all that it may be given.
"""
