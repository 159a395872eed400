"""The elements of one output that rounding decides, as other roundings of the reference show them.

An element is *off* where it is wrong, *unsettled* where some rounding makes another one of it, and
*explained* where it is what some rounding makes.
"""

from abc import ABC, abstractmethod

import torch

from kernelwright.verify.values.compare import scales

MOST_OFF = 1 / 50
"""Share of an output's elements that may be off if roundings are to explain it. One row may be off
at least: one choice of a code or of an expert decides a whole row."""
MOST_UNSETTLED = 0.5
"""Share of an output's elements: where rounding decides more, too little is left to judge."""


class Look(ABC):
    """A look at one output, to which roundings are added.

    Args:
        output: the candidate's; whatever device the others are on, it is all done on its own.
        native: the reference's in its own type.
        oracle: in fp64.
    """

    off: torch.Tensor
    unsettled: torch.Tensor

    def __init__(self, output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor) -> None:
        device = output.device
        self.output, self.native, self.oracle = output, native.to(device), oracle.to(device)

    @abstractmethod
    def add(self, moved: torch.Tensor) -> None:
        """The answer under another rounding."""

    @abstractmethod
    def explained(self) -> torch.Tensor: ...

    @property
    def num_left(self) -> int:
        """Elements that are off and not explained."""
        return int((self.off & ~self.explained()).sum())

    @property
    def may_be_rounding(self) -> bool:
        """Few are off, and others are there to judge by."""
        num_off, numel = int(self.off.sum()), self.off.numel()
        num_columns = self.off.shape[-1] if self.off.ndim > 1 else 1
        most_off = max(1, num_columns, MOST_OFF * numel)
        return not num_off or (num_off <= most_off and MOST_UNSETTLED * numel >= 1)

    @property
    def leaves_enough(self) -> bool:
        """Most elements are settled."""
        return int(self.unsettled.sum()) <= MOST_UNSETTLED * self.unsettled.numel()

    def settled(self) -> torch.Tensor:
        """The output with the reference's elements in place of those that are off."""
        return torch.where(self.off, self.native, self.output) if self.off.any() else self.output


class Exact(Look):
    """Integers and booleans: explained is what is equal."""

    def __init__(self, output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor) -> None:
        super().__init__(output, native, oracle)
        self.unsettled = self.native != self.oracle
        self.off = (self.output != self.oracle) & (self.output != self.native)
        self._met = torch.zeros_like(self.off)

    def add(self, moved: torch.Tensor) -> None:
        moved = moved.to(self.output.device)
        self.unsettled = self.unsettled | (moved != self.oracle)
        self._met = self._met | (moved == self.output)

    def explained(self) -> torch.Tensor:
        return self._met


class Stepped(Look):
    """Floating-point values beyond a step: explained is what lies between those that roundings
    make, where these lie apart.

    Args:
        limit: the error that is allowed of an element, as a share of its scale.
    """

    def __init__(
        self, output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor, limit: float
    ) -> None:
        super().__init__(output, native, oracle)
        self.margin = limit * scales(self.oracle, self.native)
        is_compared = self.oracle.isfinite() & self.native.isfinite()
        self.off = is_compared & ((self.output.double() - self.oracle).abs() > self.margin)
        self.unsettled = torch.zeros_like(self.off)
        self.low = self.high = self.oracle.double()
        self._span(self.native.double())

    def add(self, moved: torch.Tensor) -> None:
        moved = moved.to(self.output.device).double()
        self._span(moved)
        is_apart = (moved - self.oracle).abs() > self.margin
        self.unsettled = self.unsettled | (is_apart & moved.isfinite())

    def _span(self, values: torch.Tensor) -> None:
        finite = torch.where(values.isfinite(), values, self.oracle)
        self.low, self.high = torch.minimum(self.low, finite), torch.maximum(self.high, finite)

    def explained(self) -> torch.Tensor:
        y = self.output.double()
        is_between = (y >= self.low - self.margin) & (y <= self.high + self.margin)
        return self.unsettled & is_between
