"""Rewrites change the form of a program and never its values."""

import pytest
import torch
from drawing import programs
from hypothesis import given, settings

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.rewrites.join_attention import join_attention
from kernelwright.programs.rewrites.k_major import k_major
from kernelwright.programs.rewrites.rewrite import (
    channels_last,
    dead_code,
    spell_out_attention,
    split_conv_bias,
)


def convolutions() -> Program:
    """conv -> relu -> sort -> conv transpose, and a mean beside it."""
    builder = Builder()
    x = builder.input(TensorType((2, 4, 6, 6)))
    first = builder.input(TensorType((8, 4, 3, 3)))
    second = builder.input(TensorType((8, 3, 2, 2)))
    biases = [builder.input(TensorType((width,))) for width in (8, 3)]
    (y,) = builder.call("conv2d", input=x, weight=first, bias=biases[0], padding=1)
    (y,) = builder.call("relu", input=y)
    y, _ = builder.call("aten.sort.default", self=y, dim=1)
    (z,) = builder.call("conv_transpose2d", input=y, weight=second, bias=biases[1], stride=2)
    return builder.program([z, *builder.call("mean", input=y, dim=(2, 3))])


def agrees(ours: Program, theirs: Program) -> None:
    """Equal in fp64 up to the order of additions, and of the same types."""
    inputs = make_inputs(theirs, 7)
    assert ours.inputs == theirs.inputs
    assert [ours.type_of(n) for n in ours.outputs] == [theirs.type_of(n) for n in theirs.outputs]
    found = run(ours, inputs, dtype=torch.float64)
    for a, b in zip(found, run(theirs, inputs, dtype=torch.float64), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)


@settings(max_examples=30, deadline=None)
@given(programs())
def test_rewrites_keep_the_values_of_any_program(program):
    rewrites = (split_conv_bias, spell_out_attention, join_attention, channels_last, k_major)
    for rewrite in (*rewrites, dead_code):
        agrees(rewrite(program), program)


def test_biases_become_additions():
    rewritten = split_conv_bias(convolutions())
    agrees(rewritten, convolutions())
    assert [call.op for call in rewritten.calls] == [
        "conv2d", "reshape", "add", "relu", "aten.sort.default",
        "conv_transpose2d", "reshape", "add", "mean",
    ]  # fmt: skip
    assert all(dict(call.args).get("bias") is None for call in rewritten.calls)
    columns = [call.arg("shape") for call in rewritten.calls if call.op == "reshape"]
    assert columns == [(-1, 1, 1)] * 2, "right at other sizes too, where PyTorch keeps them"


def test_channels_last_converts_once_and_propagates():
    program = convolutions()
    rewritten = channels_last(program)
    agrees(rewritten, program)
    ops = [call.op for call in rewritten.calls]
    assert ops[:4] == ["to_layout", "to_layout", "conv2d", "relu"]
    relu = rewritten.calls[3]
    assert relu.types[0].layout is Layout.CHANNELS_LAST
    assert rewritten.type_of(rewritten.outputs[0]).layout is Layout.CONTIGUOUS
    results = run(rewritten, make_inputs(program, 0))
    assert results[0].is_contiguous()


