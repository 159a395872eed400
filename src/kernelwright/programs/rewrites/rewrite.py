"""Rewrites that keep a program's values: other forms of the same computation for the search."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kernelwright.ops.operator import Layout
from kernelwright.programs.build import Builder, dead_code, map_refs
from kernelwright.programs.program import Call, Program, Ref

__all__ = ["channels_last", "dead_code", "in_float32", "spell_out_attention", "split_conv_bias"]

WIDE_HEAD = 256
"""Width of a head up to which a block of queries stays on chip beside the sums of its output. With
1024 a flash kernel took 135 ms on an H200 where two products and a softmax take 25 in PyTorch."""

Rule = Callable[[Builder, Call, dict[str, Any]], tuple[Ref, ...] | None]
"""(builder, call, its parameters in the new program) -> results; None keeps the call."""


def split_conv_bias(program: Program) -> Program:
    """The program with the bias of each convolution as a separate addition of shape (C, 1, ..).

    The addition can then fuse with what follows it, while the library does the convolution.
    """

    def rule(builder: Builder, call: Call, values: dict[str, Any]) -> tuple[Ref, ...] | None:
        bias = values.pop("bias", None)
        if call.is_extern or call.operator.family != "convolution" or bias is None:
            return None
        (product,) = builder.call(call.op, **values)
        # The weight has two dimensions beside those of space, also where the image has no batch.
        ones = (1,) * (builder.types[values["weight"].name].rank - 2)
        (column,) = builder.call("reshape", input=bias, shape=(-1, *ones))  # at any size
        return builder.call("add", input=product, other=column)

    return rewritten(program, rule)


def spell_out_attention(program: Program) -> Program:
    """The program with two products and a softmax in place of attention with too wide heads.

    Attention stays if it is causal, has a mask of booleans, or has heads that share keys.
    """

    def rule(builder: Builder, call: Call, values: dict[str, Any]) -> tuple[Ref, ...] | None:
        if call.op != "scaled_dot_product_attention":
            return None
        query, key, value = (values[name] for name in ("query", "key", "value"))
        mask, width = values.get("attn_mask"), builder.types[query.name].shape[-1]
        if isinstance(mask, Ref) and builder.types[mask.name].dtype == "bool":
            return None
        if width <= WIDE_HEAD or values.get("is_causal") or values.get("enable_gqa"):
            return None
        (turned,) = builder.call("transpose", input=key, dim0=-2, dim1=-1)
        (scores,) = builder.call("matmul", input=query, other=turned)
        scale = values.get("scale")
        (scores,) = builder.call("mul", input=scores, other=width**-0.5 if scale is None else scale)
        if isinstance(mask, Ref):
            (scores,) = builder.call("add", input=scores, other=mask)
        (shares,) = builder.call("softmax", input=scores, dim=-1)
        return builder.call("matmul", input=shares, other=value)

    return rewritten(program, rule)


def channels_last(program: Program) -> Program:
    """The program with its convolutions in channels-last layout; later calls take what results.

    Convolutions in 1D become convolutions in 2D over a single row: only these have the layout.

    Convolutions of one channel keep their layout, because PyTorch cannot tell the layouts apart
    there. Inputs of the other first convolutions and their weights are converted. Outputs, and
    operands of extern calls, which may depend on strides, are converted back to the layout they
    had.
    """
    converter = _Converter()

    def rule(builder: Builder, call: Call, values: dict[str, Any]) -> tuple[Ref, ...] | None:
        if call.is_extern:
            before = [program.type_of(name).layout for name in call.refs()]
            wanted = iter(before)
            values = map_refs_in(values, lambda ref: converter.convert(builder, ref, next(wanted)))
        elif _has_layout(builder, call, values):
            is_row = call.operator.spatial == 1
            values = _of_one_row(builder, values) if is_row else values
            for name in ("input", "weight"):
                values[name] = converter.convert(builder, values[name], Layout.CHANNELS_LAST)
            if is_row:
                (convolved,) = builder.call(call.op.replace("1d", "2d"), **values)
                convolved = converter.convert(builder, convolved, Layout.CONTIGUOUS)
                return builder.call("squeeze", input=convolved, dim=2)
        return builder.call(call.op, **values)

    def finish(builder: Builder, name: str, ref: Ref) -> Ref:
        return converter.convert(builder, ref, program.type_of(name).layout)

    return rewritten(program, rule, finish)


def _has_layout(builder: Builder, call: Call, values: dict[str, Any]) -> bool:
    """Whether the call is a convolution whose operands can be in channels-last layout.

    The image must be (N, C, H, W), not (C, H, W). PyTorch reads the layout from the strides of the
    image and of the weight. Strides of tensors with one channel are those of both layouts.
    """
    if call.operator.family != "convolution":
        return False
    image, weight = (builder.types[values[name].name].shape for name in ("input", "weight"))
    return len(image) == call.operator.spatial + 2 and (image[1], weight[1]) != (1, 1)


def _of_one_row(builder: Builder, values: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a 1D convolution as those of the 2D one over a single row of pixels."""
    wide = dict(values)
    for name in ("input", "weight"):
        (wide[name],) = builder.call("unsqueeze", input=values[name], dim=2)
    for name, of_row in (("stride", 1), ("dilation", 1), ("padding", 0), ("output_padding", 0)):
        if not isinstance(size := values.get(name, ""), str):
            wide[name] = (of_row, *(size if isinstance(size, tuple) else (size,)))
    return wide


def in_float32(program: Program) -> Program:
    """The program with float32 in the place of every narrower float, casts included."""

    def widened(value: Any) -> Any:
        return "float32" if value in ("float16", "bfloat16") else value

    inputs = tuple(
        replace(value, type=replace(value.type, dtype=widened(value.type.dtype)))
        for value in program.inputs
    )
    calls = tuple(
        replace(
            call,
            args=tuple((name, widened(value)) for name, value in call.args),
            types=tuple(
                replace(result_type, dtype=widened(result_type.dtype)) for result_type in call.types
            ),
        )
        for call in program.calls
    )
    return Program(inputs, calls, program.outputs)


def map_refs_in(values: dict[str, Any], replace: Callable[[Ref], Any]) -> dict[str, Any]:
    return {name: map_refs(value, replace) for name, value in values.items()}


@dataclass(slots=True)
class _Converter:
    """Converts a value to a layout once, however often it is asked for."""

    done: dict[tuple[str, Layout], Ref] = field(default_factory=dict)

    def convert(self, builder: Builder, ref: Ref, layout: Layout) -> Ref:
        if builder.types[ref.name].layout is layout:
            return ref
        key = (ref.name, layout)
        if key not in self.done:
            (self.done[key],) = builder.call("to_layout", input=ref, memory_format=layout.value)
        return self.done[key]


def rewritten(
    program: Program,
    rule: Rule,
    finish: Callable[[Builder, str, Ref], Ref] = lambda _, __, ref: ref,
) -> Program:
    """The program with every call passed through `rule`, outputs through `finish`."""
    builder = Builder()
    refs = {value.name: builder.input(value.type, value.init) for value in program.inputs}
    for call in program.calls:
        values = map_refs_in(dict(call.args), lambda ref: refs[ref.name])
        results = rule(builder, call, dict(values))
        if results is None:
            results = builder.call(call.op, **values)
        refs.update(zip(call.outputs, results, strict=True))
    return builder.program([finish(builder, name, refs[name]) for name in program.outputs])
