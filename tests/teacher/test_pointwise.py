"""Pointwise fragments: any DAG, any broadcast, every layout, all loop forms."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judging import faults

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program, Ref
from kernelwright.teacher.writer import write

LAST = Layout.CHANNELS_LAST


def candidates(program: Program, limit: int = 50):
    return write(program, limit=limit, seed=0, precision="strict")


def forms(program: Program) -> set[str]:
    return {candidate.plan[0].loop.removeprefix("pointwise ") for candidate in candidates(program)}


def biased(shape, bias_shape, *, layout=Layout.CONTIGUOUS, dtype="float32") -> Program:
    """gelu(x + bias) * x, and the sum before it."""
    builder = Builder()
    x = builder.input(TensorType(shape, dtype, layout))
    bias = builder.input(TensorType(bias_shape, dtype))
    (t,) = builder.call("add", input=x, other=bias)
    (g,) = builder.call("gelu", input=t)
    (y,) = builder.call("mul", input=g, other=x)
    return builder.program((y, t))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (biased((7, 130), (130,)), {"flat", "grid_stride", "rows"}),
        (biased((3, 5000), (5000,)), {"flat", "grid_stride", "row_blocks"}),
        (biased((4, 6, 5, 7), (6, 1, 1)), {"flat", "grid_stride", "rows"}),
        (biased((4, 6, 5, 7), (6, 1, 1), layout=LAST), {"flat", "grid_stride", "rows"}),
        (biased((2, 3, 4, 5, 6), (3, 1, 1, 1), layout=LAST), {"flat", "grid_stride", "rows"}),
        (biased((5, 4, 3, 2), (5, 1, 3, 1)), {"flat", "grid_stride", "rows"}),
        (biased((9, 33), ()), {"flat", "grid_stride"}),
        (biased((7, 130), (130,), dtype="bfloat16"), {"flat", "grid_stride", "rows"}),
    ],
    ids=["bias", "long", "channels", "nhwc", "ndhwc", "odd", "scalar", "bf16"],
)  # fmt: skip
def test_every_schedule_of_every_form_is_right(program, expected):
    assert forms(program) == expected
    assert faults(program, candidates(program)) == []


def mixed_layouts() -> Program:
    builder = Builder()
    x = builder.input(TensorType((3, 9, 6, 7), layout=LAST))
    bias = builder.input(TensorType((9,)))
    (shaped,) = builder.call("reshape", input=bias, shape=(9, 1, 1))
    (t,) = builder.call("add", input=x, other=shaped)
    (y,) = builder.call("relu", input=t)
    (z,) = builder.call("to_layout", input=y, memory_format="contiguous")
    return builder.program((z, t))


def test_layouts_that_differ_are_tiled_both_ways():
    program = mixed_layouts()
    assert forms(program) == {"transpose", "flat", "grid_stride"}
    assert candidates(program)[0].plan[0].loop == "pointwise transpose"
    assert faults(program, candidates(program)) == []


def views() -> Program:
    """A split into heads, a transpose, and a broadcast over them."""
    builder = Builder()
    x = builder.input(TensorType((2, 5, 12)))
    scale = builder.input(TensorType((3, 1, 1)))
    (heads,) = builder.call("reshape", input=x, shape=(2, 5, 3, 4))
    (moved,) = builder.call("permute", input=heads, dims=(0, 2, 1, 3))
    (scaled,) = builder.call("mul", input=moved, other=scale)
    (wide,) = builder.call("unsqueeze", input=scaled, dim=0)
    (flat,) = builder.call("flatten", input=wide, start_dim=3, end_dim=4)
    return builder.program((flat,))


def expanded() -> Program:
    builder = Builder()
    x = builder.input(TensorType((5, 1)))
    y = builder.input(TensorType((4, 5, 6)))
    (wide,) = builder.call("broadcast_to", input=x, size=(5, 6))
    (t,) = builder.call("sigmoid", input=wide)
    (z,) = builder.call("sub", input=y, other=t)
    return builder.program((z, t))


def normalized() -> Program:
    builder = Builder()
    x = builder.input(TensorType((3, 7, 5, 5)))
    channel = TensorType((7,))
    mean, weight, bias = (builder.input(channel) for _ in range(3))
    variance = builder.input(channel, Init("rand", 0.5, 2.0))
    (y,) = builder.call(
        "batch_norm", input=x, running_mean=mean, running_var=variance, weight=weight, bias=bias
    )
    (z,) = builder.call("hardswish", input=y)
    return builder.program((z,))


@pytest.mark.parametrize(
    "program", [views(), expanded(), normalized()], ids=["views", "expand", "bn"]
)
def test_views_and_inference_norms_cost_no_kernel_of_their_own(program):
    assert all(len(candidate.plan) == 1 for candidate in candidates(program))
    assert faults(program, candidates(program)) == []


UNARY = ("relu", "tanh", "abs", "neg", "sigmoid", "square", "floor", "cos")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


@st.composite
def dags(draw) -> Program:
    """A random DAG over operands that broadcast to one shape, in mixed dtypes and layouts."""
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    builder = Builder()
    values: list[Ref] = [builder.input(TensorType(shape))]
    for _ in range(draw(st.integers(1, 3))):
        kept = draw(st.integers(0, rank))
        sizes = tuple(draw(st.sampled_from((1, size))) for size in shape[rank - kept :])
        is_image = rank == 4 and sizes == shape
        layout = draw(st.sampled_from(list(Layout))) if is_image else Layout.CONTIGUOUS
        dtype = draw(st.sampled_from(("float32", "float16", "int64")))
        values.append(builder.input(TensorType(sizes, dtype, layout)))
    linked = values[0]
    for value in values[1:]:
        (linked,) = builder.call("add", input=linked, other=value)
        values.append(linked)
    for _ in range(draw(st.integers(1, 5))):
        left, right = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if draw(st.booleans()):
            values.append(*builder.call(draw(st.sampled_from(BINARY)), input=left, other=right))
        else:
            values.append(*builder.call(draw(st.sampled_from(UNARY)), input=left))
    outputs = {values[-1].name: values[-1], values[-2].name: values[-2]}
    return builder.program(tuple(ref for name, ref in outputs.items() if name.startswith("t")))


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(program=dags())
def test_random_graphs_with_random_broadcasts_are_right(program):
    found = candidates(program, limit=3)
    assert found
    assert faults(program, found) == []


def test_int64_offsets_are_used_and_no_limit_is_checked_for_huge_tensors():
    program = biased((2**20, 2**12), (2**12,))
    assert all("tl.int64" in c.source and "raise" not in c.source for c in candidates(program))


def test_smaller_tensors_refuse_to_grow_beyond_32_bits():
    assert all("2**31" in c.source for c in candidates(biased((7, 130), (130,))))


def test_parts_that_share_no_domain_are_not_written():
    builder = Builder()
    outputs = []
    for size in (5, 7):
        outputs += builder.call("relu", input=builder.input(TensorType((size,))))
    assert candidates(builder.program(outputs)) == []
