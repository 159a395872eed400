"""Flaws of a program that algebra shows without running it: a short list of exact rules.

A rule looks at one call and what made its operands, and yields findings. Nothing here rests on the
values that are drawn.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from kernelwright.lint.findings import Finding, found
from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.dataflow import (
    Dataflow,
    axes_of,
    channel_axis,
    is_flat,
    normalized_axes,
    operands,
    rounds_quotient,
    summed_axes,
)
from kernelwright.programs.draws.ranges import idle_range, value_range
from kernelwright.programs.program import Call, Program, Ref

_ARITHMETIC = names_with(Trait.ADDS, Trait.SCALES)
_TRIANGLES = names_with(Trait.CUTS_TRIANGLE)
_DISCARDING = _TRIANGLES | {"slice", "select"}
"""Calls with one result that is a part of the input."""
_HEAVY_FLOPS = 64
"""An element of the result: below it a contraction is no heavier than what stands around it."""


Rule = Callable[[Dataflow, int, Call], Iterator[Finding]]


def check_algebra(program: Program) -> Iterator[Finding]:
    """Yields the findings of every rule, in the order of the calls."""
    flow = Dataflow(program)
    for i, call in enumerate(program.calls):
        for rule in RULES:
            if not call.is_extern or rule is unused_result:
                yield from rule(flow, i, call)


def removable_heavy_operator(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds sum(A @ B), which is (sum A) @ B. A sum over a dimension that the contraction made can
    sum the factor first, if only scaling and shifting lie in between."""
    axes = summed_axes(flow, call)
    source, reader = _back_through_linear(flow, i, call.arg("input") if axes else None, axes)
    if source is None:
        return
    heavy = flow.program.calls[source]
    if axes & _made_axes(flow, heavy) and flow.is_only_read_by(source, reader):
        flops = heavy.operator.flops(flow.program.bound(heavy), heavy.types)
        share = flops / max(flow.program.flops(), 1)
        message = f"{call.op} (call {i}) sums what {heavy.op} (call {source}) makes"
        yield found(
            "removable_heavy_operator",
            f"{message}: summing a factor first makes it a fraction of the work",
            measure=share,
            operator=source,
        )


def _back_through_linear(
    flow: Dataflow, reader: int, value: Any, axes: frozenset[int]
) -> tuple[int | None, int]:
    """Returns the contraction behind scaling, shifting and transposing, and the call that reads
    it."""
    while (source := flow.maker(value)) is not None:
        call = flow.program.calls[source]
        if call.is_product:
            return source, reader
        if call.is_extern or not flow.is_only_read_by(source, reader):
            break
        if call.op == "to_layout":
            value, reader = call.arg("input"), source
            continue
        if call.op not in _ARITHMETIC:
            break
        whole, rest = operands(flow, call)
        is_scale = call.has(Trait.SCALES)
        is_dividing = is_scale and not call.operator.commutes
        if len(whole) != 1 or (is_dividing and whole[0] != call.arg("input")):
            break
        if is_scale and not all(is_flat(flow, v, call, axes) for v in rest):
            break
        value, reader = whole[0], source
    return None, reader


def _made_axes(flow: Dataflow, call: Call) -> frozenset[int]:
    """Returns axes of a contraction's result over which its factors can be summed beforehand."""
    rank = call.types[0].rank
    flops = call.operator.flops(flow.program.bound(call), call.types)
    if flops < _HEAVY_FLOPS * call.types[0].numel:
        return frozenset()
    if call.operator.channel_dim is not None:
        return frozenset(range(rank))
    if call.operator.factors and call.operator.factors[1].dim == -2:  # rows times columns
        return frozenset(range(max(rank - 2, 0), rank))
    return frozenset()


