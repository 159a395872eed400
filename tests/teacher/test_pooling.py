"""The pooling family: every kind of window, layout and neighbour, against fp64."""

from collections.abc import Callable

import pytest
import torch
from judging import faults

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.teacher.window import pooling
from kernelwright.teacher.writer import write

IMAGE = (2, 5, 13, 11)
VOLUME = (2, 3, 7, 9, 8)
SIGNAL = (3, 4, 37)


def pool(
    op: str,
    shape: tuple[int, ...],
    layout: Layout = Layout.CONTIGUOUS,
    dtype: str = "float32",
    **window: object,
) -> Program:
    b = Builder()
    x = b.input(TensorType(shape, dtype, layout))
    return b.program(b.call(op, input=x, **window))


def window(spatial: int, kernel: int, stride: int, padding: int = 0) -> dict[str, tuple[int, ...]]:
    sizes = {"kernel_size": kernel, "stride": stride, "padding": padding}
    return {name: (size,) * spatial for name, size in sizes.items()}


PLAIN: dict[str, Callable[[], Program]] = {
    "max 1d": lambda: pool("max_pool1d", SIGNAL, **window(1, 3, 2)),
    "max 2d padded": lambda: pool("max_pool2d", IMAGE, **window(2, 3, 2, 1)),
    "max 2d dilated": lambda: pool(
        "max_pool2d", IMAGE, kernel_size=(2, 3), stride=(1, 2), padding=(0, 1), dilation=(3, 2)
    ),
    "max 2d hanging over": lambda: pool("max_pool2d", IMAGE, ceil_mode=True, **window(2, 3, 2)),
    "max 3d": lambda: pool("max_pool3d", VOLUME, **window(3, 2, 2)),
    "max 2d of one image": lambda: pool("max_pool2d", IMAGE[1:], **window(2, 2, 2)),
    "avg 1d padded": lambda: pool("avg_pool1d", SIGNAL, **window(1, 4, 3, 2)),
    "avg 2d": lambda: pool("avg_pool2d", IMAGE, **window(2, 2, 2)),
    "avg 2d without padding counted": lambda: pool(
        "avg_pool2d", IMAGE, count_include_pad=False, **window(2, 3, 2, 1)
    ),
    "avg 2d hanging over": lambda: pool("avg_pool2d", IMAGE, ceil_mode=True, **window(2, 3, 2, 1)),
    "avg 2d hanging over, not counted": lambda: pool(
        "avg_pool2d", IMAGE, ceil_mode=True, count_include_pad=False, **window(2, 3, 2, 1)
    ),
    "avg 2d with a divisor": lambda: pool(
        "avg_pool2d", IMAGE, divisor_override=5, **window(2, 2, 1)
    ),
    "avg 3d": lambda: pool("avg_pool3d", VOLUME, **window(3, 3, 2, 1)),
    "avg 2d of a large window": lambda: pool("avg_pool2d", IMAGE, **window(2, 7, 3)),
    "adaptive avg 2d": lambda: pool("adaptive_avg_pool2d", (2, 5, 12, 8), output_size=(3, 4)),
    "adaptive avg 2d uneven": lambda: pool("adaptive_avg_pool2d", IMAGE, output_size=(4, 3)),
    "adaptive avg 2d to one": lambda: pool("adaptive_avg_pool2d", IMAGE, output_size=(1, 1)),
    "adaptive max 1d uneven": lambda: pool("adaptive_max_pool1d", SIGNAL, output_size=(5,)),
    "adaptive avg 1d of a long window": lambda: pool(
        "adaptive_avg_pool1d", (2, 3, 130), output_size=(2,)
    ),
    "max 2d in fp16": lambda: pool("max_pool2d", IMAGE, dtype="float16", **window(2, 3, 2, 1)),
    "avg 2d in bf16": lambda: pool("avg_pool2d", IMAGE, dtype="bfloat16", **window(2, 3, 2, 1)),
    "max 2d channels-last": lambda: pool(
        "max_pool2d", IMAGE, Layout.CHANNELS_LAST, **window(2, 3, 2, 1)
    ),
    "avg 3d out of channels-last": lambda: pool(
        "avg_pool3d", VOLUME, Layout.CHANNELS_LAST, **window(3, 2, 2)
    ),
}


