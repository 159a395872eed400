"""Refuses drawn programs that cannot serve as tasks, with a reason. The cheapest check is first.

1. Ranges of values, computed from the draws of the inputs without a run (`programs.draws.ranges`).
2. Benchmarks: tasks of benchmarks must not be used for training.
3. Algebra: calls that do nothing, found in the text of the program.
4. A run at small sizes, in the program's own dtypes and in float64.
5. The task linter at small sizes, without a time limit, so that the result does not depend on the
   machine.
6. If the recipe says so, checks 4 and 5 again at the program's own sizes.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import torch

from kernelwright.lint.algebra import check_algebra
from kernelwright.lint.findings import Finding, Severity
from kernelwright.lint.linter import lint_program
from kernelwright.ops.operator import TensorType
from kernelwright.ops.ranges.spread import OutOfDomain, Spread, point, share_below
from kernelwright.ops.registry import names_with, operators
from kernelwright.ops.traits import Trait
from kernelwright.programs.draws.ranges import call_spreads, drawn, idle_range
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import largest, scaled_down
from kernelwright.programs.rewrites.rewrite import in_float32
from kernelwright.synth.benchmarks import is_benchmark
from kernelwright.synth.recipe import Quality


class Reason(StrEnum):
    """The reasons for refusing a program."""

    BENCHMARK = "benchmark"
    """The program has two or more calls, and is a task of a benchmark (sizes do not count)."""
    RANDOM = "random"
    """The program draws random numbers, so two runs differ."""
    DOMAIN = "domain"
    """An operator may get a value outside its domain, for example log a negative number."""
    MAGNITUDE = "magnitude"
    """A value may leave the range of its dtype, or is larger than values of tasks should be."""
    CONSTANT = "constant"
    """A result is the same number for all inputs."""
    NEAR_ZERO = "near_zero"
    """An output is so small that an answer of zeros would be close."""
    FAILS = "fails"
    """PyTorch refuses the program, or a result has another type than our rules say. This is a fault
    of ours."""
    NOT_FINITE = "not_finite"
    """A run returned infinities or NaN."""
    ILL_CONDITIONED = "ill_conditioned"
    """PyTorch's own result differs much from the result in float64, so rounding decides."""
    DEGENERATE = "degenerate"
    """The linter's finding: an answer can pass without the work, or a faithful answer can be
    refused."""
    IDLE = "idle"
    """The linter's finding: a call or an input has no effect, or algebra removes a call."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a program cannot serve as a task, with details."""

    reason: Reason
    detail: str
    """The finding, in words."""
    finding: str = ""
    """The linter's finding: its kind (`lint.findings.KINDS`)."""


LARGEST = {"float16": 3e4, "bfloat16": 1e6, "float32": 1e6, "float64": 1e6, "int64": 1e9}
"""The largest values of practical use, by dtype; half of what float16 holds."""
SMALLEST_OUTPUT = 1e-4
"""The smallest root mean square that an output may have."""
ROUNDING = {"float64": 1e-3, "float32": 1e-3, "float16": 3e-2, "bfloat16": 0.15}
"""The narrowest dtype of a program -> the most that rounding may change an output. The change is a
share of the output's root mean square; for integers and bool, a share of the elements."""
MAX_ELEMENTS = 1 << 12
"""The most elements of a value when programs are run or linted at small sizes."""
ONLY_FOR = {"batch_norm_train": {"running_mean": 3, "running_var": 4}}
"""Operator -> operand -> the only result that depends on this operand."""
TRUTHS = frozenset(name for name in names_with(Trait.READS_TRUTH) if operators()[name].commutes)
"""Operators that only ask of their two operands whether each value is zero."""
EXTREMES = frozenset({"maximum", "minimum"})
LEAST_WHOLE_STD = 1e4
"""With a standard deviation below this, some of the whole numbers of a result are equal."""
FEWEST_OTHERS = 0.1
"""A result counts as constant if, on average, fewer elements than this differ from the most
frequent whole number."""
IDLE_FINDINGS = frozenset({
    "ignores_parameter", "idle_operator", "constant_input", "unused_result", "redundant_operator",
    "cancelled_operator", "size_one_reduction", "removable_heavy_operator",
})  # fmt: skip
"""Weak findings that a task of ours should not have. The others (operators that fold, that repeat,
a part of a result cut off) say what a good kernel can make use of."""
TOLERANCE = "strict"
"""The judge's tolerance under which a finding of the linter must hold."""