@pytest.mark.parametrize(
    ("op", "shape", "options"),
    [
        ("conv1d", (6, 4, 3), {"stride": (2,), "padding": (1,), "dilation": (2,)}),
        ("conv1d", (6, 2, 3), {"padding": "same", "groups": 2}),
        ("conv_transpose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}),
    ],
)
def test_convolutions_in_1d_are_of_one_row(op, shape, options):
    b = Builder()
    x, w, bias = (b.input(TensorType(each)) for each in ((2, 4, 11), shape, (6,)))
    (y,) = b.call(op, input=x, weight=w, bias=bias, **options)
    program = b.program(b.call("relu", input=y))
    rewritten = channels_last(program)
    agrees(rewritten, program)
    (convolution,) = (c for c in rewritten.calls if c.op.startswith("conv"))
    assert convolution.op == op.replace("1d", "2d")
    assert convolution.types[0].layout is Layout.CHANNELS_LAST


def test_channels_last_without_convolutions_changes_nothing():
    builder = Builder()
    x = builder.input(TensorType((2, 3, 4, 4)))
    program = builder.program(builder.call("relu", input=x))
    assert channels_last(program) == program


def test_dead_calls_go_and_inputs_stay():
    builder = Builder()
    x = builder.input(TensorType((2, 3)))
    builder.input(TensorType((4,)))
    builder.call("exp", input=x)
    program = builder.program(builder.call("relu", input=x))
    kept = dead_code(program)
    assert [call.op for call in kept.calls] == ["relu"]
    assert kept.calls[0].outputs == ("t0",)
    assert kept.inputs == program.inputs


def attention(width: int, mask: TensorType | None = None, **given) -> Program:
    builder = Builder()
    names = ("query", "key", "value")
    values = {name: builder.input(TensorType((2, 3, 5, width))) for name in names}
    if mask:
        values["attn_mask"] = builder.input(mask)
    return builder.program(builder.call("scaled_dot_product_attention", **values, **given))


def test_attention_with_wide_heads_is_spelled_out():
    for options in ({}, {"scale": 0.5}, {"mask": TensorType((5, 5))}):
        program = attention(260, **options)
        rewritten = spell_out_attention(program)
        agrees(rewritten, program)
        assert [call.op for call in rewritten.calls if call.op != "add"] == [
            "transpose", "matmul", "mul", "softmax", "matmul",
        ]  # fmt: skip


def test_attention_that_a_flash_kernel_does_well_stays():
    for narrow in ({"width": 64}, {"width": 260, "is_causal": True},
                  {"width": 260, "mask": TensorType((5, 5), "bool")}):  # fmt: skip
        program = attention(**narrow)
        assert spell_out_attention(program) == program


def product(*, turns: tuple[bool, bool], dtype: str = "float32", depth: int = 512) -> Program:
    """(512, depth) @ (depth, 384), each factor lying as it is or turned."""
    b, factors = Builder(), []
    for shape, is_turned in zip([(512, depth), (depth, 384)], turns, strict=True):
        factor = b.input(TensorType(shape[::-1] if is_turned else shape, dtype))
        if is_turned:
            (factor,) = b.call("transpose", input=factor, dim0=0, dim1=1)
        factors.append(factor)
    return b.program(b.call("matmul", input=factors[0], other=factors[1]))


@pytest.mark.parametrize(
    ("turns", "num_copies"),
    [((False, False), 1), ((False, True), 0), ((True, False), 2), ((True, True), 1)],
)
def test_factors_are_copied_that_do_not_lie_along_what_is_summed(turns, num_copies):
    program = product(turns=turns)
    rewritten = k_major(program)
    agrees(rewritten, program)
    assert [call.op for call in rewritten.calls].count("to_layout") == num_copies
    assert k_major(rewritten) == rewritten, "they lie well now"


def test_what_a_copy_would_not_pay_for_stays():
    halves = product(turns=(True, False), dtype="bfloat16")  # tensor cores take either order
    assert k_major(halves) == halves
    b = Builder()
    x, y = b.input(TensorType((8, 4096))), b.input(TensorType((4096, 4096)))
    few_rows = b.program(b.call("matmul", input=x, other=y))
    assert k_major(few_rows) == few_rows


def test_two_products_share_a_copy():
    b = Builder()
    x, y = b.input(TensorType((512, 512))), b.input(TensorType((512, 512)))
    (first,) = b.call("matmul", input=x, other=y)
    program = b.program(b.call("matmul", input=first, other=y))
    assert [call.op for call in k_major(program).calls].count("to_layout") == 1


def test_biases_of_convolutions_without_a_batch_become_additions():
    builder = Builder()
    x, weight, bias = (builder.input(TensorType(shape)) for shape in ((3, 8), (3, 5, 4), (5,)))
    program = builder.program(builder.call("conv_transpose1d", input=x, weight=weight, bias=bias))
    agrees(split_conv_bias(program), program)


def test_a_convolution_of_one_channel_keeps_its_layout():
    """PyTorch cannot tell the layout of such an image, and returns a contiguous result."""
    builder = Builder()
    x, weight = (builder.input(TensorType(shape)) for shape in ((2, 1, 6, 6), (4, 1, 3, 3)))
    second = builder.input(TensorType((5, 4, 3, 3)))
    (y,) = builder.call("conv2d", input=x, weight=weight)
    program = builder.program(builder.call("conv2d", input=y, weight=second))
    rewritten = channels_last(program)
    agrees(rewritten, program)
    layouts = [call.types[0].layout for call in rewritten.calls if call.op == "conv2d"]
    assert layouts == [Layout.CONTIGUOUS, Layout.CHANNELS_LAST]
