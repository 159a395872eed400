"""Flaws of a task that show when it is called: cheap answers, inputs that do not matter, state.

A cheap answer is fitted on one draw and has to pass on all the others.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import torch

from kernelwright.lint.findings import TOLERANCES, Finding, beyond, found
from kernelwright.lint.gaps import LOOSEST, Allowed, CheapAnswer, Gap, gap, sample_of, wide

NUM_DRAWS = 5
SATURATED_SHARE = 0.99
_MIN_FIT_ELEMENTS = 8
"""The least elements of an output through which a line means anything."""

Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A task as the linter sees it."""

    draw: Callable[[int], list[Any]]
    """Seed -> inputs as the task's author draws them: tensors and plain values."""
    calls: Callable[[list[Any], Sequence[int]], list[Outputs]]
    """Outputs of successive calls of one fresh instance, each under its random seed."""
    oracle: Callable[[list[Any], int], Outputs] | None = None
    """Outputs in fp64; None where they cannot be had, and `strict` is then the floor alone."""
    exempt: frozenset[str] = frozenset()
    """Cheap answers that are the work itself: the mean, where the task is one."""

    def call(self, inputs: list[Any], seed: int) -> Outputs:
        return self.calls(inputs, (seed,))[0]


@dataclass(kw_only=True, slots=True)
class Values:
    """Findings so far, and the facts about the whole that checks of the parts need."""

    findings: list[Finding] = field(default_factory=list)
    allowed: list[Allowed] = field(default_factory=list)
    """The error that `strict` allows for each output."""
    num_draws: int = NUM_DRAWS
    not_checked: list[str] = field(default_factory=list)
    constant: frozenset[str] = frozenset()
    """Tolerances under which no input matters: constants pass for all outputs."""
    copied: frozenset[str] = frozenset()
    """Tolerances under which some cheap answer passes for all outputs."""


@dataclass(slots=True)
class AnswerFit:
    """A cheap answer to one output, and its largest error so far."""

    id: str
    text: str
    answer: Callable[[list[Any]], CheapAnswer]
    input: int | None = None
    gap: Gap = field(default_factory=Gap)


def check_values(subject: Subject, deadline_s: float = inf) -> Values:
    """Returns everything that calls of the task show.

    Args:
        deadline_s: on the monotonic clock. Draws after it are left out, except the second.

    Raises:
        Exception: whatever the task raises.
    """
    look = _Look(subject)
    for seed in range(1, NUM_DRAWS):
        if seed > 1 and time.monotonic() > deadline_s:
            break
        look.draw_again(seed)
    values = look.values()
    if look.num_draws < NUM_DRAWS:
        values.not_checked.append(f"values: {look.num_draws} draws of {NUM_DRAWS}: out of time")
    return values