def refusal(program: Program, rules: Quality) -> Refusal | None:
    """The refusal by the first check that fails; None if the program can serve as a task."""
    if rules.ranges and (unrun := refusal_unrun(program)):
        return unrun
    if rules.avoid_benchmarks and is_benchmark(program, rules.avoid):
        return Refusal(Reason.BENCHMARK, "a benchmark has it")
    if not rules.lint:
        return None
    return (
        refusal_by_algebra(program)
        or _by_values(scaled_down(program, MAX_ELEMENTS))
        or (_by_values(program) if rules.own_sizes else None)
    )


def refusal_by_algebra(program: Program) -> Refusal | None:
    """Calls that do nothing, read off the program."""
    return _by_findings(check_algebra(program))


# Reads and ranges


def refusal_unrun(program: Program) -> Refusal | None:
    """The refusal that follows from which calls read which values, and from how the inputs are
    drawn."""
    return _by_reads(program) or refusal_by_ranges(program)


def _by_reads(program: Program) -> Refusal | None:
    """The refusal of a program that computes an operand for results that nobody reads."""
    used = _used(program)
    for call in program.calls:
        for operand, result in ONLY_FOR.get(call.op, {}).items():
            if call.outputs[result] not in used:
                return Refusal(Reason.DEGENERATE, f"{call.op}: {operand} matters for nothing")
    return None


def _used(program: Program) -> set[str]:
    return {*program.outputs, *(name for call in program.calls for name in call.refs())}


def refusal_by_ranges(program: Program) -> Refusal | None:
    """The refusal that follows from how the inputs are drawn."""
    returned, used = set(program.outputs), _used(program)
    known = {value.name: drawn(value.init) for value in program.inputs}
    try:
        for call, spreads in call_spreads(program):
            if call.is_random:
                return Refusal(Reason.RANDOM, call.op)
            if refused := _by_operand(call, known, used) or _by_operands(call, known):
                return refused
            known.update(zip(call.outputs, spreads, strict=True))
            for name, result_type, v in zip(call.outputs, call.types, spreads, strict=True):
                if refused := _by_spread(call, result_type, v, name in returned):
                    return refused
    except OutOfDomain as error:
        return Refusal(Reason.DOMAIN, str(error))
    return None


def _by_operand(call: Call, known: Mapping[str, Spread], used: set[str]) -> Refusal | None:
    """The refusal that an operator of one operand shows."""
    # The index of the largest of equal values depends on the order in which a kernel looks at
    # them, so a correct kernel could be refused.
    kept = idle_range(call)
    is_of_largest = call.has(Trait.INDEX_OF_LARGEST)
    has_index = is_of_largest or call.has(Trait.INDEX_OF_SMALLEST)
    if kept is None and not has_index:
        return None
    v = known[next(call.refs())]
    if kept is not None and kept[0] <= v.low and v.high <= kept[1]:
        return Refusal(Reason.IDLE, f"{call.op} passes on all that it is given")
    if has_index and call.outputs[-1] in used and _has_ties(v, is_of_largest):
        return Refusal(Reason.DEGENERATE, f"{call.op}: index of one of several that are equal")
    return None


def _by_operands(call: Call, known: Mapping[str, Spread]) -> Refusal | None:
    """The refusal that operands show if one of them decides nothing beside the other."""
    if call.op not in TRUTHS and call.op not in EXTREMES:
        return None
    # If "and" nearly always has a true operand, a kernel that ignores the operand passes.
    operands = dict(call.args).values()
    read = [known[v.name] if isinstance(v, Ref) else point(float(v)) for v in operands]
    are_truths = call.op in TRUTHS
    shares = [v.share_of_zeros for v in read] if are_truths else [share_below(*read)]
    if any(_is_decided(share, call.types[0].numel) for share in shares):
        return Refusal(Reason.DEGENERATE, f"{call.op}: an operand that decides nothing")
    return None


def _is_decided(share: float, numel: int) -> bool:
    """Whether hardly any element is an exception, or hardly any element is not.

    Args:
        share: the expected share of exceptions.
    """
    # Checks run at small sizes, so at most MAX_ELEMENTS elements can show the difference.
    return share * (1 - share) * min(numel, MAX_ELEMENTS) < FEWEST_OTHERS


def _has_ties(v: Spread, largest: bool) -> bool:
    """Whether the largest (or smallest) of a few elements is likely to occur twice."""
    end = v.high if largest else v.low
    return (v.is_whole and v.std < LEAST_WHOLE_STD) or (end == 0 and v.share_of_zeros > 0)


