"""Reductions, the softmax family, normalizations and losses: every form, every layout."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from judging import LIMITS, compiled, faults, faults_here_and_at_other_sizes, strays

from kernelwright.ops.operator import Layout, ParameterKind, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs import reference
from kernelwright.programs.build import Builder, default_init
from kernelwright.programs.program import Init, Program, Ref
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.teacher.writer import write

LAST = Layout.CHANNELS_LAST
SHIFTED = Init("randn", 2.0, 1.0)
"""Sums of these do not cancel, so their relative error is that of the arithmetic."""
Given = TensorType | tuple[TensorType, Init]


def candidates(program: Program, limit: int = 50):
    return write(program, limit=limit, seed=0, precision="strict")


def built(make: Callable[..., tuple[Ref, ...]], *given: Given) -> Program:
    builder = Builder()
    refs = [
        builder.input(*one) if isinstance(one, tuple) else builder.input(one, SHIFTED)
        for one in given
    ]
    return builder.program(make(builder, *refs))


def of(op: str, **attributes: Any) -> Callable[..., tuple[Ref, ...]]:
    """The operator between an addition before it and, where its result is a float, one after."""
    names = [p.name for p in operators()[op].params if p.kind is not ParameterKind.ATTRIBUTE]

    def make(builder: Builder, *given: Ref) -> tuple[Ref, ...]:
        values = dict(zip(names, given, strict=False))
        first = builder.types[given[0].name]
        if first.dtype == "float32":
            (values[names[0]],) = builder.call("mul", input=given[0], other=0.5)
        results = builder.call(op, **values, **attributes)
        if builder.types[results[0].name].dtype != "float32":
            return results
        return (*builder.call("add", input=results[0], other=1.0), *results[1:])

    return make


IMAGE = TensorType((3, 8, 5, 9))
ROWS = TensorType((5, 37))
PLAIN = {
    **{op: of(op, dim=-1) for op in ("sum", "mean", "prod", "amax", "amin", "max", "min")},
    **{op: of(op, dim=-1) for op in ("argmax", "argmin", "any", "all", "logsumexp", "std")},
    **{f"norm_{p}": of("norm", ord=p, dim=-1) for p in (0, 1, 2, 3, float("inf"))},
    "var": of("var", dim=1, correction=0, keepdim=True),
    "softmax": of("softmax", dim=-1),
    "log_softmax": of("log_softmax", dim=-1),
    "layer_norm": of("layer_norm", normalized_shape=(37,)),
    "rms_norm": of("rms_norm", normalized_shape=(37,)),
    "max_all": of("max_all"),
    "flat_argmax": of("argmax"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_reductions_of_rows_are_right_in_every_form(name):
    program = built(PLAIN[name], ROWS)
    assert {c.plan[0].loop for c in candidates(program)} == {"one_pass", "looped"}
    assert faults(program, candidates(program)) == []


PLACES = {
    "columns": (of("sum", dim=(0,)), ROWS),
    "middle": (of("softmax", dim=1), TensorType((3, 11, 20))),
    "outer and inner": (of("mean", dim=(0, 2)), TensorType((3, 11, 20))),
    "space": (of("var", dim=(2, 3)), IMAGE),
    "channels": (of("amax", dim=(1,), keepdim=True), IMAGE),
    "channels, stored last": (of("softmax", dim=1), TensorType((3, 8, 5, 9), layout=LAST)),
    "space, channels last": (of("sum", dim=(2, 3)), TensorType((3, 8, 5, 9), layout=LAST)),
    "halves": (of("layer_norm", normalized_shape=(37,)), TensorType((5, 37), "bfloat16")),
    "integers": (of("sum", dim=-1), (TensorType((5, 37), "int32"), Init("randint", -9, 9))),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_reduced_dimensions_may_lie_anywhere(place):
    make, given = PLACES[place]
    program = built(make, given)
    assert candidates(program)
    assert faults(program, candidates(program)) == []


CHANNEL = TensorType((8,))
VARIANCE = (CHANNEL, Init("rand", 0.5, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("op", ["group_norm", "instance_norm", "batch_norm", "batch_norm_train"])
def test_norms_over_images_are_right_in_every_form(op, layout):
    def make(builder: Builder, x: Ref, weight: Ref, bias: Ref, mean: Ref, var: Ref):
        values: dict[str, Any] = {"input": x, "weight": weight, "bias": bias}
        if op == "group_norm":
            values["num_groups"] = 4
        elif op == "batch_norm":
            values["training"] = True
        elif op == "batch_norm_train":
            values |= {"running_mean": mean, "running_var": var}
            values |= {"training": True, "momentum": 0.1, "eps": 1e-5}
        results = builder.call(op, **values)
        (y,) = builder.call("silu", input=results[0])
        return (y, *results[1:])

    image = TensorType((3, 8, 5, 9), layout=layout)
    program = built(make, image, CHANNEL, CHANNEL, CHANNEL, VARIANCE)
    assert faults(program, candidates(program)) == []


def test_batch_statistics_of_large_means_are_as_exact_in_every_form():
    def make(builder: Builder, x: Ref, weight: Ref, bias: Ref, mean: Ref, var: Ref):
        return builder.call(
            "batch_norm_train", input=x, weight=weight, bias=bias, running_mean=mean,
            running_var=var, training=True, momentum=0.1, eps=1e-5,
        )  # fmt: skip

    program = built(make, TensorType((10, 8, 28, 28)), CHANNEL, CHANNEL, CHANNEL, VARIANCE)
    inputs = reference.make_inputs(program, 1)
    inputs[0] += 100.0
    wanted = reference.run(program, inputs, dtype=torch.float64)[0]
    errors = {}
    with shared("cpu").guest(LIMITS) as guest:
        for candidate in candidates(program):
            guest.load(candidate.source)
            made = guest.run("candidate", GuestCall(inputs, seed=0)).outputs[0].double()
            loop = candidate.plan[0].loop
            errors[loop] = max(errors.get(loop, 0.0), float((made - wanted).square().mean().sqrt()))
    assert errors.keys() >= {"one_pass", "looped"}
    assert max(errors.values()) < 1.5 * min(errors.values()), errors


LONG = {
    "sum": (of("sum"), TensorType((3, 9001))),
    "softmax": (of("softmax", dim=-1), TensorType((2, 17000))),
    "argmax": (of("max", dim=-1), TensorType((2, 17000))),
    "batch statistics": (of("var", dim=(0, 2, 3)), TensorType((4, 3, 41, 107))),
    "columns": (of("prod", dim=0), (TensorType((1500, 20)), Init("rand", 0.9, 1.1))),
    "channels last": (of("var", dim=(0, 2, 3)), TensorType((2, 12, 31, 27), layout=LAST)),
}


@pytest.mark.parametrize("case", LONG)
def test_few_long_rows_are_shared_between_programs(case):
    program = built(*LONG[case])
    found = candidates(program)
    assert found[0].plan[0].loop == "two_pass"
    split = [c for c in found if c.plan[0].loop == "two_pass"]
    assert faults(program, split[:2]) == []


@pytest.mark.parametrize(("dims", "is_written"), [((1, 0, 2), False), ((0, 1, 2), True)])
def test_a_flat_position_is_one_in_the_tensor_not_in_memory(dims, is_written):
    def make(builder: Builder, x: Ref):
        (turned,) = builder.call("permute", input=x, dims=dims)
        return builder.call("argmax", input=turned)

    program = built(make, TensorType((3, 4, 5)))
    assert bool(candidates(program)) == is_written
    assert faults(program, candidates(program)) == []


def test_two_levels_and_outputs_of_all_kinds_come_from_one_fragment():
    """softmax, then the variance of what is left, a position, and a write-back of both levels."""

    def make(builder: Builder, x: Ref, scale: Ref):
        (y,) = builder.call("softmax", input=x, dim=-1)
        (z,) = builder.call("sub", input=x, other=y)
        (v,) = builder.call("var", input=z, dim=-1, keepdim=True)
        (w,) = builder.call("mul", input=z, other=v)
        (u,) = builder.call("mul", input=w, other=scale)
        (i,) = builder.call("argmax", input=x, dim=-1)
        return (u, v, i, y)

    program = built(make, TensorType((3, 16384)), TensorType((16384,)))
    found = candidates(program)
    by_form = {c.plan[0].loop: c for c in found}
    assert set(by_form) == {"one_pass", "looped", "two_pass"}
    assert len(by_form["two_pass"].plan) == 3
    assert faults(program, list(by_form.values())) == []


def test_each_kernel_of_shared_rows_says_what_it_computes():
    def make(b: Builder, x: Ref) -> tuple[Ref, ...]:
        (x,) = b.call("relu", input=x)
        (x,) = b.call("sum", input=x, dim=(1,))
        return b.call("exp", input=x)

    program = built(make, TensorType((2, 1 << 20)))
    plans = next(c.plan for c in candidates(program) if c.plan[0].loop == "two_pass")
    assert {plan.kernel: plan.fuses for plan in plans} == {
        "exp_t2_partial_kernel": ("relu", "sum"),
        "exp_t2_finish_kernel": ("sum", "exp"),
    }


PAIR = TensorType((7, 33))
UNIT = (PAIR, Init("rand", 0.1, 0.9))
SIGN = (PAIR, Init("sign"))
CLASS = (TensorType((7,), "int64"), Init("randint", 0, 33))
EACH_CLASS = (TensorType((33,)), Init("rand", 0.1, 1.0))
LOSSES: dict[str, tuple[str, dict[str, Any], tuple[Given, ...]]] = {
    "mse": ("mse_loss", {}, (PAIR, PAIR)),
    "l1": ("l1_loss", {"reduction": "sum"}, (PAIR, PAIR)),
    "huber": ("huber_loss", {"delta": 0.5}, (PAIR, PAIR)),
    "smooth l1": ("smooth_l1_loss", {}, (PAIR, TensorType((33,)))),
    "kl": ("kl_div", {"reduction": "batchmean"}, (PAIR, UNIT)),
    "kl of logs": ("kl_div", {"log_target": True}, (PAIR, PAIR)),
    "bce": ("binary_cross_entropy", {}, (UNIT, UNIT)),
    "bce of logits": ("binary_cross_entropy_with_logits", {}, (PAIR, UNIT)),
    "bce of logits, weighted": (
        "binary_cross_entropy_with_logits", {}, (PAIR, UNIT, EACH_CLASS, EACH_CLASS),
    ),
    "hinge": ("hinge_embedding_loss", {}, (PAIR, SIGN)),
    "hinge of any targets": ("hinge_embedding_loss", {}, (PAIR, PAIR)),
    "kl of negative targets": ("kl_div", {}, (PAIR, PAIR)),
    "cosine loss of any targets": (
        "cosine_embedding_loss", {}, (PAIR, PAIR, (TensorType((7,)), Init("randn"))),
    ),
    "soft margin": ("soft_margin_loss", {}, (PAIR, SIGN)),
    "ranking": ("margin_ranking_loss", {"margin": 0.5}, (PAIR, PAIR, SIGN)),
    "cross entropy": ("cross_entropy", {}, (PAIR, CLASS)),
    "smoothed": ("cross_entropy", {"label_smoothing": 0.1}, (PAIR, CLASS)),
    "weighted": ("cross_entropy", {}, (PAIR, CLASS, EACH_CLASS)),
    "smoothed and weighted": (
        "cross_entropy", {"label_smoothing": 0.1, "ignore_index": 3},
        (PAIR, (CLASS[0], Init("randint", 0, 5)), EACH_CLASS),
    ),
    "probabilities, smoothed and weighted": (
        "cross_entropy", {"label_smoothing": 0.1}, (PAIR, UNIT, EACH_CLASS),
    ),
    "ignoring": ("cross_entropy", {"ignore_index": 3}, (PAIR, (CLASS[0], Init("randint", 0, 5)))),
    "probabilities": ("cross_entropy", {}, (PAIR, UNIT)),
    "of each sample": ("cross_entropy", {"reduction": "none"}, (PAIR, CLASS)),
    "nll": ("nll_loss", {}, (PAIR, CLASS)),
    "triplet": ("triplet_margin_loss", {"swap": True}, (PAIR, PAIR, PAIR)),
    "distance": ("pairwise_distance", {"keepdim": True}, (PAIR, PAIR)),
    "cosine": ("cosine_similarity", {"dim": 1}, (PAIR, PAIR)),
    "cosine loss": ("cosine_embedding_loss", {}, (PAIR, PAIR, (TensorType((7,)), Init("sign")))),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_right(name):
    program = loss_program(*LOSSES[name])
    assert candidates(program)
    assert faults(program, candidates(program, limit=2)) == []


@pytest.mark.parametrize(
    "name", [name for name, (op, *_) in LOSSES.items() if op != "binary_cross_entropy"]
)
def test_losses_pass_nan_on(name):
    """PyTorch's binary_cross_entropy refuses NaN."""
    op, attributes, operands = LOSSES[name]
    has_reduction = any(parameter.name == "reduction" for parameter in operators()[op].params)
    program = loss_program(
        op, attributes | {"reduction": "none"} if has_reduction else attributes, operands
    )
    inputs = reference.make_inputs(program, 0)
    inputs[0].view(-1)[::40] = torch.nan
    assert strays(program, inputs, candidates(program, limit=2)) == []


