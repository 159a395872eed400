"""The convolution family: every form, window, layout and neighbour, against fp64."""

import re
from collections.abc import Callable, Sequence
from itertools import cycle, islice

import pytest
import torch
from judging import compiled, faults

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs import reference
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.programs.tensors import memory_format, torch_dtype
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.teacher.contraction.forms import split_k, tiled
from kernelwright.teacher.contraction.parts import ROUNDED, ProductSchedule
from kernelwright.teacher.window import convolution
from kernelwright.teacher.window.conv import Convolution
from kernelwright.teacher.window.direct import Direct
from kernelwright.teacher.window.find import find
from kernelwright.teacher.window.gemm import ImplicitGemm
from kernelwright.teacher.window.relaid import relaid
from kernelwright.teacher.writer import write
from kernelwright.verify.static import findings

LAST = Layout.CHANNELS_LAST
IMAGE = (2, 5, 4, 5)


def convolve(
    b: Builder, x: Ref, weight: tuple[int, ...], *, bias: bool = True, **window: object
) -> Ref:
    """A convolution of `x`, in its layout, and a new weight; its rank says of how many
    dimensions, and `output_padding` that it is transposed."""
    made = b.types[x.name]
    layout = made.layout if len(weight) > 3 else Layout.CONTIGUOUS
    kind = "conv_transpose" if "output_padding" in window else "conv"
    w = b.input(TensorType(weight, made.dtype, layout))
    if bias:
        groups = int(str(window.get("groups", 1)))
        channels = weight[1] * groups if kind == "conv_transpose" else weight[0]
        window["bias"] = b.input(TensorType((channels,), made.dtype))
    return b.call(f"{kind}{len(weight) - 2}d", input=x, weight=w, **window)[0]


def conv(
    image: tuple[int, ...],
    weight: tuple[int, ...],
    dtype: str = "float32",
    layout: Layout = Layout.CONTIGUOUS,
    **window: object,
) -> Program:
    """A convolution followed by a ReLU."""
    b = Builder()
    t = convolve(b, b.input(TensorType(image, dtype, layout)), weight, **window)
    return b.program(b.call("relu", input=t))


