"""Decides whether outputs are right, by the reference's own error against an fp64 oracle.

Each output has two figures, both on the scale of the answer itself. So one rule suits softmax
(values below 1) and matmul (around 1e3), and near-zero elements do not fail on rounding:

    max |y - o| / (|o| + rms(o))        over elements
    rms(y - o) / rms(o)

`strict` allows twice the reference's rms figure and four times its max figure, and never less than
a floor of a few ulp (`FLOOR_ULPS`). Where few elements carry the answer, the rms bound is wider.
Other answers may set the bound in the reference's place, by the same factors
(`Expected.tolerated`). Under `tf32` this is the oracle with the factors of contractions cut to
TF32. After a close first look it is the oracle of inputs moved by an ulp. `kernelbench` is that
suite's rule, against the reference: |reference - y| <= tol * (1 + |y|). There tol is 1e-4 for fp32
and 1e-2 for 16-bit types.

Under every policy integers are exact, and complex numbers are pairs of real numbers. Dtype, shape
and layout are the reference's. An element is finite where oracle and reference are.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kernelwright.core.verdict import Code, ErrorFigures, Precision
from kernelwright.lint.gaps import FEW, FLOOR_ULPS, MAX_FACTOR, RMS_FACTOR, effective

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """The values that a case must give: one tensor an output, in order."""

    native: Tensors
    """The reference's outputs in its own dtype."""
    oracle: Tensors
    """The same computed in fp64; integers as they are."""
    tolerated: tuple[Tensors, ...] = ()
    """Further fp64 answers whose error is allowed as the reference's is."""
    is_nan_free: bool = False
    """Where the oracle is NaN, any value is correct. Where it is infinite, NaN and infinity are
    correct: the reference does not define its outputs for such inputs."""
    least_scale: float = 0.0
    """The least scale that errors are shares of: the computation of tiny outputs may pass through
    numbers near 1."""
    is_range_free: bool = False
    """NaN and infinity of a candidate are accepted everywhere: another order of computation may
    overflow. Finite values are compared."""
    is_overflow_free: bool = False
    """Any value is accepted where the reference overflows in its own type: a kernel that does not
    overflow there is no worse, and may round otherwise than float64."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    code: Code
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    errors: ErrorFigures | None
    """None where no floating-point output was compared."""
    mismatch: Mismatch | None


NEAR = 0.1
"""The relative error at which a finite answer is right where the reference overflows."""
KERNELBENCH_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4}
KERNELBENCH_HALF_TOLERANCE = 1e-2

_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}
"""Elements compared at a time: bounds the fp64 temporaries to 32 and 256 MiB each."""
_HUGE = 1e300
"""Stands for figures that overflow: records hold no infinities."""


def compare(outputs: Sequence[torch.Tensor], expected: Expected, precision: str) -> Comparison:
    """Compares the outputs of one call with the expected values. Gives the error figures of the
    worst output, and a mismatch if an output is wrong. `precision` is a value of `Precision`."""
    return compare_all([(outputs, expected)], precision)[0]


def compare_all(
    answers: Sequence[tuple[Sequence[torch.Tensor], Expected]], precision: str
) -> list[Comparison]:
    """Compares several calls: one `Comparison` for each (outputs, expected), in order.

    On a GPU all sums are queued first, and the host waits once. With many judges on one GPU, the
    waits take most of the time.
    """
    # Structures are compared before complex values become pairs of reals, which have other shapes.
    structures = [structure_mismatch(outputs, expected.native) for outputs, expected in answers]
    answers = [(_as_reals(outputs), _expected_reals(expected)) for outputs, expected in answers]
    queued = [
        [] if structure else [_sums(i, y, expected) for i, y in enumerate(outputs)]
        for structure, (outputs, expected) in zip(structures, answers, strict=True)
    ]
    # The first read waits for the GPU, so the sums of all answers are queued before.
    values = iter(_read([sums for pending in queued for sums in pending]))
    rows = zip(structures, queued, answers, strict=True)
    return [
        Comparison(None, structure)
        if structure
        else _decide(outputs, [next(values) for _ in sums], Precision(precision))
        for structure, sums, (outputs, _) in rows
    ]


def _as_reals(tensors: Sequence[torch.Tensor]) -> Tensors:
    """Complex tensors as pairs of real numbers, others as they are."""
    return tuple(
        # `view_as_real` refuses tensors whose conjugation is still pending.
        torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        for tensor in tensors
    )


def _expected_reals(expected: Expected) -> Expected:
    return replace(
        expected,
        native=_as_reals(expected.native),
        oracle=_as_reals(expected.oracle),
        tolerated=tuple(map(_as_reals, expected.tolerated)),
    )


def _read(queued: Sequence[torch.Tensor]) -> Iterator[list[float]]:
    """The values of each tensor, brought over together."""
    if not queued:
        return
    values = torch.cat([sums.to(queued[0].device) for sums in queued]).tolist()
    for sums in queued:
        yield values[: len(sums)]
        values = values[len(sums) :]


def _decide(
    outputs: Sequence[torch.Tensor], values: Sequence[list[float]], precision: Precision
) -> Comparison:
    errors: ErrorFigures | None = None
    mismatch: Mismatch | None = None
    for i, (output, sums) in enumerate(zip(outputs, values, strict=True)):
        where = f"output {i}" if len(outputs) > 1 else "the output"
        # A wrong value does not end the loop: the error figures cover all outputs.
        if not output.dtype.is_floating_point:
            mismatch = mismatch or _exact_mismatch(sums, output, where)
            continue
        sizes = _Sizes(*sums)
        stray = _stray_mismatch(sizes, output, where)
        # With a stray NaN the errors of this output mean nothing, so the loop ends here.
        if stray:
            return Comparison(errors, stray)
        figures, wrong = _judge_values(sizes, output, precision)
        errors = worse(errors, figures)
        if wrong:
            mismatch = mismatch or Mismatch(Code.WRONG_VALUES, f"{where}: {wrong}")
    return Comparison(errors, mismatch)


def worse(first: ErrorFigures | None, second: ErrorFigures | None) -> ErrorFigures | None:
    """Returns the figures that use more of their allowed error; None counts as no error."""
    if first is None or second is None:
        return first or second
    return max(first, second, key=share_of_allowed)


def share_of_allowed(errors: ErrorFigures) -> float:
    """Returns the share that decides: above 1 the output is wrong. It is that of the larger error
    (max or rms), or of the figure of `kernelbench`."""
    if errors.suite_share is not None:
        return errors.suite_share
    return max(errors.max_candidate / errors.max_allowed, errors.rms_candidate / errors.rms_allowed)


def strangeness(
    outputs: Sequence[torch.Tensor], native: Tensors, errors: ErrorFigures | None
) -> float:
    """Returns how suspicious outputs are, without the cost of an oracle: their rms distance from
    the reference's own, as a share of the error that both may have. Above 1 is worth judging.

    The figure is infinite where structure, integers or the places of special values differ.

    Args:
        errors: of the same computation on other inputs; None if no output is floating-point.
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
        # float64, because the squares of float16 values overflow in their own type
        left, right = left[finite].double(), right[finite].double()
        apart += float((left - right).square().sum())
        squares += float(right.square().sum())
    if not apart:
        return 0.0
    allowed = errors.rms_allowed + errors.rms_reference
    return (apart / squares) ** 0.5 / allowed if squares else math.inf