def loss_program(op: str, attributes: dict[str, Any], operands: Sequence[Given]) -> Program:
    names = [p.name for p in operators()[op].params if p.kind is not ParameterKind.ATTRIBUTE]

    def make(builder: Builder, *refs: Ref):
        return builder.call(op, **dict(zip(names, refs, strict=False)), **attributes)

    normal = [(one, Init("randn")) if isinstance(one, TensorType) else one for one in operands]
    return built(make, *normal)


def class_loss(op: str, num_samples: int, **attributes: Any) -> Program:
    """A loss over 4 classes with a weight for each class."""
    b = Builder()
    scores, weight = b.input(TensorType((num_samples, 4))), b.input(TensorType((4,)))
    target = b.input(TensorType((num_samples,), "int64"), Init("randint", 0, 4))
    return b.program(b.call(op, input=scores, target=target, weight=weight, **attributes))


CLASS_WEIGHTS = torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("target", [1, -100])
@pytest.mark.parametrize("op", ["cross_entropy", "nll_loss"])
def test_a_weighted_mean_of_one_sample_is_divided_by_its_weight(op, target):
    """An ignored sample weighs 0: PyTorch's mean is NaN."""
    program = class_loss(op, 1)
    inputs = [torch.tensor([[0.1, -1.0, 2.0, 0.3]]), CLASS_WEIGHTS, torch.tensor([target])]
    assert strays(program, inputs, candidates(program, limit=2)) == []


