"""Decides whether outputs are right, by the reference's own error against an fp64 oracle.

Two figures an output, both on the scale of the answer itself, so that one rule suits softmax
(values below 1) and matmul (around 1e3), and near-zero elements do not fail on rounding:

    max |y - o| / (|o| + rms(o))        over elements
    rms(y - o) / rms(o)

`strict` allows twice the reference's rms figure and four times its max figure, and never less than
a floor of a few ulp (`FLOOR_ULPS`); where few elements carry the answer, more of the rms. Other
answers may set the bound in the reference's place, by the same factors (`Expected.tolerated`):
under `tf32` the oracle with every contraction's inputs cut to TF32, which is nothing more where
there is no contraction; and where a first look was close, the oracle of inputs moved by an ulp, for
computations that magnify rounding. `kernelbench` is that
suite's rule: |reference - y| <= tol * (1 + |y|) with tol 1e-4 for fp32 and 1e-2 for 16-bit types,
against the reference instead of the oracle.

Whatever the policy: integers are exact, dtype, shape and layout are the reference's, and an element
is finite where oracle and reference are.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch

from kernelwright.core.verdict import Code, ErrorFigures

Tensors = tuple[torch.Tensor, ...]


class Precision(StrEnum):
    STRICT = "strict"
    TF32 = "tf32"
    KERNELBENCH = "kernelbench"


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a case must give: one tensor an output, in order."""

    native: Tensors
    """The reference's outputs in its own dtype."""
    oracle: Tensors
    """The same computed in fp64; integers as they are."""
    tolerated: tuple[Tensors, ...] = ()
    """Further fp64 answers whose error is allowed as the reference's is."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    code: Code
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    errors: ErrorFigures | None
    """None where no floating-point output was compared."""
    mismatch: Mismatch | None


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
KERNELBENCH_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}
KERNELBENCH_HALF_TOLERANCE = 1e-2

_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}
"""Elements compared at a time: bounds the fp64 temporaries to 32 and 256 MiB each."""
_HUGE = 1e300
"""Stands for figures that overflow: records hold no infinities."""


def compare(outputs: Sequence[torch.Tensor], expected: Expected, precision: str) -> Comparison:
    """The worst error figures over all outputs and the first reason to reject, if any."""
    mismatch = structure_mismatch(outputs, expected.native)
    if mismatch:
        return Comparison(None, mismatch)
    errors: ErrorFigures | None = None
    for i, output in enumerate(outputs):
        where = f"output {i}" if len(outputs) > 1 else "the output"
        native, oracle = expected.native[i], expected.oracle[i]
        if not output.dtype.is_floating_point:
            mismatch = mismatch or _exact_mismatch(output, native, oracle, where)
            continue
        stray = _stray_mismatch(output, native, oracle, where)
        if stray:
            return Comparison(errors, stray)
        tolerated = [native, *(answer[i] for answer in expected.tolerated)]
        found, wrong = _judge_values(output, oracle, tolerated, Precision(precision))
        errors = worse(errors, found)
        if wrong:
            mismatch = mismatch or Mismatch(Code.WRONG_VALUES, f"{where}: {wrong}")
    return Comparison(errors, mismatch)


def worse(first: ErrorFigures | None, second: ErrorFigures | None) -> ErrorFigures | None:
    """Of two cases, the one that used up more of what it was allowed."""
    if first is None or second is None:
        return first or second
    return max(first, second, key=share_of_allowed)


def share_of_allowed(errors: ErrorFigures) -> float:
    """Above 1: wrong."""
    return max(errors.max_candidate / errors.max_allowed, errors.rms_candidate / errors.rms_allowed)


def strangeness(
    outputs: Sequence[torch.Tensor], native: Tensors, errors: ErrorFigures | None
) -> float:
    """How far outputs lie from the reference's own, by rms, as a share of what both may err
    together: a glance that costs no oracle. Above 1 is worth judging.

    Args:
        errors: of the same computation on other inputs; None where nothing is floating-point.
    """
    if structure_mismatch(outputs, native) is not None:
        return math.inf
    pairs = zip(outputs, native, strict=True)
    return max((_strangeness(y, n, errors) for y, n in pairs), default=0.0)


def _strangeness(y: torch.Tensor, native: torch.Tensor, errors: ErrorFigures | None) -> float:
    if errors is None or not y.dtype.is_floating_point:
        return 0.0 if torch.equal(y, native) else math.inf
    apart = squares = 0.0
    for left, right in _chunks(y, native):
        finite = right.isfinite()
        if not torch.equal(left.isfinite(), finite):
            return math.inf
        left, right = left[finite].double(), right[finite].double()
        apart += float((left - right).square().sum())
        squares += float(right.square().sum())
    if not apart:
        return 0.0
    allowed = errors.rms_allowed + errors.rms_reference
    return (apart / squares) ** 0.5 / allowed if squares else math.inf


def structure_mismatch(outputs: Sequence[torch.Tensor], expected: Tensors) -> Mismatch | None:
    """The first difference in number, dtype, shape or memory layout."""
    if len(outputs) != len(expected):
        return _structure(f"{len(outputs)} outputs, the reference has {len(expected)}")
    for i, (output, reference) in enumerate(zip(outputs, expected, strict=True)):
        if output.dtype != reference.dtype:
            return _structure(f"output {i} is {output.dtype}, the reference's is {reference.dtype}")
        if output.shape != reference.shape:
            shapes = f"{list(output.shape)}, the reference's {list(reference.shape)}"
            return _structure(f"output {i} has shape {shapes}")
        if not _same_layout(output, reference):
            return _structure(
                f"output {i} has strides {output.stride()}, the reference's {reference.stride()}"
            )
    return None


def _structure(message: str) -> Mismatch:
    return Mismatch(Code.WRONG_STRUCTURE, message)


def _same_layout(output: torch.Tensor, reference: torch.Tensor) -> bool:
    """Contiguous is always good: whatever reads the reference's layout reads that one too."""
    if output.is_contiguous():
        return True
    pairs = zip(output.shape, output.stride(), reference.stride(), strict=True)
    return all(mine == theirs for size, mine, theirs in pairs if size > 1)