class _Look:
    """Observations of a task over the draws so far."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.num_draws = subject, 1
        self.inputs = subject.draw(0)
        self.outputs: Outputs = subject.call(self.inputs, 0)
        self.findings = list(_random_or_stateful(subject, self.inputs, self.outputs))
        self.fits = [_fits(output, self.inputs, subject.exempt) for output in self.outputs]
        self.saturation = [_Saturation() for _ in self.outputs]
        self.strays = [0.0] * len(self.outputs)
        tensors = [i for i, value in enumerate(self.inputs) if isinstance(value, torch.Tensor)]
        self.redrawn: dict[int, Gap | None] = dict.fromkeys(tensors)
        self.constants = {i: v for i in tensors if (v := _single_value(self.inputs[i])) is not None}
        self._look()

    def draw_again(self, seed: int) -> None:
        self.outputs = ()  # frees large outputs before the next are made
        before, self.inputs = self.inputs, self.subject.draw(seed)
        self.outputs = self.subject.call(self.inputs, seed)
        self.num_draws += 1
        _redraw_each(self.subject, seed, (before, self.inputs), self.outputs, self.redrawn)
        same = self.constants.items()
        self.constants = {i: v for i, v in same if _single_value(self.inputs[i]) == v}
        self._look()

    def _look(self) -> None:
        for i, output in enumerate(self.outputs):
            _test(self.fits[i], output, self.inputs)
            self.saturation[i].add(output)
            self.strays[i] = max(self.strays[i], _stray_share(output))

    def values(self) -> Values:
        allowed = _allowed(self.subject, self, self.num_draws - 1)
        values = Values(allowed=allowed, num_draws=self.num_draws)
        values.findings = [*self.findings, *_strays(self.strays)]
        constant, copied = [], []
        for i, output in enumerate(self.outputs):
            chain = _chain(i, self.fits[i], allowed[i])
            copied.append({name for finding in chain for name in finding.tolerances})
            constant.append(
                {n for finding in chain if finding.id in CONSTANTS for n in finding.tolerances}
            )
            values.findings += [*chain, *self.saturation[i].findings(i, constant[-1])]
            values.findings += _slack(i, output)
        values.constant = frozenset(set.intersection(*constant))
        values.copied = frozenset(set.intersection(*copied))
        values.findings += _unused_inputs(self.redrawn, self.constants, self.inputs, values)
        return values


CONSTANTS = ("constant_output", "zero_passes", "constant_passes")
"""Findings that no input matters."""


def _random_or_stateful(subject: Subject, inputs: list[Any], outputs: Outputs) -> Iterator[Finding]:
    # One instance, one seed: only state can make the second answer differ.
    first, second = subject.calls(inputs, (0, 0))
    if (excess := _distance(first, second).excess) != 0 and not _is_noise(first, second):
        message = f"a second call on the same inputs differs by {excess:.2g}"
        yield found("stateful_reference", message, measure=_figure(excess))
    other = subject.call(inputs, 1)
    if (excess := _distance(outputs, other).excess) != 0 and not _is_noise(outputs, other):
        message = f"another random state changes the output by {excess:.2g}"
        yield found("random_reference", message, measure=_figure(excess))


def _is_noise(one: Outputs, other: Outputs) -> bool:
    """Whether two runs differ by rounding alone: atomic additions round differently from run to
    run, which is neither state nor chance."""
    pairs = zip(one, other, strict=True)
    return all(gap(a, b).tolerances(Allowed.by_floor(a.dtype))[:1] == ("strict",) for a, b in pairs)


def _distance(one: Outputs, other: Outputs) -> Gap:
    worst = Gap()
    for a, b in zip(one, other, strict=True):
        worst = worst.worse(gap(a, b))
    return worst


def _fits(output: torch.Tensor, inputs: list[Any], exempt: frozenset[str]) -> list[AnswerFit]:
    """Returns cheap answers to an output, strongest first."""
    if not output.numel():
        return []
    tensors = {i: v for i, v in enumerate(inputs) if isinstance(v, torch.Tensor)}
    fits = [AnswerFit("zero_passes", "zeros", lambda _: CheapAnswer())]
    sample = wide(output.reshape(1) if output.dim() == 0 else output[_where(output)])
    sample = sample[sample.isfinite()]
    if sample.numel():
        middle = _middle(output)
        fits.append(
            AnswerFit("constant_passes", f"{middle:.6g}", lambda _: CheapAnswer(shift=middle))
        )
    for i, x in tensors.items():
        if _is_like(x, output):
            fits.append(AnswerFit("identity", f"input {i}", _copy_of(i), i))
    for i, x in tensors.items():
        is_line = output.numel() >= _MIN_FIT_ELEMENTS and output.is_floating_point()
        if is_line and _is_like(x, output) and (line := _line(x, output)):
            text = f"{line[0]:.6g} * input {i} + {line[1]:.6g}"
            fits.append(AnswerFit("affine", text, _line_of(i, *line), i))
    for i, x in tensors.items():
        for axis in range(x.dim()) if x.is_floating_point() else ():
            if x.shape[axis] > 1 and (kept := _mean_shape(x, axis, output)) is not None:
                text = f"the mean of input {i} along axis {axis}"
                fits.append(AnswerFit("mean_passes", text, _mean_of(i, axis, kept), i))
    return [fit for fit in fits if fit.id not in exempt]


def _where(output: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return sample_of(output.shape, output.device)


def _middle(output: torch.Tensor) -> float:
    """Returns the number half-way between the extremes: the constant with the least largest
    error."""
    low, high = torch.aminmax(wide(output))
    if not bool((low + high).isfinite()):
        sample = wide(output.reshape(-1)[:65536])
        low, high = torch.aminmax(sample[sample.isfinite()])
    return float((low.double() + high.double()) / 2)


def _is_like(x: torch.Tensor, output: torch.Tensor) -> bool:
    """Whether the input has the output's shape or broadcasts to it. A single number does not count:
    it is a constant."""
    if not output.numel() or (x.numel() == 1 and output.numel() > 1):
        return False
    pairs = zip(reversed(x.shape), reversed(output.shape), strict=False)
    return x.dim() <= output.dim() and all(a in (1, b) for a, b in pairs)


def _copy_of(i: int) -> Callable[[list[Any]], CheapAnswer]:
    return lambda inputs: CheapAnswer(inputs[i])


def _line(x: torch.Tensor, output: torch.Tensor) -> tuple[float, float] | None:
    """Returns slope and shift of a least-squares line over a sample of the elements; None if no
    line fits."""
    where = _where(output)
    inputs, wanted = wide(x.expand(output.shape)[where]).double(), wide(output[where]).double()
    ok = inputs.isfinite() & wanted.isfinite()
    inputs, wanted = inputs[ok], wanted[ok]
    if inputs.numel() < _MIN_FIT_ELEMENTS:
        return None
    mean_inputs, mean_wanted = inputs.mean(), wanted.mean()
    centred = inputs - mean_inputs
    spread = float(centred.square().sum())
    if not spread > 0:
        return None
    slope = float((centred * (wanted - mean_wanted)).sum()) / spread
    return slope, float(mean_wanted) - slope * float(mean_inputs)


def _line_of(i: int, slope: float, shift: float) -> Callable[[list[Any]], CheapAnswer]:
    return lambda inputs: CheapAnswer(inputs[i], slope, shift)


def _mean_shape(x: torch.Tensor, axis: int, output: torch.Tensor) -> bool | None:
    """Returns whether the mean keeps its axis to fit the output's shape; None where it does not
    fit."""
    shape = list(x.shape)
    for kept in (True, False):
        mean = shape[:axis] + [1] * kept + shape[axis + 1 :]
        if _is_like(torch.empty(mean, device="meta"), output):
            return kept
    return None


def _mean_of(i: int, axis: int, kept: bool) -> Callable[[list[Any]], CheapAnswer]:
    return lambda inputs: CheapAnswer(wide(inputs[i]).mean(axis, keepdim=kept))


def _test(fits: list[AnswerFit], output: torch.Tensor, inputs: list[Any]) -> None:
    """Measures each fit on one more draw, and drops fits that pass no tolerance."""
    for fit in list(fits):
        fit.gap = fit.gap.worse(gap(output, fit.answer(inputs)))
        if not fit.gap.passes_any:
            fits.remove(fit)


@dataclass(slots=True)
class _Saturation:
    """Share of elements near one number, the least over draws."""

    shares: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Tolerance -> (share, number)."""

    def add(self, output: torch.Tensor) -> None:
        if not output.is_floating_point() or output.numel() < 100:
            return
        sample = wide(output[_where(output)])
        low, middle, high = torch.quantile(sample.nan_to_num(), _QUANTILES.to(sample)).tolist()
        for name, bound in TOLERANCES.items():
            if bound is None:
                continue
            near = {
                value: float(((sample - value).abs() <= bound * (1 + abs(value))).float().mean())
                for value in (0.0, low, middle, high)
            }
            value = max(near, key=lambda v: near[v])
            share, _ = self.shares.get(name, (1.0, 0.0))
            self.shares[name] = (min(share, near[value]), value)

    def findings(self, output: int, covered: set[str]) -> Iterator[Finding]:
        names = [n for n, (share, _) in self.shares.items() if share >= SATURATED_SHARE]
        if tolerances := beyond(names, covered):
            share, value = self.shares[tolerances[0]]
            message = f"{share:.1%} of output {output} are {value:.4g} within {tolerances[0]}"
            yield found("saturated", message, measure=share, tolerances=tolerances, output=output)


