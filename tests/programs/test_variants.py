"""Programs at other sizes: the same structure, accepted by the shape rules and by PyTorch."""

import math

import pytest
import torch
from drawing import programs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Init, Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import (
    ODD_SIZES,
    aligned_variants,
    enlarged,
    larger_variant,
    largest,
    scaled_down,
    shape_variants,
)
from kernelwright.programs.text import parse, to_text


def attention() -> Program:
    """(batch 8, sequence 256, width 768) as 12 heads, with a position table."""
    builder = Builder()
    x = builder.input(TensorType((8, 256, 768)))
    weight = builder.input(TensorType((2304, 768)))
    table = builder.input(TensorType((256, 64)))
    (qkv,) = builder.call("linear", input=x, weight=weight)
    q, k, v = builder.call("split", input=qkv, split_size_or_sections=768, dim=-1)
    heads = []
    for part in (q, k, v):
        (split,) = builder.call("reshape", input=part, shape=(8, 256, 12, 64))
        heads += builder.call("transpose", input=split, dim0=1, dim1=2)
    (turned,) = builder.call("mul", input=heads[0], other=table)
    (swapped,) = builder.call("transpose", input=heads[1], dim0=-1, dim1=-2)
    (scores,) = builder.call("matmul", input=turned, other=swapped)
    (weights,) = builder.call("softmax", input=scores, dim=-1)
    (mixed,) = builder.call("matmul", input=weights, other=heads[2])
    (back,) = builder.call("transpose", input=mixed, dim0=1, dim1=2)
    (flat,) = builder.call("reshape", input=back, shape=(8, 256, 768))
    return builder.program([flat])


def runs(program: Program) -> None:
    for result, name in zip(run(program, make_inputs(program, 0)), program.outputs, strict=True):
        assert tuple(result.shape) == program.type_of(name).shape


def signature(program: Program) -> list[tuple]:
    return [(call.op, tuple(call.refs()), call.outputs) for call in program.calls]


def test_attention_shrinks_with_heads_and_width_in_step():
    small = scaled_down(attention(), max_elements=1 << 14)
    assert largest(small) <= 1 << 14
    assert signature(small) == signature(attention())
    batch, length, width = small.inputs[0].type.shape
    assert small.inputs[1].type.shape == (3 * width, width)
    heads = next(call.types[0].shape for call in small.calls if call.op == "reshape")
    assert heads[:2] == (batch, length)
    assert heads[2] * heads[3] == width
    assert small.inputs[2].type.shape == (length, heads[3])
    runs(small)


def test_a_small_program_stays_as_it_is():
    program = attention()
    assert scaled_down(program, max_elements=largest(program)) is program


def test_indices_stay_in_range_when_the_table_shrinks():
    builder = Builder()
    index = builder.input(TensorType((64,), "int64"), Init("randint", 0, 50000))
    table = builder.input(TensorType((50000, 512)))
    program = builder.program(builder.call("embedding", input=index, weight=table))
    small = scaled_down(program, max_elements=4096)
    assert small.inputs[0].init.high == small.inputs[1].type.shape[0] < 50000
    runs(small)


@settings(max_examples=40, deadline=None)
@given(programs(), st.integers(30, 300))
def test_scaled_down_programs_keep_their_structure_and_run(program, max_elements):
    small = scaled_down(program, max_elements=max_elements)
    assert signature(small) == signature(program)
    assert largest(small) <= largest(program)
    assert parse(to_text(small)) == small
    runs(small)


@settings(max_examples=20, deadline=None)
@given(programs(max_steps=5), st.integers(0, 9))
def test_shape_variants_differ_keep_attributes_and_run(program, seed):
    found = shape_variants(program, 3, seed)
    assert found == shape_variants(program, 3, seed)
    assert len(set(map(to_text, [program, *found]))) == len(found) + 1
    for variant in found:
        assert signature(variant) == signature(program)
        for ours, theirs in zip(variant.calls, program.calls, strict=True):
            if ours.op not in ("layer_norm", "reshape", "aten.sort.default"):  # these name sizes
                assert [a for a in ours.args if a[0] not in ("groups",)] == list(theirs.args)
        runs(variant)