def discarded_result(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds a heavy result of which a triangle, a slice or one position is kept and the rest
    dropped."""
    source = flow.maker(call.arg("input")) if call.op in _DISCARDING else None
    if source is None or not flow.is_only_read_by(source, i):
        return
    heavy = flow.program.calls[source]
    if heavy.is_extern or not _made_axes(flow, heavy):
        return
    used = call.types[0].numel / max(heavy.types[0].numel, 1)
    if call.op in _TRIANGLES:
        used = _triangle(call)
    if used < 1:
        message = f"{call.op} (call {i}) uses {used:.0%} of what {heavy.op} (call {source}) makes"
        yield found("discarded_result", message, measure=used, operator=source)


def _triangle(call: Call) -> float:
    """Returns the share of a matrix that tril or triu keeps."""
    rows, columns = call.types[0].shape[-2:]
    diagonal = call.arg("diagonal")
    is_lower = call.has(Trait.KEEPS_LOWER_TRIANGLE)
    below = sum(min(max(row + diagonal + is_lower, 0), columns) for row in range(rows))
    kept = below if is_lower else rows * columns - below
    return float(kept / max(rows * columns, 1))


def unused_result(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds a call of which no result is read or returned."""
    if not any(flow.users[name] or name in flow.program.outputs for name in call.outputs):
        yield found("unused_result", f"nothing uses {call.op} (call {i})", operator=i)


def size_one_reduction(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds reductions over dimensions of size one, whose result is known."""
    if Trait.KNOWN_OF_ONE not in call.operator.traits:
        return
    shape = flow.shape(call.arg("input"))
    dims = axes_of(call.arg("dim"), len(shape))
    if shape and dims and prod(shape[d] for d in dims) == 1:
        message = f"{call.op} (call {i}) over dimensions of size one"
        yield found("size_one_reduction", message, operator=i)


def cancelled_operator(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds a shift or a scale that a normalization over the same elements takes back."""
    groups = normalized_axes(flow, call)
    if groups is None:
        return
    axes, scales = groups
    source = flow.maker(call.arg("input"))
    if source is None or not flow.is_only_read_by(source, i):
        return
    before = flow.program.calls[source]
    if before.is_extern:
        return
    if before.has(Trait.SHIFTS) or (scales and before.has(Trait.SCALES)):
        whole, rest = operands(flow, before)
        is_first = before.operator.commutes or whole[:1] == [before.arg("input")]
        if len(whole) == 1 and is_first and all(is_flat(flow, v, before, axes) for v in rest):
            message = f"{before.op} (call {source}) is taken back by {call.op} (call {i})"
            yield found("cancelled_operator", message, operator=source)
    channel = channel_axis(before)
    is_even = channel is not None and channel not in axes
    if is_even and isinstance(before.arg("bias"), Ref):
        message = f"the bias of {before.op} (call {source}) is taken back by {call.op}"
        yield found("cancelled_operator", f"{message} (call {i})", operator=source)


def redundant_operator(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds clamps, ReLUs and absolute values of an input that already lies within their limits."""
    kept = idle_range(call)
    source = flow.maker(call.arg("input")) if kept else None
    if kept is None or source is None:
        return
    low, high = value_range(flow.program, flow.program.calls[source])
    if low >= kept[0] and high <= kept[1]:
        name = flow.program.calls[source].op
        message = f"{call.op} (call {i}): the result of {name} (call {source}) lies within already"
        yield found("redundant_operator", message, operator=i)


def repeated_operator(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds mish(mish(x)), clamp(2 * clamp(x)), two pools in a row."""
    if call.op in _ARITHMETIC or call.operator.family not in ("pointwise", "pooling"):
        return
    if sum(1 for _ in call.refs()) != 1:
        return
    source = flow.maker(call.arg("input"))
    while source is not None and _is_scaling(flow.program.calls[source]):
        source = flow.maker(_scaled(flow.program.calls[source]))
    if source is None or flow.program.calls[source].op != call.op:
        return
    if not any(finding.operator == i for finding in redundant_operator(flow, i, call)):
        message = f"{call.op} (call {i}) follows {call.op} (call {source})"
        yield found("repeated_operator", message, operator=i)


def _is_scaling(call: Call) -> bool:
    """Whether the call takes one tensor and one number."""
    return call.op in _ARITHMETIC and sum(1 for _ in call.refs()) == 1


def _scaled(call: Call) -> Any:
    return next(v for v in (call.arg("input"), call.arg("other")) if isinstance(v, Ref))


def foldable_operators(flow: Dataflow, i: int, call: Call) -> Iterator[Finding]:
    """Finds additions and multiplications by numbers in a row, and of a tensor with itself."""
    if _is_scaling(call):
        source = flow.maker(_scaled(call))
        if source is not None and _is_scaling(flow.program.calls[source]):
            before = flow.program.calls[source]
            if flow.is_only_read_by(source, i) and _folds(before, call):
                message = f"{before.op} and {call.op} (calls {source}, {i}) with numbers"
                yield found("foldable_operators", f"{message} are one operator", operator=i)
        return
    if call.op != "mul" and not call.has(Trait.SHIFTS):
        return
    roots = [_root(flow, call.arg(name)) for name in ("input", "other")]
    if roots[0] == roots[1] and call.op != "mul":
        message = f"{call.op} (call {i}) of a tensor with its own multiple is one multiplication"
        yield found("foldable_operators", message, operator=i)


def _folds(before: Call, call: Call) -> bool:
    """Whether two calls are one: two shifts are one shift, two scales one scale."""
    is_dividing_number = any(
        c.op == "div" and not isinstance(c.arg("input"), Ref) for c in (before, call)
    )
    is_rounding = rounds_quotient(before) or rounds_quotient(call)
    is_same = any(before.has(kind) and call.has(kind) for kind in (Trait.SHIFTS, Trait.SCALES))
    return is_same and not is_dividing_number and not is_rounding


def _root(flow: Dataflow, value: Any) -> Any:
    """Returns the tensor that a value is a multiple of, by numbers."""
    while (source := flow.maker(value)) is not None:
        call = flow.program.calls[source]
        is_multiple = call.has(Trait.SCALES) and _is_scaling(call)
        if not is_multiple or not isinstance(call.arg("input"), Ref):
            break
        value = call.arg("input")
    return value


RULES: tuple[Rule, ...] = (
    removable_heavy_operator,
    discarded_result,
    unused_result,
    size_one_reduction,
    cancelled_operator,
    redundant_operator,
    repeated_operator,
    foldable_operators,
)