_QUANTILES = torch.tensor([0.01, 0.5, 0.99])


def _redraw_each(
    subject: Subject,
    seed: int,
    draws: tuple[list[Any], list[Any]],
    outputs: Outputs,
    redrawn: dict[int, Gap | None],
) -> None:
    """Swaps each input in turn for that of the draw before. Inputs that change the outputs leave
    `redrawn`."""
    before, inputs = draws
    for i, known in list(redrawn.items()):
        if before[i].shape != inputs[i].shape or torch.equal(before[i], inputs[i]):
            continue
        swapped = [*inputs[:i], before[i], *inputs[i + 1 :]]
        found_gap = _distance(outputs, subject.call(swapped, seed)).worse(known or Gap())
        if found_gap.passes_any:
            redrawn[i] = found_gap
        else:
            del redrawn[i]


def _single_value(tensor: torch.Tensor) -> float | None:
    """Returns the number that all elements of a tensor are; None if they differ, or there is only
    one."""
    if tensor.numel() < 2 or tensor.dtype is torch.bool:
        return None
    low, high = torch.aminmax(tensor)
    return float(low) if bool(low == high) else None


def _stray_share(output: torch.Tensor) -> float:
    # A finite sum proves that every element is finite. A sum that overflows proves nothing.
    if not output.is_floating_point() or bool(output.sum(dtype=torch.float32).isfinite()):
        return 0.0
    return int((~output.isfinite()).sum()) / output.numel()