def test_a_pointwise_program_gets_as_many_variants_as_wanted():
    builder = Builder()
    x = builder.input(TensorType((128, 4096)))
    bias = builder.input(TensorType((4096,)))
    (y,) = builder.call("add", input=x, other=bias)
    program = builder.program(builder.call("softmax", input=y, dim=-1))
    found = shape_variants(program, 5, seed=0)
    assert len(found) == 5
    assert any(set(v.inputs[0].type.shape) & set(ODD_SIZES) for v in found)
    for variant in found:
        assert variant.inputs[0].type.shape[1:] == variant.inputs[1].type.shape
        assert torch.isfinite(run(variant, make_inputs(variant, 0))[0]).all()


def softmax_of_sum(rows, columns):
    builder = Builder()
    x = builder.input(TensorType((rows, columns)))
    bias = builder.input(TensorType((columns,)))
    (y,) = builder.call("add", input=x, other=bias)
    return builder.program(builder.call("softmax", input=y, dim=-1))


def test_the_larger_variant_goes_beyond_a_power_of_two_or_by_a_few_elements():
    variant = larger_variant(softmax_of_sum(20, 1000), seed=0)
    rows, columns = variant.inputs[0].type.shape
    assert 32 < rows <= 35
    assert 1000 < columns <= 1003
    assert variant.inputs[1].type.shape == (columns,)
    runs(variant)


def test_a_large_program_grows_by_a_few_elements_alone():
    program = softmax_of_sum(200, 5000)
    variant = larger_variant(program, seed=0, max_elements=1 << 10)
    assert largest(program) < largest(variant) < 1.1 * largest(program)
    assert larger_variant(softmax_of_sum(1, 1), seed=0) is None


@settings(max_examples=20, deadline=None)
@given(programs(max_steps=5), st.integers(0, 9))
def test_no_size_of_the_larger_variant_is_smaller(program, seed):
    variant = larger_variant(program, seed)
    if variant is None:
        return
    assert signature(variant) == signature(program)
    for ours, theirs in zip(variant.inputs, program.inputs, strict=True):
        assert all(a >= b for a, b in zip(ours.type.shape, theirs.type.shape, strict=True))
    runs(variant)


