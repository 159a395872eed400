"""Finds the elements of one output that rounding decides, by other roundings of the reference.

An element is *off* if the candidate's value is wrong. An element is *unsettled* if some rounding of
the reference changes it. An off element is *explained* if a rounding gives the candidate's value.
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
    """One output of the candidate, and the values that roundings of the reference give it.

    All tensors have the shape of the output and are moved to its device.

    Args:
        output: the candidate's output.
        native: the reference's output in its own type.
        oracle: the reference's output in fp64.
    """

    off: torch.Tensor
    unsettled: torch.Tensor

    def __init__(self, output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor) -> None:
        device = output.device
        self.output, self.native, self.oracle = output, native.to(device), oracle.to(device)

    @abstractmethod
    def add(self, moved: torch.Tensor) -> None:
        """Adds the reference's output under another rounding."""

    @abstractmethod
    def explained(self) -> torch.Tensor: ...

    @property
    def num_left(self) -> int:
        """Number of elements that are off and not explained."""
        return int((self.off & ~self.explained()).sum())

    @property
    def may_be_rounding(self) -> bool:
        """Whether few elements are off, and enough others are left to judge by."""
        num_off, numel = int(self.off.sum()), self.off.numel()
        # A vector has no rows: one of its elements may be off.
        num_columns = self.off.shape[-1] if self.off.ndim > 1 else 1
        most_off = max(1, num_columns, MOST_OFF * numel)
        # In an output of a single element nothing else would be left to judge by.
        return not num_off or (num_off <= most_off and MOST_UNSETTLED * numel >= 1)

    @property
    def leaves_enough(self) -> bool:
        """Whether at most half of the elements are unsettled: the others judge the candidate."""
        return int(self.unsettled.sum()) <= MOST_UNSETTLED * self.unsettled.numel()

    def settled(self) -> torch.Tensor:
        """Returns the output with the reference's value in each element that is off."""
        return torch.where(self.off, self.native, self.output) if self.off.any() else self.output


class Exact(Look):
    """Integers and booleans. An element is explained if a rounding gives exactly this value."""

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
    """Floating-point values around a step, such as a floor or a comparison.

    An element is explained if roundings move the reference's value beyond the margin, and the
    candidate's value lies between the values that roundings give.

    Args:
        limit: the error that an element may have, as a share of its scale (`compare.scales`).
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
        # An overflow under one rounding must not widen the span to infinity.
        finite = torch.where(values.isfinite(), values, self.oracle)
        self.low, self.high = torch.minimum(self.low, finite), torch.maximum(self.high, finite)

    def explained(self) -> torch.Tensor:
        y = self.output.double()
        # Without `unsettled`, the plain errors of the reference would explain wrong values.
        is_between = (y >= self.low - self.margin) & (y <= self.high + self.margin)
        return self.unsettled & is_between