def _strays(shares: list[float]) -> Iterator[Finding]:
    for i, share in enumerate(shares):
        if share:
            message = f"{share:.2%} of output {i} are NaN or infinite"
            yield found("not_finite", message, measure=share, output=i)


def _allowed(subject: Subject, look: _Look, seed: int) -> list[Allowed]:
    """Returns the error that `strict` allows for each output, by the oracle where it can make a
    difference."""
    floors = [Allowed.by_floor(output.dtype) for output in look.outputs]
    close = [fit.gap for fits in look.fits for fit in fits]
    close += [distance for distance in look.redrawn.values() if distance is not None]
    if subject.oracle is None or not any(distance.excess <= TIGHT for distance in close):
        return floors
    try:
        oracles = subject.oracle(look.inputs, seed)
    except torch.OutOfMemoryError:
        return floors
    return [
        Allowed.by_oracle(native, oracle) if native.is_floating_point() else floor
        for native, oracle, floor in zip(look.outputs, oracles, floors, strict=True)
    ]


TIGHT = min(bound for bound in TOLERANCES.values() if bound is not None)


def _chain(i: int, fits: list[AnswerFit], allowed: Allowed) -> list[Finding]:
    """Returns findings for fits that pass, each only if it passes a tighter tolerance than those
    before it."""
    chain: list[Finding] = []
    covered: set[str] = set()
    for fit in fits:
        tolerances = beyond(fit.gap.tolerances(allowed), covered)
        if not tolerances:
            continue
        covered.update(tolerances)
        id, text = fit.id, f"{fit.text} in place of output {i}"
        if id in ("zero_passes", "constant_passes") and tolerances[0] == "strict":
            id, text = "constant_output", f"output {i} is {fit.text} everywhere, on every draw"
        message = f"{text}: off by {fit.gap.excess:.2g} at most, passes {', '.join(tolerances)}"
        chain.append(
            found(
                id,
                message,
                measure=_figure(fit.gap.excess),
                tolerances=tolerances,
                output=i,
                input=fit.input,
            )
        )
    return chain


def _slack(i: int, output: torch.Tensor) -> Iterator[Finding]:
    """Yields a finding for integers that a relative tolerance would let be wrong by one or more."""
    if output.dtype is torch.bool or output.is_floating_point() or not output.numel():
        return
    largest = float(wide(output).abs().max())
    if (slack := LOOSEST * (1 + largest)) >= 1:
        message = f"output {i} holds integers up to {largest:.0f}: {int(slack)} off passes 1e-2"
        yield found("integer_slack", message, measure=slack, tolerances=("1e-2",), output=i)


def _unused_inputs(
    redrawn: dict[int, Gap | None],
    constants: dict[int, float],
    inputs: list[Any],
    values: Values,
) -> Iterator[Finding]:
    for i, value in constants.items():
        message = f"input {i} {list(inputs[i].shape)} is {value:.6g} everywhere, on every draw"
        yield found("constant_input", message, measure=value, input=i)
    for i, distance in redrawn.items():
        if distance is None:
            continue
        tolerances = beyond(distance.under_all(values.allowed), values.constant)
        if i not in constants and tolerances:
            message = f"input {i} drawn afresh changes nothing beyond {distance.excess:.2g}"
            yield found(
                "ignores_input",
                f"{message}, passes {', '.join(tolerances)}",
                measure=_figure(distance.excess),
                tolerances=tolerances,
                input=i,
            )


def _figure(value: float) -> float | None:
    """Returns the figure, or None for NaN and infinity, which records do not hold."""
    return value if abs(value) < float("inf") else None