@pytest.mark.parametrize("build", PLAIN.values(), ids=PLAIN)
def test_a_pool_is_right_at_every_edge(build):
    program = build()
    assert pooling.classify(program)
    assert faults(program, write(program, limit=1, seed=0, precision="strict")) == []


def fused(op: str, layout: Layout = Layout.CONTIGUOUS, padding: int = 1) -> Program:
    """Operands a channel, a pixel and a number, before and after; two outputs."""
    b = Builder()
    x = b.input(TensorType(IMAGE, "float32", layout))
    scale, plane = b.input(TensorType((5, 1, 1))), b.input(TensorType((13, 11)))
    bias = b.input(TensorType((1, 5, 1, 1)))
    full = b.input(TensorType((2, 5, 7, 6) if padding else (2, 5, 6, 5)))
    [t] = b.call("mul", input=x, other=scale)
    [t] = b.call("add", input=t, other=plane)
    [t] = b.call("exp", input=t)
    [p] = b.call(op, input=t, **window(2, 3, 2, padding))
    [u] = b.call("add", input=p, other=bias)
    [v] = b.call("div", input=b.call("tanh", input=u)[0], other=3.0)
    [v] = b.call("sub", input=v, other=full)
    return b.program([v, u])


@pytest.mark.parametrize("layout", Layout, ids=str)
@pytest.mark.parametrize(
    ("op", "padding"), [("max_pool2d", 1), ("avg_pool2d", 1), ("max_pool2d", 0)]
)
def test_what_surrounds_a_pool_is_fused_and_padding_stays_out(op, padding, layout):
    program = fused(op, layout, padding)
    candidates = write(program, limit=20, seed=0, precision="strict")
    loops = {c.plan[0].loop: c for c in candidates}
    assert faults(program, list(loops.values())) == []


def flattened() -> Program:
    b = Builder()
    x = b.input(TensorType(IMAGE))
    [t] = b.call("max_pool2d", input=x, **window(2, 2, 2))
    [t] = b.call("flatten", input=t, start_dim=1)
    return b.program(b.call("relu", input=t))


def row_as_signal() -> Program:
    """A pool over the columns of a matrix, as after a linear layer."""
    b = Builder()
    x = b.input(TensorType((9, 50)))
    [t] = b.call("unsqueeze", input=x, dim=1)
    [t] = b.call("avg_pool1d", input=t, **window(1, 4, 4))
    return b.program(b.call("squeeze", input=t, dim=1))


@pytest.mark.parametrize("build", [flattened, row_as_signal], ids=lambda build: build.__name__)
def test_views_around_a_pool_cost_nothing(build):
    program: Program = build()
    candidates = write(program, limit=1, seed=0, precision="strict")
    assert len(candidates[0].plan) == 1
    assert faults(program, candidates) == []


def test_a_max_passes_nan_on_and_ignores_the_padding_of_negative_images():
    b = Builder()
    x: Ref = b.input(TensorType(IMAGE))
    [t] = b.call("log", input=x)  # NaN for negative elements
    program = b.program(b.call("max_pool2d", input=t, **window(2, 2, 2, 1)))
    assert faults(program, write(program, limit=1, seed=0, precision="strict")) == []


def test_layouts_that_differ_are_read_and_written_in_tiles():
    program = PLAIN["avg 3d out of channels-last"]()
    candidates = write(program, limit=11, seed=0, precision="strict")
    assert candidates[0].plan[0].loop == "window_plane"
    assert {c.plan[0].loop for c in candidates} == {"window", "window_plane"}