def test_variants_of_channels_last_images_are_not_contiguous_too():
    builder = Builder()
    x = builder.input(TensorType((2, 3, 4, 4), layout=Layout.CHANNELS_LAST))
    program = builder.program(builder.call("relu", input=x))
    found = shape_variants(program, 40, seed=0)
    assert {v.inputs[0].type.shape[0] for v in found} > {1}
    for variant in found:
        assert 1 not in variant.inputs[0].type.shape[1:3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers_shrink_with_their_gates_in_step(kind, bidirectional):
    module = kind(48, 64, num_layers=2, bidirectional=bidirectional)
    program = lower(module, (torch.randn(20, 10, 48),)).program
    small = scaled_down(program, max_elements=1000)
    assert largest(small) < largest(program)
    runs(small)
    for variant in shape_variants(program, 2, seed=0, fixed_attributes=False):
        runs(variant)


def test_a_program_is_enlarged_at_the_size_that_costs_least():
    program = parse(
        "def get_inputs():\n    return [torch.randn(64, 8), torch.randn(8, 16)]\n\n\n"
        "def fused_operator(x0, x1):\n    t0 = torch.matmul(x0, x1)\n"
        "    t1 = torch.relu(t0)\n    return [t1]\n"
    )
    made = enlarged(program, 1 << 20)
    assert largest(made) >= 1 << 20
    assert made.inputs[0].type.shape[1] == 8  # a longer inner dimension makes no result larger
    assert any(size % 2 for size in made.inputs[0].type.shape + made.inputs[1].type.shape)
    assert enlarged(program, 16) is None


ROW_SUM = """
def get_inputs():
    return [torch.randn(({rows}, {columns}), dtype=torch.float32)]

def fused_operator(x0):
    t0 = torch.sum(x0, dim=[1])
    return [t0]
"""


@pytest.mark.parametrize(("rows", "columns"), [(128, 1024), (4096, 768), (37, 100), (24, 4104)])
def test_aligned_variants_keep_what_a_kernel_is_compiled_for(rows, columns):
    program = parse(ROW_SUM.format(rows=rows, columns=columns))
    (variant,) = aligned_variants(program, 1, seed=3)
    assert variant != program
    changed = variant.inputs[0].type.shape
    for before, after in zip((rows, columns), changed, strict=True):
        assert math.gcd(after, 16) == math.gcd(before, 16)
    assert (changed[1] - 1).bit_length() == (columns - 1).bit_length()
    assert changed[1] % 32


def test_aligned_variants_of_a_large_program_are_smaller():
    program = parse(ROW_SUM.format(rows=1 << 16, columns=4096))
    (variant,) = aligned_variants(program, 1, seed=3, max_elements=1 << 18)
    assert largest(variant) <= 1 << 19
    rows, columns = variant.inputs[0].type.shape
    assert (columns - 1).bit_length() == 12
    assert rows % 16 == 0


def test_sizes_without_room_stay_as_they_are():
    assert aligned_variants(parse(ROW_SUM.format(rows=2, columns=3)), 1, seed=3) == []


def stretch_of(program):
    """Sizes of both operands of the last call, dimension by dimension from the last."""
    shapes = [program.type_of(name).shape for name in program.calls[-1].refs()]
    return list(zip(*(reversed(shape) for shape in shapes), strict=False))


def test_operands_that_were_not_stretched_are_not_stretched_in_a_variant():
    builder = Builder()
    x, bias = builder.input(TensorType((5, 631))), builder.input(TensorType((31, 4, 630)))
    (spread,) = builder.call("std", input=x, dim=1)
    (padded,) = builder.call("pad", input=bias, pad=(0, 1, 0, 1))
    (least,) = builder.call("minimum", input=x, other=padded)
    program = builder.program([spread, least])
    for seed in range(40):
        for made in shape_variants(program, 2, seed):
            assert all(one == other for one, other in stretch_of(made))


def test_the_added_input_of_a_product_is_not_stretched_in_a_variant():
    builder = Builder()
    a, b = builder.input(TensorType((64, 30))), builder.input(TensorType((30, 13)))
    (b,) = builder.call("relu", input=b)
    (wide,) = builder.call("pad", input=builder.input(TensorType((12,))), pad=(0, 1))
    (made,) = builder.call("addmm", input=wide, mat1=a, mat2=b)
    program = builder.program([made])
    variants = [made for seed in range(40) for made in shape_variants(program, 2, seed)]
    assert variants
    for made in variants:
        (added,) = made.type_of(made.calls[1].outputs[0]).shape
        assert added == made.calls[2].types[0].shape[1]


def test_sizes_may_become_one_together_and_stretched_operands_stay_stretched():
    builder = Builder()
    x, row, column = (builder.input(TensorType(shape)) for shape in ((8, 12), (12,), (8, 1)))
    (added,) = builder.call("add", input=x, other=row)
    (scaled,) = builder.call("mul", input=added, other=column)
    program = builder.program([scaled])
    variants = [made for seed in range(60) for made in shape_variants(program, 2, seed)]
    shapes = {made.inputs[0].type.shape for made in variants}
    assert any(1 in shape for shape in shapes)
    assert {made.inputs[2].type.shape[1] for made in variants} == {1}


def test_results_keep_their_dimensions_of_one_element():
    builder = Builder()
    image, weight = builder.input(TensorType((2, 3, 5, 8))), builder.input(TensorType((6, 3, 3, 1)))
    (made,) = builder.call("conv2d", input=image, weight=weight, dilation=2)
    program = builder.program([made])
    assert program.calls[0].types[0].shape[2] == 1
    variants = [made for seed in range(20) for made in shape_variants(program, 2, seed)]
    assert variants
    assert {made.calls[0].types[0].shape[2] for made in variants} == {1}