def structure_mismatch(outputs: Sequence[torch.Tensor], expected: Tensors) -> Mismatch | None:
    """Returns the first difference in number, dtype, shape or memory layout, if there is any."""
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
    """Whether the strides are the reference's, or the output is contiguous. A caller that reads the
    reference's layout can read contiguous memory too."""
    if not output.numel():  # nothing is read by any stride
        return True
    strides = zip(output.stride(), reference.stride(), strict=True)
    expanded = [dim for dim, pair in enumerate(strides) if pair == (0, 0)]
    for dim in reversed(expanded):  # in both, one element stands for all of this dimension
        output, reference = output.select(dim, 0), reference.select(dim, 0)
    if output.is_contiguous():
        return True
    pairs = zip(output.shape, output.stride(), reference.stride(), strict=True)
    return all(mine == theirs for size, mine, theirs in pairs if size > 1)


def _chunks(*tensors: torch.Tensor) -> Iterator[Tensors]:
    """Yields equal slices of flattened tensors of one shape, on the first tensor's device."""
    flat = [t.detach().reshape(-1) for t in tensors]
    device = flat[0].device
    size = _CHUNK[device.type]
    for start in range(0, flat[0].numel(), size):
        yield tuple(t[start : start + size].to(device) for t in flat)


def _sums(i: int, output: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Returns the sums for output `i`, a float64 vector on its device: for integers and booleans
    the number of wrong elements, else the arguments of `_Sizes` in order."""
    native, oracle = expected.native[i], expected.oracle[i]
    if not output.dtype.is_floating_point:
        return _num_differing(output, native, oracle)
    tolerated = [native, *(answer[i] for answer in expected.tolerated)]
    oracle = oracle.to(output.device)
    # Two passes over the chunks: errors are shares of the oracle's rms, which the first pass sums.
    # Four counts of `_stray` and three sums of `_energy`.
    scale = torch.zeros(7, dtype=torch.float64, device=output.device)
    for o, y, n in _chunks(oracle, output, native):
        scale += torch.stack([*_stray(y, n, o, expected), *_energy(o, n)])
    squares, count = scale[4], scale[6]
    # An output of zeros has no scale: any error would be infinitely large without a least one.
    least = max(torch.finfo(native.dtype).tiny, expected.least_scale)
    rms = (squares / count.clamp(min=1)).sqrt().clamp(min=least)
    total = torch.zeros(1 + len(tolerated), dtype=torch.float64, device=output.device)
    largest, excess = torch.zeros_like(total), torch.zeros_like(rms)
    for o, *answers in _chunks(oracle, output, *tolerated):
        # Where oracle or reference overflow, `_stray` has counted the element: no error is defined.
        valid = o.isfinite() & answers[1].isfinite()
        off = torch.stack([_error(a, o, valid) for a in answers])
        total += off.square().sum(dim=1)
        # A share of |o| alone would make rounding near zero an error; a share of rms alone would
        # let the largest elements be wrong.
        relative = torch.where(valid, off / (o.double().abs() + rms), 0.0)
        largest = torch.maximum(largest, relative.amax(dim=1))
        # The figure of `kernelbench`, which reads no oracle.
        y, reference = answers[0].double(), answers[1].double()
        beyond = torch.where(valid & y.isfinite(), (reference - y).abs() / (1 + y.abs()), 0.0)
        excess = torch.maximum(excess, beyond.amax())
    return torch.cat([scale, rms.view(1), excess.view(1), total, largest])


class _Sizes:
    """Counts (`_stray`), sums (`_energy`) and largest values of one floating-point output.

    Args:
        rest: number of compared elements, rms of the oracle, largest excess of `kernelbench`; then
            a sum of squared errors for each answer, and a largest relative error for each answer.
    """

    def __init__(
        self,
        stray: float,
        missing: float,
        adrift: float,
        lost: float,
        squares: float,
        fourths: float,
        *rest: float,
    ):
        self.num_stray, self.num_missing = int(stray), int(missing)
        self.num_adrift, self.num_lost = int(adrift), int(lost)
        self.count, self.rms, self.excess, *errors = rest
        self.effective = effective(squares, fourths, self.count)
        half = len(errors) // 2
        self.squares, self.largest = errors[:half], errors[half:]
        """By answer: the candidate's, the reference's, what else is tolerated."""


def _num_differing(
    output: torch.Tensor, native: torch.Tensor, oracle: torch.Tensor
) -> torch.Tensor:
    """Counts wrong integers or booleans. Where rounding decides an argmax, the element may equal
    reference or oracle."""
    wrong = torch.zeros(1, dtype=torch.float64, device=output.device)
    tensors: Tensors = (output, native, oracle)
    if output.dtype is torch.bool:  # the bytes: PyTorch takes each byte but 0 for true
        tensors = tuple(tensor.to(torch.bool).view(torch.uint8) for tensor in tensors)
    for y, n, o in _chunks(*tensors):
        wrong += ((y != n) & (y != o)).sum()
    return wrong


def _exact_mismatch(values: list[float], output: torch.Tensor, where: str) -> Mismatch | None:
    if not values[0]:
        return None
    wrong = f"{int(values[0])} of {output.numel()} {output.dtype} elements differ"
    return Mismatch(Code.WRONG_VALUES, f"{where}: {wrong}")


def _stray(
    y: torch.Tensor, n: torch.Tensor, o: torch.Tensor, expected: Expected
) -> tuple[torch.Tensor, ...]:
    """Counts elements of `y` that are wrong in NaN or infinity (special values).

    Returns:
        stray: elements that are special where reference `n` and oracle `o` are finite.
        missing: reference and oracle are special, and `y` is finite or special in another way.
        adrift: the reference alone overflows, and `y` is finite but not near the oracle.
        lost: the reference alone overflows, and `y` is neither the same special value nor near the
            oracle. This count decides only where no element is finite in both answers.
    """
    y_finite, n_finite, o_finite = y.isfinite(), n.isfinite(), o.isfinite()
    # A special value is settled if reference or oracle has the same: either may be right.
    settled = y_finite | _same_special(y, n) | _same_special(y, o)
    missing = ~n_finite & ~o_finite & (y_finite | ~settled)
    # A NaN of the oracle accepts any value; an infinity accepts any special value.
    if expected.is_nan_free:
        missing = ~n_finite & o.isinf() & y_finite
    # A kernel that sums in a wider type may have the finite value where the reference overflows.
    is_near = (y.double() - o).abs() <= NEAR * o.double().abs()
    adrift = ~n_finite & o_finite & y_finite & ~is_near
    lost = ~n_finite & o_finite & ~_same_special(y, n) & ~is_near
    stray = ~y_finite & n_finite & o_finite
    if expected.is_range_free:
        stray, lost = torch.zeros_like(stray), adrift
    if expected.is_overflow_free:
        missing = adrift = lost = torch.zeros_like(stray)
    return stray.sum(), missing.sum(), adrift.sum(), lost.sum()


def _energy(o: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns sums of squares and of fourth powers of the oracle, and the number of elements. An
    element counts if it is finite in oracle and reference."""
    valid = o.isfinite() & n.isfinite()
    squares = torch.where(valid, o.double(), 0.0).square()
    return squares.sum(), squares.square().sum(), valid.sum()


def _same_special(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    # Infinities must have the same sign; `double` compares tensors of two types.
    return (y.isnan() & other.isnan()) | (y.isinf() & (y.double() == other.double()))


def _stray_mismatch(sizes: _Sizes, output: torch.Tensor, where: str) -> Mismatch | None:
    if sizes.num_stray:
        message = f"{where}: {sizes.num_stray} of {output.numel()} elements are NaN or infinite"
        return Mismatch(Code.NOT_FINITE, f"{message} where the reference is finite")
    if sizes.num_missing:
        message = f"{where}: {sizes.num_missing} of {output.numel()} elements do not follow the"
        return Mismatch(Code.NOT_FINITE, f"{message} reference's NaN and infinity")
    # With nothing finite to compare, the special values are all there is to check.
    num_adrift = sizes.num_adrift if sizes.count else sizes.num_lost
    if num_adrift:
        message = f"{where}: the reference overflows, and {num_adrift} elements there"
        return Mismatch(Code.NOT_FINITE, f"{message} neither do so nor are near the float64 result")
    return None


def _judge_values(
    sizes: _Sizes, output: torch.Tensor, precision: Precision
) -> tuple[ErrorFigures, str]:
    """(error figures of one floating-point output, its fault as text or "")."""
    figures = _figures(sizes, output.dtype)
    if precision is not Precision.KERNELBENCH:
        return figures, _why_wrong(figures)
    tolerance = KERNELBENCH_TOLERANCE.get(output.dtype, KERNELBENCH_HALF_TOLERANCE)
    share = min(sizes.excess / tolerance, _HUGE)
    figures = replace(figures, max_allowed=tolerance, rms_allowed=tolerance, suite_share=share)
    wrong = f"|reference - y| reaches {sizes.excess:.1e} * (1 + |y|), allowed {tolerance:.0e}"
    return figures, wrong if not sizes.excess <= tolerance else ""


def floor_ulps(dtype: torch.dtype) -> float:
    """Returns the rms error, in ulps of this type, that any computation in the type may have."""
    return FLOOR_ULPS[dtype][0]


def least_ulps(dtype: torch.dtype) -> float:
    """Returns the error, in ulps of this type, that any single result may have: half an ulp of 16
    bits, because kernels compute in fp32 and round once; else one ulp."""
    return min(1.0, FLOOR_ULPS[dtype][0])


def _error(answer: torch.Tensor, oracle: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Returns |answer - oracle|; 0 where `valid` is false or the answer is not finite. A tolerated
    answer that overflows must allow no error. `_stray` counts special values of the candidate."""
    is_compared = valid & answer.isfinite()
    return torch.where(is_compared, answer.double() - oracle, 0.0).abs()


def scales(oracle: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Returns the scale of each element's error: |o| + rms(o), in float64."""
    o = oracle.double().abs()
    valid = o.isfinite() & native.isfinite()
    rms = (torch.where(valid, o, 0.0).square().sum() / valid.sum().clamp(min=1)).sqrt()
    return o + rms.clamp(min=torch.finfo(native.dtype).tiny)


def effective_count(output: torch.Tensor) -> float:
    """Returns the participation ratio (sum y^2)^2 / sum y^4: how many elements carry the energy,
    from 1 to their number."""
    sums = torch.zeros(3, dtype=torch.float64, device=output.device)
    for (y,) in _chunks(output):
        sums += torch.stack(_energy(y, y))
    squares, fourths, _ = sums.tolist()
    return effective(squares, fourths, output.numel())


def _figures(sizes: _Sizes, dtype: torch.dtype) -> ErrorFigures:
    """Returns errors and bounds of one output. The reference's rms error over few elements is a
    small sample. So the rms bound grows by 1 + FEW / sqrt(n), which is 4 for one effective
    element."""
    rms_floor, max_floor = (ulps * torch.finfo(dtype).eps for ulps in FLOOR_ULPS[dtype])
    # rms(y - o) / rms(o) over n elements: the root of the sum of squares over rms(o) * sqrt(n)
    scale = sizes.rms * max(sizes.count, 1.0) ** 0.5
    largest = [min(error, _HUGE) for error in sizes.largest]
    rms = [min(squares**0.5 / scale, _HUGE) for squares in sizes.squares]
    few = 1 + FEW / sizes.effective**0.5
    return ErrorFigures(
        max_candidate=largest[0],
        max_reference=largest[1],
        rms_candidate=rms[0],
        rms_reference=rms[1],
        max_allowed=max(MAX_FACTOR * max(largest[1:]), max_floor),
        rms_allowed=max(RMS_FACTOR * max(rms[1:]), rms_floor) * few,
    )


def _why_wrong(figures: ErrorFigures) -> str:
    if not figures.rms_candidate <= figures.rms_allowed:  # also for NaN, which `>` would pass
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