def _chunks(*tensors: torch.Tensor) -> Iterator[Tensors]:
    """Equal slices of flattened tensors of one shape, on the first one's device."""
    flat = [t.detach().reshape(-1) for t in tensors]
    device = flat[0].device
    size = _CHUNK[device.type]
    for start in range(0, flat[0].numel(), size):
        yield tuple(t[start : start + size].to(device) for t in flat)


def _exact_mismatch(
    output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor, where: str
) -> Mismatch | None:
    """Integers and booleans; an argmax that rounding decides may follow reference or oracle."""
    wrong = sum(int(((y != n) & (y != o)).sum()) for y, n, o in _chunks(output, native, oracle))
    if not wrong:
        return None
    return Mismatch(
        Code.WRONG_VALUES, f"{where}: {wrong} of {output.numel()} {output.dtype} elements differ"
    )


def _stray_mismatch(
    output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor, where: str
) -> Mismatch | None:
    """NaN and infinity: as the reference or the oracle has them; none where both are finite.

    A reference that overflows its own dtype may be matched or bettered.
    """
    stray = missing = 0
    for y, n, o in _chunks(output, native, oracle):
        y_finite, n_finite, o_finite = y.isfinite(), n.isfinite(), o.isfinite()
        stray += int((~y_finite & n_finite & o_finite).sum())
        settled = y_finite | _same_special(y, n) | _same_special(y, o)
        missing += int(((y_finite & ~n_finite & ~o_finite) | ~(settled | n_finite)).sum())
    if stray:
        message = f"{where}: {stray} of {output.numel()} elements are NaN or infinite"
        return Mismatch(Code.NOT_FINITE, f"{message} where the reference is finite")
    if missing:
        message = f"{where}: {missing} of {output.numel()} elements do not follow the reference's"
        return Mismatch(Code.NOT_FINITE, f"{message} NaN and infinity")
    return None


