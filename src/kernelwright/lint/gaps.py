"""The distance between a cheap answer and the reference, and the tolerances that the answer
passes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from kernelwright.lint.findings import TOLERANCES

# The rule `strict`, of the linter and of the judge (`verify.values.compare`).
RMS_FACTOR, MAX_FACTOR = 2.0, 4.0
"""Error allowed, as a multiple of the reference's: another order of summation, another exp."""
FLOOR_ULPS = {
    torch.float64: (64.0, 1024.0),  # the oracle is the reference: only the order of sums differs
    torch.float32: (8.0, 32.0),  # 9.5e-7, 3.8e-6: a loop of 1,000 partial sums; ex2.approx
    torch.float16: (0.5, 2.0),  # one rounding of the result is 0.3 and 0.5
    torch.bfloat16: (0.5, 2.0),
}
"""(rms, max) always allowed, in units of the output dtype's eps."""
FEW = 3.0
"""An rms error over n elements that carry the answer may be 1 + FEW / sqrt(n) times as large."""
LOOSEST = max(bound for bound in TOLERANCES.values() if bound is not None)

_BLOCK_ELEMENTS = 1 << 26
_SAMPLE = 1 << 15
"""Elements looked at first: what fails on them fails."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Worst figures over draws; an answer that is right has zeros."""

    excess: float = 0.0
    """Largest |reference - y| / (1 + |y|): KernelBench's rule at the tolerance it just passes."""
    largest: float = 0.0
    """Largest |y - reference| / (|reference| + rms(reference))."""
    rms: float = 0.0
    """rms(y - reference) / rms(reference)."""

    def worse(self, other: "Gap") -> "Gap":
        return Gap(
            _worse(self.excess, other.excess),
            _worse(self.largest, other.largest),
            _worse(self.rms, other.rms),
        )

    @property
    def passes_any(self) -> bool:
        return self.excess <= LOOSEST

    def under_all(self, strict: Sequence["Allowed"]) -> tuple[str, ...]:
        """Returns the tolerances that the gap passes under the bounds of every output."""
        return min((self.tolerances(gap) for gap in strict), key=lambda t: len(t), default=())

    def tolerances(self, strict: "Allowed") -> tuple[str, ...]:
        """Returns the tolerances that the gap passes, tightest first."""
        names = [n for n, bound in TOLERANCES.items() if bound is not None and self.excess <= bound]
        is_strict = self.rms <= strict.rms and self.largest <= strict.largest
        if is_strict and len(names) == len(TOLERANCES) - 1:
            names.insert(0, "strict")
        return tuple(names)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The error that `strict` allows for one output."""

    rms: float
    largest: float

    @classmethod
    def by_floor(cls, dtype: torch.dtype) -> "Allowed":
        """Returns the floor alone, without the reference's own error; integers are exact."""
        if not dtype.is_floating_point:
            return cls(0.0, 0.0)
        rms, largest = FLOOR_ULPS[dtype]
        return cls(rms * torch.finfo(dtype).eps, largest * torch.finfo(dtype).eps)

    @classmethod
    def by_oracle(cls, native: torch.Tensor, oracle: torch.Tensor) -> "Allowed":
        """Returns a small factor of the native result's own error against fp64, and at least the
        floor. The rms of few elements is a small sample, and may be larger."""
        floor = cls.by_floor(native.dtype)
        # Where the native result alone overflows, it allows no error.
        finite = native.isfinite()
        compared = oracle if bool(finite.all()) else oracle.where(finite, math.nan)
        own = gap(compared, native)
        few = 1 + FEW / _effective_count(compared) ** 0.5
        return cls(
            max(floor.rms, RMS_FACTOR * own.rms) * few,
            max(floor.largest, MAX_FACTOR * own.largest),
        )