PLAIN: dict[str, Callable[[], Program]] = {
    "2d padded": lambda: conv(IMAGE, (7, 5, 3, 3), padding=(1, 1)),
    "2d channels-last strided": lambda: conv(
        IMAGE, (7, 5, 3, 3), layout=LAST, padding=(1, 0), stride=(2, 1)
    ),
    "2d of one image, dilated": lambda: conv(IMAGE[1:], (7, 5, 2, 2), dilation=(2, 3)),
    "2d same": lambda: conv(IMAGE, (7, 5, 4, 3), padding="same", dilation=(1, 2)),
    "2d pointwise": lambda: conv(IMAGE, (7, 5, 1, 1), bias=False),
    "2d pointwise with a border": lambda: conv(IMAGE, (7, 5, 1, 1), stride=(2, 2), padding=(1, 0)),
    "2d of one row": lambda: conv(IMAGE, (7, 5, 1, 3), padding=(1, 1)),
    "2d grouped": lambda: conv((2, 6, 5, 4), (4, 3, 3, 3), padding=(1, 1), groups=2),
    "2d in fp16": lambda: conv(IMAGE, (7, 5, 3, 3), "float16", padding=(1, 1)),
    "1d": lambda: conv((2, 5, 19), (7, 5, 3), padding=(1,), dilation=(2,)),
    "3d": lambda: conv((1, 3, 3, 4, 3), (4, 3, 3, 2, 2), padding=(1, 0, 1), stride=(1, 2, 1)),
    "3d channels-last in bf16": lambda: conv(
        (1, 3, 3, 3, 4), (4, 3, 2, 2, 2), "bfloat16", LAST, padding=(1, 1, 0)
    ),
    "depthwise": lambda: conv((2, 6, 5, 4), (6, 1, 3, 3), padding=(1, 1), groups=6),
    "depthwise channels-last in fp16": lambda: conv(
        (2, 6, 5, 4), (6, 1, 3, 3), "float16", LAST, padding=(1, 1), groups=6
    ),
    "depthwise making two": lambda: conv((2, 3, 5, 4), (6, 1, 3, 2), groups=3, stride=(2, 1)),
    "depthwise in three dimensions": lambda: conv(
        (1, 3, 3, 4, 3), (3, 1, 2, 2, 2), padding=(1, 0, 1), groups=3
    ),
    "depthwise of large windows": lambda: conv(
        (1, 2, 5, 6), (2, 1, 7, 5), padding=(3, 2), groups=2
    ),
}
TRANSPOSED: dict[str, Callable[[], Program]] = {
    "2d": lambda: conv(IMAGE, (5, 7, 3, 3), padding=(1, 1), output_padding=(0, 0)),
    "2d in phases": lambda: conv(
        (2, 5, 4, 3), (5, 7, 3, 4), padding=(1, 1), stride=(2, 3), output_padding=(1, 0)
    ),
    "2d channels-last, one direction in phases": lambda: conv(
        (2, 5, 4, 3), (5, 7, 3, 2), layout=LAST, stride=(2, 1), output_padding=(0, 0)
    ),
    "2d dilated in phases": lambda: conv(
        (2, 3, 4, 3), (3, 4, 3, 2), stride=(2, 4), dilation=(3, 6), output_padding=(0, 1)
    ),
    "2d pointwise in phases": lambda: conv(
        (2, 5, 4, 3), (5, 7, 1, 1), stride=(2, 2), output_padding=(1, 1)
    ),
    "2d of one image in phases": lambda: conv(
        (5, 4, 3), (5, 7, 3, 3), stride=(2, 2), output_padding=(0, 0)
    ),
    "2d grouped in phases": lambda: conv(
        (2, 6, 4, 3), (6, 2, 3, 3), stride=(2, 2), output_padding=(0, 0), groups=2
    ),
    "2d depthwise in phases": lambda: conv(
        (2, 6, 4, 3), (6, 1, 3, 3), stride=(2, 2), output_padding=(0, 0), groups=6
    ),
    "2d depthwise making two": lambda: conv(
        (2, 3, 4, 3), (3, 2, 3, 3), padding=(1, 1), output_padding=(0, 0), groups=3
    ),
    "1d in bf16": lambda: conv(
        (2, 5, 7), (5, 7, 3), "bfloat16", stride=(3,), padding=(2,), output_padding=(0,)
    ),
    "3d in phases": lambda: conv(
        (2, 3, 3, 2, 3), (3, 4, 3, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1),
        output_padding=(0, 1, 0),
    ),
}  # fmt: skip


def products(program: Program) -> list[Convolution]:
    """Every form the family has for the program."""
    return list(convolution._products(program))


def written(product: Convolution, order: str = "", slices: int = 1) -> Candidate:
    """A candidate with small tiles, so that there are several."""
    schedule = ProductSchedule(
        block_m=16, block_n=32, block_k=16, num_warps=4, order=order, split_k=slices, why="small"
    )
    return (split_k if slices > 1 else tiled)(product, schedule)


def some(program: Program) -> list[Candidate]:
    """One candidate an axis of pixels, the loop's orders in turn; direct sums where there is no
    other form."""
    found = products(program)
    if any(isinstance(product, ImplicitGemm) for product in found):
        found = [product for product in found if isinstance(product, ImplicitGemm)]
    orders = cycle(convolution._orders(found[0]))
    return [written(product, next(orders)) for product in found]


def in_turn(cases: dict[str, Callable[[], Program]]) -> list[object]:
    """Every case with a number, so that axes and orders take turns."""
    return [pytest.param(build, turn, id=name) for turn, (name, build) in enumerate(cases.items())]