def _by_spread(call: Call, made: TensorType, v: Spread, is_returned: bool) -> Refusal | None:
    """The refusal that the range of one result shows."""
    if v.low == v.high or _is_settled(v, made.numel):
        return Refusal(Reason.CONSTANT, f"{call.op} is {v.mean:.3g}")
    dtype = made.dtype
    limit = LARGEST.get(dtype, inf)
    # "not <=" and not ">": a NaN bound is refused too.
    if not v.largest <= limit:
        return Refusal(Reason.MAGNITUDE, f"{call.op}: up to {v.largest:.3g} in {dtype}")
    if is_returned and "float" in dtype and v.rms < SMALLEST_OUTPUT:
        return Refusal(Reason.NEAR_ZERO, f"{call.op}: an output of size {v.rms:.3g}")
    return None


def _is_settled(v: Spread, numel: int) -> bool:
    """Whether hardly any element is another whole number than all the others."""
    return v.is_whole and v.std * v.std * min(numel, MAX_ELEMENTS) < FEWEST_OTHERS


# Values


def _by_values(program: Program) -> Refusal | None:
    """The refusal by a run and by the linter, at the program's sizes.

    PyTorch has some operators in 16 bits only on a GPU. Such programs are checked in float32.
    """
    try:
        return refusal_by_run(program) or refusal_by_lint(program)
    except NotImplementedError:
        program = in_float32(program)
    try:
        return refusal_by_run(program) or refusal_by_lint(program)
    except NotImplementedError as error:
        return Refusal(Reason.FAILS, str(error))


def refusal_by_run(program: Program) -> Refusal | None:
    """The refusal that a run shows in comparison with a run in float64.

    Raises:
        NotImplementedError: PyTorch has an operator in this dtype only on a GPU.
    """
    with _failures() as failures:
        tensors = make_inputs(program, seed=0)
        native, wide = run(program, tensors), run(program, tensors, torch.float64)
    if failures:
        return failures[0]
    allowed = max(ROUNDING.get(dtype, 0.0) for dtype in _dtypes(program))
    for i, (output, expected) in enumerate(zip(native, wide, strict=True)):
        if not bool(output.isfinite().all()) or not bool(expected.isfinite().all()):
            return Refusal(Reason.NOT_FINITE, f"output {i}")
        if refused := _by_output(i, output, expected, allowed):
            return refused
    return None


@contextmanager
def _failures() -> Iterator[list[Refusal]]:
    """A context whose list receives a refusal if PyTorch cannot run the program inside.

    Raises:
        NotImplementedError: PyTorch has an operator in this dtype only on a GPU.
    """
    failures: list[Refusal] = []
    try:
        yield failures
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        text = str(error).splitlines()[0]
        if "not implemented for" in text or isinstance(error, NotImplementedError):
            raise NotImplementedError(text) from error
        failures.append(Refusal(Reason.FAILS, text))


def _dtypes(program: Program) -> set[str]:
    result_type = [value.type for value in program.inputs]
    result_type += [tensor_type for call in program.calls for tensor_type in call.types]
    return {tensor_type.dtype for tensor_type in result_type} | {"float32"}


def _by_output(
    i: int, found: torch.Tensor, expected: torch.Tensor, allowed: float
) -> Refusal | None:
    if not found.is_floating_point():
        share = float((found != expected).double().mean())
        if share > allowed:
            return Refusal(Reason.ILL_CONDITIONED, f"{share:.1%} of output {i} differ in float64")
        return None
    size = _rms(expected)
    if size < SMALLEST_OUTPUT:
        return Refusal(Reason.NEAR_ZERO, f"output {i} is of size {size:.3g}")
    error = _rms(found.double() - expected) / size
    if error > allowed:
        return Refusal(Reason.ILL_CONDITIONED, f"output {i} is off by {error:.1%} of its size")
    return None


def _rms(tensor: torch.Tensor) -> float:
    return float(tensor.square().mean().sqrt())


# The linter


def refusal_by_lint(program: Program) -> Refusal | None:
    """The refusal by the task linter, at the program's own sizes.

    Raises:
        NotImplementedError: PyTorch has an operator in this dtype only on a GPU.
    """
    with _failures() as failures:
        report = lint_program(program, max_elements=largest(program), budget_s=inf)
    return failures[0] if failures else _by_findings(report.findings)


def _by_findings(findings: Iterable[Finding]) -> Refusal | None:
    """The refusal by the linter's findings: degenerate and unsound findings first, then idle
    parts."""
    relevant = [finding for finding in findings if finding.holds_under(TOLERANCE)]
    for flaw in relevant:
        if flaw.severity is not Severity.WEAK:
            return Refusal(Reason.DEGENERATE, flaw.message, flaw.id)
    for flaw in relevant:
        if flaw.id in IDLE_FINDINGS:
            return Refusal(Reason.IDLE, flaw.message, flaw.id)
    return None