@dataclass(frozen=True, slots=True)
class CheapAnswer:
    """The cheap answer scale * base + shift; `base` broadcasts to the output's shape."""

    base: torch.Tensor | None = None
    scale: float = 1.0
    shift: float = 0.0

    def at(self, where: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor | float:
        if self.base is None:
            return self.shift
        return wide(self.base.expand(shape)[where]) * self.scale + self.shift


def gap(reference: torch.Tensor, answer: torch.Tensor | CheapAnswer) -> Gap:
    """Returns the distance of an answer from a reference of the same shape, over whole tensors.

    Elements where the reference is not finite do not count. If a sample shows that the answer
    passes no tolerance, the figures are those of the sample alone.
    """
    if isinstance(answer, torch.Tensor):
        answer = CheapAnswer(answer)
    if reference.numel() > 2 * _SAMPLE:
        where = sample_of(reference.shape, reference.device)
        quick = _block_gap(wide(reference[where]), answer.at(where, reference.shape))
        if not quick[0] <= LOOSEST:
            return Gap(quick[0], quick[0], quick[0])
    scale, count = _rms(reference)
    squares = largest = excess = 0.0
    base = None if answer.base is None else answer.base.expand(reference.shape)
    for r, x in _blocks(reference, base):
        y = answer.shift if x is None else wide(x) * answer.scale + answer.shift
        worst, over, square = _block_gap(wide(r), y, scale)
        excess, largest = _worse(excess, worst), _worse(largest, over)
        squares += square
    return Gap(excess, largest, (squares / count) ** 0.5 / scale)


def _block_gap(
    r: torch.Tensor, y: torch.Tensor | float, scale: float = 1.0
) -> tuple[float, float, float]:
    """Returns the largest excess, the largest error on the reference's scale, and the sum of
    squared errors."""
    size = abs(y) if isinstance(y, float) else y.abs()
    difference = (r - y).abs()
    strays = ~r.isfinite()
    difference = difference.masked_fill_(strays, 0.0)
    excess = difference / (1 + size)
    over = difference / (r.abs() + scale)
    figures = torch.stack(
        [
            excess.masked_fill_(strays, 0.0).max(),
            over.masked_fill_(strays, 0.0).max(),
            difference.square_().sum(),
        ]
    )
    worst, largest, squares = figures.tolist()
    return float(worst), float(largest), float(squares)


def _worse(one: float, other: float) -> float:
    """Returns the larger figure. NaN, which passes nothing, counts as the largest."""
    return one if math.isnan(one) or one > other else other


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in fp32 at least; integers and booleans in fp64, which holds indices
    exactly."""
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    return tensor.float() if tensor.is_floating_point() else tensor.double()


def _rms(reference: torch.Tensor) -> tuple[float, int]:
    """Returns the rms of the elements that are finite, never 0, and their number, at least 1."""
    squares, count = 0.0, 0
    for r, _ in _blocks(reference, None):
        finite = torch.nan_to_num(wide(r), nan=0.0, posinf=0.0, neginf=0.0)
        squares += float(finite.square().sum(dtype=torch.float64))
        count += int(r.isfinite().sum())
    rms = (squares / max(count, 1)) ** 0.5
    return max(rms, torch.finfo(torch.float32).tiny), max(count, 1)


def _effective_count(oracle: torch.Tensor) -> float:
    """Returns how many elements carry the energy: (sum y^2)^2 / sum y^4 over finite elements."""
    sums = torch.zeros(3, dtype=torch.float64, device=oracle.device)
    for y, _ in _blocks(oracle, None):
        power = torch.nan_to_num(y.double(), nan=0.0, posinf=0.0, neginf=0.0).square_()
        sums += torch.stack([power.sum(), power.square().sum(), y.isfinite().sum()])
    squares, fourths, count = sums.tolist()
    return effective(squares, fourths, count)


def effective(squares: float, fourths: float, count: float) -> float:
    """Returns the number of elements that carry the energy, from sums of squares and of fourth
    powers; `count` where the sums overflow or are zero."""
    number = squares * squares / fourths if fourths else math.inf
    return number if math.isfinite(number) else max(count, 1.0)


def _blocks(
    reference: torch.Tensor, base: torch.Tensor | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Yields equal parts of both as views. Temporaries stay small, and a broadcast base stays a
    broadcast."""
    if reference.numel() <= _BLOCK_ELEMENTS:
        if reference.numel():
            yield reference, base
        return
    axis = max(range(reference.dim()), key=lambda d: reference.shape[d])
    half = reference.shape[axis] // 2
    for start, length in ((0, half), (half, reference.shape[axis] - half)):
        part = None if base is None else base.narrow(axis, start, length)
        yield from _blocks(reference.narrow(axis, start, length), part)


@cache
def sample_of(shape: torch.Size, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Returns the positions that are compared first: random, the same for every tensor of the
    shape."""
    generator = torch.Generator().manual_seed(len(shape))
    count = min(_SAMPLE, shape.numel())
    return tuple(torch.randint(0, size, (count,), generator=generator).to(device) for size in shape)