def one(program: Program, turn: int) -> Candidate:
    found = [p for p in products(program) if isinstance(p, ImplicitGemm)] or products(program)
    orders = convolution._orders(found[0])
    return written(found[turn % len(found)], orders[turn // 2 % len(orders)])


@pytest.mark.parametrize(("build", "turn"), in_turn(PLAIN))
def test_a_convolution_is_right_at_every_edge(build, turn):
    program = build()
    require_layout(program)
    assert faults(program, [one(program, turn)]) == []


def require_layout(program: Program) -> None:
    """Skip where PyTorch's library has no such convolution on this CPU: the result of another
    kernel is laid out in another way."""
    [name] = program.outputs
    made = program.type_of(name)
    [result] = reference.run(program, reference.make_inputs(program, 0))
    if not result.is_contiguous(memory_format=memory_format(made.layout.value, made.rank)):
        pytest.skip("PyTorch returns another layout on this CPU")


@pytest.mark.slow
@pytest.mark.parametrize(("build", "turn"), in_turn(TRANSPOSED))
def test_a_transposed_convolution_gathers_what_it_should(build, turn):
    program = build()
    require_layout(program)
    assert faults(program, [one(program, turn)]) == []


@pytest.mark.parametrize("layout", Layout, ids=str)
def test_every_order_and_slices_of_k_give_the_same(layout):
    program = conv(IMAGE, (7, 5, 3, 3), layout=layout, padding=(1, 1))
    orders = ("taps", "channels", "flat")
    candidates = [
        written(find(program, ImplicitGemm, pixels), order, slices)
        for pixels, order, slices in zip(
            islice(cycle("nm"), 6), orders * 2, (1, 2, 2, 2, 1, 1), strict=True
        )
    ]
    assert len({c.plan[0].loop for c in candidates}) == 6
    assert faults(program, candidates) == []


COPIED: dict[str, Callable[[], Program]] = {
    "2d": lambda: conv(IMAGE, (7, 5, 3, 3), padding=(1, 1)),
    "3d": lambda: conv((1, 3, 3, 4, 3), (4, 3, 3, 2, 2), padding=(1, 0, 1), stride=(1, 2, 1)),
    "grouped": lambda: conv((2, 6, 5, 4), (4, 3, 3, 3), padding=(1, 1), groups=2),
    "transposed": lambda: conv(
        (2, 5, 4, 3), (5, 7, 3, 4), padding=(1, 1), stride=(2, 3), output_padding=(1, 0)
    ),
}


@pytest.mark.parametrize("build", COPIED.values(), ids=COPIED)
def test_copies_in_channels_last_give_the_contiguous_result(build):
    program = build()
    turned = relaid(program)
    orders = cycle(convolution._orders(find(turned, ImplicitGemm, "m")))
    candidates = [
        written(find(turned, ImplicitGemm, pixels), order)
        for pixels, order in zip("nm", orders, strict=False)
    ]
    for candidate in candidates:
        assert candidate.source.count("contiguous(memory_format=torch.channels_last") == 2
        assert "dtype=torch.float32, memory_format" not in candidate.source
        assert candidate.plan[0].fuses == tuple(call.op for call in program.calls)
        assert f"return [{program.outputs[0]}]" in candidate.source
    assert faults(program, candidates) == []


def after_a_relu() -> Program:
    b = Builder()
    [t] = b.call("relu", input=b.input(TensorType(IMAGE)))
    return b.program([convolve(b, t, (7, 5, 3, 3))])


@pytest.mark.parametrize(
    "program",
    [
        conv(IMAGE, (7, 5, 3, 3), layout=LAST),
        conv(IMAGE, (7, 5, 1, 1)),
        conv((2, 5, 19), (7, 5, 3)),
        conv((2, 6, 5, 4), (6, 1, 3, 3), groups=6),
        after_a_relu(),
    ],
    ids=["channels-last", "one tap", "1d", "depthwise", "no input"],
)
def test_nothing_is_copied_that_lies_well_or_is_made_on_the_way(program):
    assert relaid(program) is None


def test_large_images_are_copied_first_and_small_ones_are_not():
    large = convolution.ways(conv((32, 64, 56, 56), (64, 64, 3, 3)), "strict")
    small = convolution.ways(conv((1, 8, 6, 6), (8, 8, 3, 3)), "strict")
    assert large[0].write().source.count("contiguous(memory_format=torch.channels_last)") == 2
    assert "channels_last" not in small[0].write().source


def test_where_libraries_do_not_round_the_favourites_do_not_either():
    few, many = (
        [way.write().plan[0].precision for way in convolution.ways(program, "strict")[:6]]
        for program in (conv((32, channels, 56, 56), (64, channels, 3, 3)) for channels in (8, 64))
    )
    assert set(few) <= {"tf32x3", "ieee"}
    assert ROUNDED in many


@pytest.mark.slow
def test_favourites_of_three_products_spill_no_registers():
    program = conv((128, 8, 64, 64), (64, 8, 3, 3))
    best = convolution.ways(program, "strict")[:2]
    for usage in (one for way in best for one in compiled(program, way.write())):
        assert usage.spills == 0


@pytest.mark.parametrize("channels", [8, 32])
def test_sides_and_channels_are_constants_and_the_number_of_pixels_is_an_argument(channels):
    program = conv((128, channels, 64, 64), (64, channels, 3, 3))
    source = convolution.ways(program, "strict")[0].write().source
    signature = source.partition("_kernel(\n")[2].partition("):")[0]
    constants = set(re.findall(r"(\w+): tl.constexpr", signature))
    assert constants >= {"C", "H", "W", "OH", "OW", "KH", "KW"}
    assert constants.isdisjoint("BMN")


@pytest.mark.parametrize(
    ("dilation", "kernel", "is_empty"), [(2, 3, True), (1, 1, True), (1, 3, False)]
)
def test_where_a_phase_may_have_no_tap_nothing_is_divided_by_its_number_of_taps(
    dilation, kernel, is_empty
):
    program = conv(
        (48, 64, 4, 9),
        (64, 16, kernel, kernel),
        stride=(2, 2),
        dilation=(dilation, dilation),
        output_padding=(0, 0),
    )
    sources = [way.write().source for way in convolution.ways(program, "strict")[:8]]
    divisions = re.findall(r"[%/] (\S*num_(?:spots|w)\b)", "\n".join(sources))
    assert divisions
    assert all(text.startswith("tl.maximum(") for text in divisions) == is_empty


@pytest.mark.slow
def test_of_few_channels_both_forms_come_early_and_hardly_spill_registers():
    program = conv((128, 8, 64, 64), (64, 8, 3, 3))
    early = convolution.ways(program, "strict")[:6]
    assert [isinstance(way.write.args[0], Direct) for way in early] == [False] * 3 + [True] * 3
    sources = [way.write().source for way in early[3:]]
    assert all("held_m = offs_m % M" in source for source in sources)
    usages = [one for way in early[3:] for one in compiled(program, way.write())]
    assert all(usage.spills <= 32 for usage in usages)
    loops = [one.plan[0].loop for one in write(program, limit=12, seed=0, precision="strict")]
    assert loops.count("direct") >= 3


@pytest.mark.parametrize(
    "build",
    [
        lambda: conv((8, 64, 64, 64), (64, 1, 3, 3), groups=64),
        lambda: conv((8, 64, 64, 64), (64, 4, 3, 3), groups=16),
        lambda: conv((8, 8, 64, 64), (2, 8, 3, 3)),
    ],
    ids=["depthwise", "groups", "few made"],
)
def test_what_shares_no_image_is_summed_along_pixels(build):
    first, *_ = convolution.ways(build(), "strict")
    schedule = first.write.args[1]
    assert (schedule.block_m, schedule.block_n) == (1, 512)
    assert "held_m" not in first.write().source


# What surrounds a convolution


def fused(layout: Layout = Layout.CONTIGUOUS, dtype: str = "float32") -> Program:
    """Operands a channel, a pixel, an element and a number, before and after; two outputs."""
    b = Builder()
    x = b.input(TensorType(IMAGE, dtype, layout))
    scale, plane = b.input(TensorType((5, 1, 1), dtype)), b.input(TensorType((4, 5), dtype))
    [t] = b.call("mul", input=x, other=scale)
    [t] = b.call("add", input=t, other=plane)
    [t] = b.call("add", input=b.call("relu", input=t)[0], other=1.0)
    t = convolve(b, t, (7, 5, 3, 3), bias=False, padding=(1, 1), stride=(2, 1))
    bias, full = b.input(TensorType((1, 7, 1, 1), dtype)), b.input(TensorType((2, 7, 2, 5), dtype))
    [u] = b.call("add", input=t, other=bias)
    [v] = b.call("div", input=b.call("tanh", input=u)[0], other=3.0)
    return b.program([*b.call("sub", input=v, other=full), u])


def fused_transposed() -> Program:
    b = Builder()
    t = b.call("hardtanh", input=b.input(TensorType((2, 5, 4, 3))))[0]
    t = convolve(b, t, (5, 7, 3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 0))
    [t] = b.call("mul", input=t, other=b.input(TensorType((8, 5))))
    return b.program(b.call("add", input=t, other=b.input(TensorType((7, 1, 1)))))


def fused_depthwise() -> Program:
    b = Builder()
    x = b.input(TensorType((2, 6, 5, 4)))
    [t] = b.call("add", input=b.call("relu", input=x)[0], other=0.5)
    t = convolve(b, t, (6, 1, 3, 3), padding=(1, 1), groups=6)
    return b.program(b.call("add", input=b.call("hardswish", input=t)[0], other=x))


def normalized_on_both_sides() -> Program:
    b = Builder()
    x = b.input(TensorType(IMAGE))

    def normal(value: Ref, channels: int) -> Ref:
        given = [b.input(TensorType((channels,))) for _ in range(3)]
        variance = b.call("add", input=b.call("square", input=given[0])[0], other=0.5)[0]
        return b.call(
            "batch_norm", input=value, running_mean=given[1], running_var=variance, weight=given[2]
        )[0]

    return b.program([normal(convolve(b, normal(x, 5), (7, 5, 3, 3), padding=(1, 1)), 7)])


def signal_as_image() -> Program:
    """Views on both sides."""
    b = Builder()
    x = b.input(TensorType((2, 5, 12)))
    t = convolve(b, b.call("unsqueeze", input=x, dim=2)[0], (7, 5, 1, 3), padding=(0, 1))
    [t] = b.call("flatten", input=b.call("squeeze", input=t, dim=2)[0], start_dim=1)
    return b.program(b.call("relu", input=t))


SURROUNDED: dict[str, Callable[[], Program]] = {
    "contiguous": fused,
    "channels-last": lambda: fused(LAST),
    "bf16": lambda: fused(dtype="bfloat16"),
    "transposed": fused_transposed,
    "depthwise": fused_depthwise,
    "normalized": normalized_on_both_sides,
    "views": signal_as_image,
}


def windows_as_channels(groups: int) -> Program:
    """Pixels of windows, which lie apart, are the channels of a product of 1 x 1."""
    b = Builder()
    [t] = b.call("reshape", input=b.input(TensorType((2, 6, 8, 3))), shape=(2, 3, 2, 4, 2, 3))
    [t] = b.call("permute", input=t, dims=(0, 1, 3, 2, 4, 5))
    [t] = b.call("reshape", input=t, shape=(24, 4, 3))
    return b.program([convolve(b, t, (8, 4 // groups, 1), groups=groups)])


@pytest.mark.parametrize("groups", [1, 2])
def test_channels_that_views_made_of_several_dimensions_are_taken_apart_at_each_step(groups):
    program = windows_as_channels(groups)
    candidates = [
        written(product, order) for product in products(program) for order in ("taps", "flat")
    ]
    assert faults(program, candidates) == []


@pytest.mark.slow
@pytest.mark.parametrize("build", SURROUNDED.values(), ids=SURROUNDED)
def test_what_surrounds_a_convolution_is_fused_and_padding_stays_zero(build):
    program = build()
    candidates = some(program)
    assert all(len(candidate.plan) == 1 for candidate in candidates)
    assert faults(program, candidates) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda: conv((2, 3, 4, 5), (4, 3, 3, 3), padding=(1, 1)),
        lambda: conv((2, 4, 4, 5), (6, 2, 3, 3), layout=LAST, padding=(1, 1), groups=2),
        lambda: conv((2, 4, 3, 3), (4, 3, 3, 3), output_padding=(0, 0), stride=(2, 2), groups=2),
        lambda: conv((2, 3, 5, 5), (19, 3, 3, 2), stride=(2, 1)),
        lambda: conv((1, 2, 3, 4, 3), (17, 2, 2, 2, 3), padding=(1, 0, 1)),
        lambda: conv((2, 3, 3, 3), (3, 18, 3, 3), output_padding=(0, 0), stride=(2, 2)),
    ],
    ids=[
        "one group", "two groups", "two groups transposed", "more than a tile makes",
        "more than a tile makes in 3d", "more than a tile makes transposed",
    ],
)  # fmt: skip
def test_groups_of_few_channels_can_be_summed_directly(build):
    program = build()
    candidates = [written(find(program, Direct, pixels)) for pixels in "nm"]
    assert faults(program, candidates) == []


@pytest.mark.parametrize("before", ["relu", "neg"])
@pytest.mark.parametrize("taps", [(1, 1), (3, 3)])
def test_weights_that_are_made_on_the_way_are_summed_in_dense_tiles_too(before, taps):
    b = Builder()
    image, weights = b.input(TensorType((2, 3, 5, 5))), b.input(TensorType((19, 3, *taps)))
    (made,) = b.call(before, input=weights)
    program = b.program(b.call("conv2d", input=image, weight=made))
    direct = written(find(program, Direct, "n"))
    assert "held_m" in direct.source
    assert faults(program, [direct]) == []


def test_slices_of_k_take_the_epilogue_along():
    program = fused_transposed()
    sliced = [written(find(program, ImplicitGemm, pixels), "taps", 2) for pixels in "nm"]
    assert [len(candidate.plan) for candidate in sliced] == [2, 2]
    assert faults(program, sliced) == []


# Candidates as a family


VARIED: dict[str, Callable[[], Program]] = {
    "2d": lambda: conv((3, 16, 12, 12), (24, 16, 3, 3), padding=(1, 1)),
    "2d channels-last": lambda: conv((3, 16, 12, 12), (24, 16, 3, 3), layout=LAST, stride=(2, 2)),
    "grouped": lambda: conv((3, 32, 8, 8), (24, 16, 3, 3), padding=(1, 1), groups=2),
    "depthwise": lambda: conv((3, 16, 12, 12), (16, 1, 3, 3), padding=(1, 1), groups=16),
    "transposed": lambda: conv((3, 16, 6, 6), (16, 24, 3, 3), stride=(2, 2), output_padding=(1, 1)),
}


@pytest.mark.parametrize("build", VARIED.values(), ids=VARIED)
def test_candidates_hold_at_odd_sizes_they_were_not_written_for(build):
    program = build()
    [variant] = shape_variants(program, 1, seed=2, max_elements=1 << 11)
    candidates = write(program, limit=1, seed=0, precision="strict")
    assert faults(variant, candidates) == []


def test_the_first_candidate_is_right_whatever_the_reference_rounds_to():
    program = conv((4, 64, 28, 28), (64, 64, 3, 3), padding=(1, 1))
    strict = write(program, limit=8, seed=0, precision="strict")
    loose = write(program, limit=8, seed=0, precision="tf32")
    assert strict[0].plan[0].precision in ("tf32x3", "ieee")
    assert loose[0].plan[0].precision == "tf32"
    assert {c.plan[0].precision for c in strict} >= {"tf32x3", ROUNDED}


def test_transposed_groups_are_summed_in_fp32_as_the_library_does():
    def modes(groups: int) -> set[str]:
        window = {"groups": groups, "output_padding": (0, 0)}
        program = conv((4, 64, 28, 28), (64, 64 // groups, 3, 3), **window)
        ways_of_it = write(program, limit=64, seed=0, precision="strict", draw="uniform")
        return {candidate.plan[0].precision for candidate in ways_of_it}

    assert ROUNDED in modes(1)
    assert modes(4) <= {"tf32x3", "ieee"}


def test_every_precision_keeps_within_what_its_policy_allows():
    program = conv(IMAGE, (7, 5, 3, 3), padding=(1, 1))
    product = find(program, ImplicitGemm, "n")

    def at(precision: str) -> Candidate:
        return tiled(
            product,
            ProductSchedule(
                block_m=16, block_n=64, block_k=16, num_warps=4, order="flat", precision=precision
            ),
        )

    assert faults(program, [at("tf32x3")]) == []
    assert len(faults(program, [at("tf32")])) == 1
    assert faults(program, [at("tf32"), at(ROUNDED), at("bf16x3")], precision="tf32") == []


def test_candidates_are_distinct_legal_and_repeat_with_the_seed():
    program = fused(LAST)
    one, same = (write(program, limit=8, seed=3, precision="strict") for _ in range(2))
    assert one == same
    assert len({c.source for c in one}) == 8
    for candidate in one:
        assert all(f.is_hint for f in findings(candidate.source, "pure", "fused_operator"))
        assert all(plan.why for plan in candidate.plan)


def test_images_are_tiled_along_their_memory():
    for layout, axis in ((Layout.CONTIGUOUS, "n"), (LAST, "m")):
        program = conv((4, 64, 28, 28), (64, 64, 3, 3), layout=layout)
        items = convolution._items(products(program), ("tf32x3",))
        assert min(items, key=convolution._estimate_s).product.pixels == axis


def test_depthwise_is_summed_directly_and_small_outputs_in_slices():
    def loops(program: Program) -> set[str]:
        candidates = write(program, limit=8, seed=0, precision="strict")
        return {c.plan[0].loop for c in candidates}

    assert loops(conv((8, 64, 28, 28), (64, 1, 3, 3), groups=64)) == {"direct"}
    assert any("split_k" in loop for loop in loops(conv((2, 512, 7, 7), (512, 512, 3, 3))))


def test_tensors_of_2_to_the_31_elements_use_64_bit_offsets():
    program = conv((1 << 12, 16, 256, 256), (16, 16, 3, 3), padding=(1, 1))
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    assert candidate.source.count(".to(tl.int64)") >= 3
    assert "ValueError" not in candidate.source


# What has no form


def two() -> Program:
    b = Builder()
    t = convolve(b, b.input(TensorType(IMAGE)), (5, 5, 3, 3), padding=(1, 1))
    return b.program([convolve(b, t, (5, 5, 3, 3))])


def after_a_dear_function() -> Program:
    b = Builder()
    t = b.call("gelu", input=b.input(TensorType(IMAGE)))[0]
    return b.program([convolve(b, t, (5, 5, 3, 3))])


def before_a_softmax() -> Program:
    b = Builder()
    t = convolve(b, b.input(TensorType(IMAGE)), (5, 5, 3, 3))
    return b.program(b.call("softmax", input=t, dim=1))


def in_double() -> Program:
    return conv(IMAGE, (5, 5, 3, 3), "float64")


@pytest.mark.parametrize(
    "build", [two, after_a_dear_function, before_a_softmax, in_double], ids=lambda f: f.__name__
)
def test_what_has_no_form_is_not_claimed(build):
    assert not convolution.classify(build())


# On the GPU it is written for


LARGE: dict[str, tuple[Callable[[], Program], str]] = {
    "channels-last in tf32": (
        lambda: conv((32, 64, 56, 56), (128, 64, 3, 3), layout=LAST, padding=(1, 1)), "tf32"
    ),
    "depthwise": (lambda: conv((32, 96, 56, 56), (96, 1, 3, 3), padding=(1, 1), groups=96), "tf32"),
}  # fmt: skip


@pytest.mark.parametrize(("build", "precision"), LARGE.values(), ids=LARGE)
def test_the_favourites_fit_hopper_without_spills(build, precision):
    program = build()
    [candidate] = write(program, limit=1, seed=0, precision=precision)
    usage = compile_check(candidate.source, described(program)).kernels
    assert set(usage) == {plan.kernel for plan in candidate.plan}
    assert all(kernel.spills == 0 for kernel in usage.values())


def described(program: Program) -> Sequence[torch.Tensor]:
    """The inputs without memory."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return [
        torch.empty(
            value.type.shape,
            device="meta",
            dtype=torch_dtype(value.type.dtype),
            memory_format=formats[value.type.rank]
            if value.type.layout is LAST
            else torch.contiguous_format,
        )
        for value in program.inputs
    ]


def test_a_direct_sum_is_not_offered_for_many_channels():
    assert {type(p) for p in products(conv((2, 32, 8, 8), (8, 32, 3, 3)))} == {ImplicitGemm}
    assert {type(p) for p in products(conv((2, 3, 8, 8), (8, 3, 3, 3)))} == {ImplicitGemm, Direct}