def _same_special(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (y.isnan() & other.isnan()) | (y.isinf() & (y.double() == other.double()))


@dataclass(slots=True)
class _Error:
    """Running error of one tensor against the oracle."""

    largest: float = 0.0
    squares: float = 0.0

    def add(self, values: torch.Tensor, oracle: torch.Tensor, rms: float) -> None:
        difference = (values.double() - oracle).abs()
        self.squares += float((difference * difference).sum())
        if difference.numel():
            self.largest = max(self.largest, float((difference / (oracle.abs() + rms)).max()))


def _judge_values(
    output: torch.Tensor,
    oracle: torch.Tensor,
    tolerated: Sequence[torch.Tensor],
    precision: Precision,
) -> tuple[ErrorFigures, str]:
    """Error figures of one floating-point output, and what is wrong with it ("" if nothing).

    `tolerated` are the answers that set the bound, the reference's own first.
    """
    rms, count = _rms(tolerated[0], oracle)
    errors = [_Error() for _ in (output, *tolerated)]
    excess = 0.0
    for o, *answers in _chunks(oracle.to(output.device), output, *tolerated):
        valid = o.isfinite() & answers[1].isfinite()
        o, *answers = (values[valid].double() for values in (o, *answers))
        for error, values in zip(errors, answers, strict=True):
            error.add(values, o, rms)
        if o.numel():
            y, reference = answers[:2]
            excess = max(excess, float(((reference - y).abs() / (1 + y.abs())).max()))
    scale = rms * max(count, 1) ** 0.5
    figures = _figures(errors, scale, output.dtype, effective_count(oracle))
    if precision is not Precision.KERNELBENCH:
        return figures, _why_wrong(figures)
    tolerance = KERNELBENCH_TOLERANCE.get(output.dtype, KERNELBENCH_HALF_TOLERANCE)
    figures = replace(figures, max_allowed=tolerance, rms_allowed=tolerance)
    wrong = f"|reference - y| reaches {excess:.1e} * (1 + |y|), allowed {tolerance:.0e}"
    return figures, wrong if not excess <= tolerance else ""


def _rms(native: torch.Tensor, oracle: torch.Tensor) -> tuple[float, int]:
    """rms of the oracle over elements finite in both, never 0; and their number."""
    squares, count = 0.0, 0
    for o, n in _chunks(oracle, native):
        o = o[o.isfinite() & n.isfinite()].double()
        squares += float((o * o).sum())
        count += o.numel()
    return max((squares / max(count, 1)) ** 0.5, torch.finfo(native.dtype).tiny), count


def effective_count(output: torch.Tensor) -> float:
    """How many elements carry the energy: (sum y^2)^2 / sum y^4, from 1 to their number."""
    squares = fourths = 0.0
    for (y,) in _chunks(output):
        y = y[y.isfinite()].double().square()
        squares += float(y.sum())
        fourths += float(y.square().sum())
    found = squares * squares / fourths if fourths else math.inf
    return found if math.isfinite(found) else float(max(output.numel(), 1))


def _figures(
    errors: Sequence[_Error], scale: float, dtype: torch.dtype, count: float
) -> ErrorFigures:
    """From the errors of the candidate, the reference, and what else is tolerated. An rms over few
    elements that count is a sample of few: for one it may reach four times what many may."""
    rms_floor, max_floor = (ulps * torch.finfo(dtype).eps for ulps in FLOOR_ULPS[dtype])
    largest = [min(error.largest, _HUGE) for error in errors]
    rms = [min(error.squares**0.5 / scale, _HUGE) for error in errors]
    return ErrorFigures(
        max_candidate=largest[0],
        max_reference=largest[1],
        rms_candidate=rms[0],
        rms_reference=rms[1],
        max_allowed=max(MAX_FACTOR * max(largest[1:]), max_floor),
        rms_allowed=max(RMS_FACTOR * max(rms[1:]), rms_floor) * (1 + FEW / count**0.5),
    )


def _why_wrong(figures: ErrorFigures) -> str:
    if not figures.rms_candidate <= figures.rms_allowed:
        return (
            f"rms error {figures.rms_candidate:.1e} against fp64, allowed {figures.rms_allowed:.1e}"
            f" (the reference has {figures.rms_reference:.1e})"
        )
    if not figures.max_candidate <= figures.max_allowed:
        return (
            f"largest error {figures.max_candidate:.1e} against fp64, allowed "
            f"{figures.max_allowed:.1e} (the reference has {figures.max_reference:.1e})"
        )
    return ""