@pytest.mark.parametrize("length", [1, 3])
def test_a_variance_of_fewer_elements_than_the_correction_is_divided_by_zero(length):
    b = Builder()
    program = b.program(b.call("var", input=b.input(TensorType((5, length))), dim=-1, correction=7))
    inputs = reference.make_inputs(program, 1)
    assert strays(program, inputs, candidates(program, limit=2)) == []


@pytest.mark.parametrize("op", ["dot", "matmul"])
def test_a_product_of_two_vectors_is_a_reduction(op):
    builder = Builder()
    x, y = (builder.input(TensorType((700,), "float16")) for _ in range(2))
    second = "tensor" if op == "dot" else "other"
    [t] = builder.call(op, **{"input": builder.call("relu", input=x)[0], second: y})
    program = builder.program(builder.call("add", input=t, other=1.0))
    assert candidates(program)
    assert faults(program, candidates(program)) == []


def test_reductions_over_different_axes_of_a_whole_result_are_left_to_the_search():
    def make(builder: Builder, x: Ref):
        (y,) = builder.call("softmax", input=x, dim=-1)
        return builder.call("sum", input=y, dim=0)

    assert candidates(built(make, ROWS)) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_without_an_epsilon_is_right_for_small_values(dtype):
    """PyTorch adds float32's epsilon there; that of the type would show below 0.1."""
    builder = Builder()
    x = builder.input(TensorType((5, 64), dtype), Init("randn", 0.0, 0.02))
    program = builder.program(builder.call("rms_norm", input=x, normalized_shape=(64,)))
    assert faults(program, write(program, limit=2, seed=0, precision="strict")) == []