def test_candidates_are_distinct_and_repeat_with_the_seed():
    program = fused("max_pool2d")
    one, same = (write(program, limit=4, seed=3, precision="strict") for _ in range(2))
    assert one == same
    assert len({c.source for c in one}) == 4


@pytest.mark.parametrize("layout", Layout, ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_a_pool_to_one_element_is_a_reduction(kind, layout):
    program = pool(f"adaptive_{kind}_pool2d", (2, 3, 40, 50), layout, output_size=(1, 1))
    candidates = write(program, limit=1, seed=0, precision="strict")
    assert not candidates[0].plan[0].loop.startswith("window")
    assert faults(program, candidates) == []


def test_pools_to_one_element_are_reductions_that_fuse():
    b = Builder()
    x = b.input(TensorType(IMAGE))
    [mean] = b.call("adaptive_avg_pool2d", input=x, output_size=(1, 1))
    [top] = b.call("adaptive_max_pool2d", input=x, output_size=(1, 1))
    program = b.program(b.call("add", input=mean, other=top))
    candidates = write(program, limit=3)
    for candidate in candidates:
        assert candidate.plan[0].kernel.startswith("add_t2_")
        assert candidate.plan[0].fuses[:2] == ("adaptive_avg_pool2d", "adaptive_max_pool2d")
    assert faults(program, candidates) == []


def rows_of(program: Program) -> list[Candidate]:
    written = (way.write() for way in pooling.ways(program, "strict") if "STEP" in way.kind)
    return [candidate for candidate in written if candidate is not None]


LONG: dict[str, Callable[[], Program]] = {
    "avg 2d": lambda: pool("avg_pool2d", IMAGE, **window(2, 7, 3)),
    "avg 2d padded": lambda: pool("avg_pool2d", IMAGE, **window(2, 8, 3, 2)),
    "avg 2d without padding counted": lambda: pool(
        "avg_pool2d", IMAGE, count_include_pad=False, **window(2, 6, 4, 3)
    ),
    "avg 2d hanging over": lambda: pool("avg_pool2d", IMAGE, ceil_mode=True, **window(2, 5, 4)),
    "max 2d dilated": lambda: pool(
        "max_pool2d", IMAGE, kernel_size=(4, 5), stride=(1, 2), padding=(0, 1), dilation=(3, 2)
    ),
    "max 1d": lambda: pool("max_pool1d", SIGNAL, **window(1, 19, 2)),
    "max 3d": lambda: pool("max_pool3d", VOLUME, **window(3, 4, 2, 1)),
    "adaptive avg 3d": lambda: pool("adaptive_avg_pool3d", VOLUME, output_size=(2, 2, 3)),
    "adaptive max 2d uneven": lambda: pool("adaptive_max_pool2d", IMAGE, output_size=(2, 3)),
    "adaptive avg 1d of many steps": lambda: pool(
        "adaptive_avg_pool1d", (2, 3, 5000), output_size=(2,)
    ),
    "adaptive max 1d in fp16": lambda: pool(
        "adaptive_max_pool1d", SIGNAL, dtype="float16", output_size=(2,)
    ),
}


@pytest.mark.parametrize("build", LONG.values(), ids=LONG)
def test_a_long_window_as_a_row_is_right_at_every_edge(build):
    program = build()
    candidates = rows_of(program)
    assert candidates[0].plan[0].loop == "window_rows"
    assert faults(program, candidates[:1]) == []


def test_a_long_window_is_a_row_first_and_a_short_one_is_not():
    long = pool("adaptive_max_pool2d", (20, 30, 50, 47), output_size=(2, 2))
    short = pool("max_pool2d", IMAGE, **window(2, 3, 2))
    assert pooling.ways(long, "strict")[0].kind[:2] == ("BLOCK", "STEP")
    assert not any("STEP" in way.kind for way in pooling.ways(short, "strict"))
    many = pool("adaptive_max_pool2d", (2000, 64, 20, 20), output_size=(2, 2))
    assert "STEP" not in pooling.ways(many, "strict")[0].kind, "every thread has an output"


def test_windows_beyond_one_thread_are_rows_alone():
    program = pool("adaptive_avg_pool1d", (2, 3, 36000), output_size=(2,))
    assert {way.kind for way in pooling.ways(program, "strict")} == {("BLOCK", "STEP", "num_warps")}
    assert pooling.ways(program, "strict")[0].write().plan[0].tiles["BLOCK"] == 1, "few outputs"
    last = pool("adaptive_avg_pool2d", (2, 3, 200, 200), Layout.CHANNELS_LAST, output_size=(2, 2))
    assert not pooling.classify(last)


@pytest.mark.parametrize("op", ["avg_pool2d", "max_pool2d"])
def test_what_surrounds_a_row_is_fused(op):
    b = Builder()
    x, plane = b.input(TensorType(IMAGE)), b.input(TensorType((13, 11)))
    bias = b.input(TensorType((1, 5, 1, 1)))
    [t] = b.call("exp", input=b.call("add", input=x, other=plane)[0])
    [p] = b.call(op, input=t, **window(2, 5, 3, 2))
    [u] = b.call("add", input=p, other=bias)
    program = b.program([b.call("tanh", input=u)[0], u])
    assert faults(program, rows_of(program)[:1]) == []


def test_a_row_passes_nan_on():
    b = Builder()
    [t] = b.call("log", input=b.input(TensorType(IMAGE)))  # NaN for negative elements
    program = b.program(b.call("adaptive_max_pool2d", input=t, output_size=(2, 2)))
    assert faults(program, rows_of(program)[:1]) == []


def test_rows_fit_hopper_without_spills():
    program = pool("adaptive_avg_pool2d", (64, 64, 56, 56), output_size=(3, 3))
    [usage] = compile_check(
        rows_of(program)[0].source, [torch.empty(64, 64, 56, 56, device="meta")]
    ).kernels.values()
    assert usage.spills == 0


def test_the_favourites_fit_hopper_without_spills():
    program = fused("avg_pool2d")
    inputs = [torch.empty(value.type.shape, device="meta") for value in program.inputs]
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    [usage] = compile_check(candidate.source, inputs).kernels.values()
    assert usage.spills == 0
    assert usage.registers <= 128


def test_a_long_window_is_a_loop_that_compiles_at_once():
    program = pool("adaptive_avg_pool1d", (128, 1024), output_size=(2,))
    walked = next(way for way in pooling.ways(program, "strict") if "STEP" not in way.kind)
    source = walked.write().source
    assert "for dw in range(KW):" in source  # unrolled, compiling takes minutes
    compile_check(source, [torch.empty(128, 1024, device="meta")])


def test_sizes_before_a_dimension_that_a_view_adds_are_read_from_the_input():
    def rows(count: int) -> Program:
        b = Builder()
        [t] = b.call("unsqueeze", input=b.input(TensorType((count, 12))), dim=1)
        [t] = b.call("max_pool1d", input=t, **window(1, 3, 3))
        return b.program(b.call("squeeze", input=t, dim=1))

    candidates = write(rows(6), limit=1, seed=0, precision="strict")
    assert faults(rows(9), candidates) == []


def test_attributes_stand_in_the_text_as_the_call_has_them():
    [mean] = write(pool("avg_pool2d", IMAGE, kernel_size=(3, 2), padding=(1, 1)), limit=1)
    assert "OH = (H + 2 * 1 - 3) // 3 + 1\n    OW = (W + 2 * 1 - 2) // 2 + 1\n" in mean.source
    assert "pooled = pooled / (3 * 2)\n" in mean.source
    dilated = {"kernel_size": (3, 3), "dilation": (2, 2), "stride": (2, 2)}
    [most] = write(pool("max_pool2d", IMAGE, ceil_mode=True, **dilated), limit=1)
    size = "OH = min(H + 2 * 0 - 2 * (3 - 1) - 1 + 2 - 1, H + 0 - 1) // 2 + 1\n"
    assert size in most.source