F32, BF16, I64 = "float32", "bfloat16", "int64"
OF_ONE = {
    "sum": ((13, 8, 1), F32, {"dim": 2, "keepdim": True}),
    "sum of integers": ((13, 8, 1), I64, {"dim": 2}),
    "mean": ((13, 1, 8), F32, {"dim": 1}),
    "prod": ((13, 8, 1), F32, {"dim": 2}),
    "amax": ((13, 1), BF16, {"dim": 1}),
    "max": ((55, 1), F32, {"dim": 1}),
    "argmin": ((55, 1), F32, {"dim": 1}),
    "any": ((55, 1), F32, {"dim": 1}),
    "norm": ((55, 1, 3), F32, {"dim": 1, "ord": 2.0}),
    "std": ((30, 10, 1, 1), F32, {"dim": (2, 3), "correction": 0}),
    "logsumexp": ((55, 1, 8), F32, {"dim": 1}),
    "softmax": ((55, 1, 8), F32, {"dim": 1}),
    "log_softmax": ((55, 1), F32, {"dim": 1}),
    "group_norm": ((3, 2, 1), F32, {"num_groups": 2}),
    "layer_norm": ((3, 2, 1), F32, {"normalized_shape": (1,)}),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_reductions_of_one_element_are_pointwise(name):
    shape, dtype, attributes = OF_ONE[name]
    given = TensorType(shape, dtype)
    program = built(of(name.partition(" ")[0], **attributes), (given, default_init(given)))
    found = candidates(program, limit=2)
    assert found
    loops = [plan.loop for candidate in found for plan in candidate.plan]
    assert all(loop.startswith("pointwise") for loop in loops)
    assert not faults_here_and_at_other_sizes(program, found)


def test_means_far_from_zero_are_as_exact_as_rounding_allows():
    """PyTorch computes batch statistics in float64 on a CPU."""
    b = Builder()
    x = b.input(TensorType((32, 3, 56, 56)))
    program = b.program(b.call("batch_norm", input=x, training=True))
    torch.manual_seed(0)
    inputs = [7.3 + 0.1 * torch.randn(32, 3, 56, 56)]
    [exact] = reference.run(program, inputs, dtype=torch.float64)
    [native] = reference.run(program, inputs)
    with shared("cpu").guest(LIMITS) as guest:
        for candidate in candidates(program, limit=3):
            guest.load(candidate.source)
            [found] = guest.run("candidate", GuestCall(inputs, seed=0)).outputs
            assert (found - exact).abs().max() <= 1.1 * (native - exact).abs().max()


EXTREMA = ("amax", "amin", "norm", "max_all", "min_all", "adaptive_max_pool2d")


@pytest.mark.parametrize("op", EXTREMA)
@pytest.mark.parametrize(("shape", "dim"), [((5, 6), 1), ((6, 5), 0), ((2, 17000), 1)])
def test_extrema_of_nan_are_nan_as_in_pytorch(op, shape, dim):
    b = Builder()
    attributes = {"norm": {"ord": float("inf"), "dim": dim}, "amax": {"dim": dim}}
    attributes["amin"] = attributes["amax"]
    if op == "adaptive_max_pool2d":
        shape, attributes[op] = (2, 3, *shape), {"output_size": (1, 1)}
    program = b.program(b.call(op, input=b.input(TensorType(shape)), **attributes.get(op, {})))
    torch.manual_seed(0)
    x = torch.randn(shape)
    x[0, 0] = torch.nan
    assert strays(program, [x], candidates(program, limit=6)) == []


@pytest.mark.parametrize("op", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize(("shape", "dim"), [((5, 6), 1), ((6, 5), 0), ((2, 17000), 1)])
def test_a_position_is_that_of_the_first_nan_as_in_pytorch(op, shape, dim):
    b = Builder()
    program = b.program(b.call(op, input=b.input(TensorType(shape)), dim=dim))
    torch.manual_seed(0)
    x = torch.randn(shape)
    rows = x if dim else x.T
    rows[0, :5] = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan, torch.nan])
    rows[1, 2:4] = torch.tensor([torch.inf, -torch.inf])
    if len(rows) > 2:
        rows[2] = torch.nan
        rows[3] = -torch.inf
        rows[4] = torch.inf
    assert strays(program, [x], candidates(program, limit=6)) == []


@pytest.mark.parametrize("op", ["argmax", "argmin", "max", "min"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize(("shape", "dim"), [((5, 6), 1), ((6, 5), 0), ((2, 17000), 1)])
def test_a_position_is_that_of_the_first_extreme_integer_as_in_pytorch(op, dtype, shape, dim):
    b = Builder()
    x = b.input(TensorType(shape, dtype), Init("randint", 0, 5))
    program = b.program(b.call(op, input=x, dim=dim))
    limits = torch.iinfo(getattr(torch, dtype))
    torch.manual_seed(0)
    values = torch.randint(limits.min, limits.max, shape, dtype=getattr(torch, dtype))
    rows = values if dim else values.T
    # The neutral elements of both extrema are elements here. fp32 cannot tell the last two apart.
    rows[0, :4] = torch.tensor([0, limits.max, limits.min, limits.max - 1], dtype=values.dtype)
    rows[1, 2:5] = rows[0, 1:4]
    if len(rows) > 2:
        rows[2], rows[3] = limits.min, limits.max
    kernels = candidates(program, limit=6)
    assert kernels
    assert strays(program, [values], kernels) == []


@pytest.mark.parametrize(("shape", "dim"), [((5, 6), 1), ((6, 5), 0), ((2, 17000), 1)])
def test_a_logsumexp_of_infinities_is_infinite_as_in_pytorch(shape, dim):
    b = Builder()
    program = b.program(b.call("logsumexp", input=b.input(TensorType(shape)), dim=dim))
    torch.manual_seed(0)
    x = torch.randn(shape)
    rows = x if dim else x.T
    rows[0] = -torch.inf
    rows[1, 3] = torch.inf
    if len(rows) > 2:
        rows[2, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
        rows[3] = 3.4e38
    assert strays(program, [x], candidates(program)) == []


@pytest.mark.slow
@pytest.mark.parametrize("op", ["logsumexp", "amax", "amin"])
def test_limits_of_infinities_and_nan_compile_for_hopper(op):
    b = Builder()
    program = b.program(b.call(op, input=b.input(TensorType((2, 17000))), dim=1))
    by_form = {candidate.plan[0].loop: candidate for candidate in candidates(program)}
    assert by_form.keys() == {"one_pass", "looped", "two_pass"}
    for candidate in by_form.values():
        assert compiled(program, candidate)
