"""The matmul family: every form, every way factors and operands may lie, against fp64."""

import pytest
import torch
from judging import SHARED_LIMIT_BYTES, compiled, faults, strays
from sketch import Sketch

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs.program import Init, Program, Ref
from kernelwright.teacher.contraction import writer as matmul
from kernelwright.teacher.contraction.elements import elements
from kernelwright.teacher.writer import write


def linear(m: int, n: int, k: int, dtype: str = "float32") -> tuple[Sketch, Ref]:
    s = Sketch()
    x, w, b = s.input(m, k, dtype=dtype), s.input(n, k, dtype=dtype), s.input(n, dtype=dtype)
    return s, s.linear(x, w, b)


def forms(program: Program, precision: str = "strict", limit: int = 40) -> dict[str, Candidate]:
    """The first candidate of each form and precision."""
    found: dict[str, Candidate] = {}
    for candidate in write(program, limit=limit, seed=0, precision=precision):
        plan = candidate.plan[0]
        found.setdefault(f"{plan.loop} {plan.precision}", candidate)
    return found


def epilogue_of_everything() -> Program:
    s, t = linear(70, 90, 100)
    row, column = s.input(90), s.input(70, 1)
    full, number = s.input(70, 90), s.input(1)
    t = s.mul(t, row)
    u = s.gelu(s.add(t, column))
    u = s.div(s.sub(u, s.sigmoid(full)), s.exp(number))
    return s.program(u, t)


def flattened_batch() -> Program:
    s = Sketch()
    x, w, mask = s.input(3, 7, 33), s.input(33, 20), s.input(7, 1)
    return s.program(s.relu(s.mul(s.matmul(x, w), mask)))


def batch_with_operands() -> Program:
    s = Sketch()
    a, b = s.input(5, 21, 33), s.input(5, 33, 19)
    bias, scale = s.input(5, 1, 19), s.input(5, 1, 1)
    return s.program(s.tanh(s.add(s.mul(s.bmm(a, b), scale), bias)))


def two_batch_dimensions_one_broadcast() -> Program:
    s = Sketch()
    q, k = s.input(2, 3, 9, 17), s.input(1, 3, 11, 17)
    scores = s.matmul(q, s.transpose(k, dim0=-1, dim1=-2))
    return s.program(s.mul(scores, other=0.25))


def heads_from_a_permuted_view() -> Program:
    s = Sketch()
    q, k = s.input(2, 9, 12), s.input(2, 3, 4, 11)
    split = s.permute(s.reshape(q, shape=(2, 9, 3, 4)), dims=(0, 2, 1, 3))
    return s.program(s.matmul(split, k))


def projection_into_heads() -> Program:
    s, t = linear(18, 12, 20)
    split = s.permute(s.reshape(t, shape=(2, 9, 3, 4)), dims=(0, 2, 1, 3))
    return s.program(s.mul(split, other=2.0))


def both_factors_transposed() -> Program:
    s = Sketch()
    a, b = s.input(40, 30), s.input(25, 40)
    return s.program(s.mm(s.t(a), s.t(b)))


def bias_added_with_scales() -> Program:
    s = Sketch()
    c, a, b = s.input(25), s.input(30, 40), s.input(40, 25)
    return s.program(s.addmm(c, a, b, beta=0.5, alpha=2))


def pointwise_on_the_left_factor() -> Program:
    s = Sketch()
    x, scale, w = s.input(30, 45), s.input(45), s.input(25, 45)
    return s.program(s.relu(s.linear(s.mul(s.exp(x), scale), w)))


def flattened_image() -> Program:
    s = Sketch()
    x, w = s.input(10, 3, 4, 5), s.input(17, 60)
    return s.program(s.linear(s.relu(s.flatten(x, start_dim=1)), w))


def product_with_itself() -> Program:
    s = Sketch()
    x = s.input(30, 45)
    return s.program(s.mm(x, s.t(x)))


def batch_norm_with_given_statistics() -> Program:
    s, t = linear(30, 25, 40)
    mean, weight, bias = s.input(25), s.input(25), s.input(25)
    variance = s.builder.input(TensorType((25,)), Init("rand", 0.5, 2.0))
    return s.program(s.relu(s.batch_norm(t, mean, variance, weight, bias)))


def triangle_of_a_batch() -> Program:
    s = Sketch()
    t = s.tril(s.matmul(s.input(2, 30, 24), s.input(2, 24, 36)), diagonal=-1)
    return s.program(s.add(t, s.input(36)))


PROGRAMS = [
    triangle_of_a_batch,
    batch_norm_with_given_statistics,
    epilogue_of_everything,
    flattened_batch,
    batch_with_operands,
    two_batch_dimensions_one_broadcast,
    heads_from_a_permuted_view,
    projection_into_heads,
    both_factors_transposed,
    bias_added_with_scales,
    pointwise_on_the_left_factor,
    flattened_image,
    product_with_itself,
]


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_what_surrounds_a_product_is_fused_and_right(build):
    program = build()
    assert matmul.classify(program)
    candidates = write(program, limit=2, seed=0, precision="strict")
    assert len(candidates) == 2
    assert faults(program, candidates) == []


def reduced(op: str, **options: object) -> Program:
    s, t = linear(70, 150, 100)
    t = s.sigmoid(t)
    t = getattr(s, op)(t, dim=1, **options)
    return s.program(s.mul(t, other=0.5))


def reduced_to_one_and_again() -> Program:
    s, t = linear(70, 150, 100)
    t = s.sum(s.clamp(t, min=-2.0, max=2.0), dim=1, keepdim=True)
    t = s.logsumexp(s.mean(t, dim=1, keepdim=True), dim=1, keepdim=True)
    return s.program(s.add(t, s.input(70, 1)))


def reduced_in_a_batch_and_kept() -> Program:
    s = Sketch()
    a, b, bias = s.input(3, 21, 33), s.input(3, 33, 40), s.input(40)
    t = s.add(s.bmm(a, b), bias)
    return s.program(s.logsumexp(t, dim=-1), t)


REDUCED = {
    "sum": lambda: reduced("sum"),
    "mean": lambda: reduced("mean", keepdim=True),
    "max": lambda: reduced("max", keepdim=True),
    "amin": lambda: reduced("amin"),
    "logsumexp": lambda: reduced("logsumexp", keepdim=True),
    "to one and again": reduced_to_one_and_again,
    "in a batch and kept": reduced_in_a_batch_and_kept,
}


@pytest.mark.slow
@pytest.mark.parametrize("build", REDUCED.values(), ids=REDUCED)
def test_a_reduction_over_the_columns_is_fused_and_right(build):
    program = build()
    candidates = write(program, limit=2, seed=0, precision="strict")
    assert {c.plan[0].loop for c in candidates} == {"matmul_row_reduce"}
    assert faults(program, candidates) == []


VECTORS = {
    "one output column": lambda s: s.program(s.relu(s.linear(s.input(50, 300), s.input(1, 300)))),
    "one row": lambda s: s.program(s.linear(s.input(1, 300), s.input(50, 300), s.input(50))),
    "one row that a view drops": lambda s: s.program(
        s.squeeze(s.linear(s.input(1, 300), s.input(50, 300)), dim=0)
    ),
    "matrix times vector": lambda s: s.program(s.mv(s.input(50, 300), s.input(300))),
    "vector times matrix": lambda s: s.program(s.matmul(s.input(300), s.input(300, 50))),
    "batch of columns": lambda s: s.program(s.bmm(s.input(3, 50, 70), s.input(3, 70, 1))),
}


@pytest.mark.slow
@pytest.mark.parametrize("build", VECTORS.values(), ids=VECTORS)
def test_a_product_with_a_vector_needs_no_tensor_cores(build):
    program = build(Sketch())
    candidates = [
        c
        for c in write(program, limit=20, seed=0, precision="strict")
        if c.plan[0].loop == "looped"
    ]
    assert len(candidates) >= 2
    assert faults(program, candidates[:2]) == []


def long_product(dtype: str = "float32") -> Program:
    s, t = linear(20, 40, 1100, dtype)
    return s.program(s.gelu(t))


@pytest.mark.slow
def test_every_form_and_precision_of_a_long_product_is_right():
    strict = forms(long_product())
    loose = forms(long_product(), "tf32")
    assert strict.keys() == {"matmul tf32x3", "split_k tf32x3", "matmul ieee", "split_k ieee"}
    assert loose.keys() >= {"matmul tf32", "matmul bf16x3", "split_k tf32", "split_k bf16x3"}
    assert faults(long_product(), list(strict.values())) == []
    assert faults(long_product(), list(loose.values()), precision="tf32") == []


def test_a_triangle_is_cut_after_slices_of_k_are_summed():
    s, t = linear(20, 40, 1100)
    program = s.program(s.triu(t, diagonal=1))
    assert faults(program, [forms(program)["split_k_triangular tf32x3"]]) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_factors_are_right(dtype):
    s, t = linear(50, 70, 90, dtype)
    program = s.program(s.gelu(t))
    assert faults(program, write(program, limit=2, seed=0, precision="strict")) == []


def test_the_first_candidate_follows_the_precision_policy():
    s, t = linear(1024, 8192, 8192)
    program = s.program(s.relu(t))
    first = {
        precision: write(program, limit=1, seed=0, precision=precision)[0].plan[0].precision
        for precision in ("strict", "tf32", "kernelbench")
    }
    assert first == {"strict": "tf32x3", "tf32": "tf32", "kernelbench": "tf32"}


def test_strict_candidates_never_use_tf32_or_bf16():
    s, t = linear(1024, 8192, 8192)
    program = s.program(s.relu(t))
    written = write(program, limit=60, seed=0, precision="strict")
    assert {plan.precision for c in written for plan in c.plan} == {"tf32x3", "ieee"}


def test_candidates_are_distinct_and_repeat_with_the_seed():
    s, t = linear(128, 512, 4096)
    program = s.program(s.relu(t))
    one, same, other = (
        write(program, limit=8, seed=seed, precision="strict") for seed in (1, 1, 2)
    )
    assert len({c.source for c in one}) == 8
    assert one == same
    assert one[0] == other[0]
    assert one != other


def test_tensors_of_2_to_the_31_elements_use_64_bit_offsets():
    s = Sketch()
    t = s.linear(s.input(1 << 20, 64), s.input(4096, 64))
    wide = write(s.program(t), limit=1, seed=0, precision="strict")[0].source
    s = Sketch()
    t = s.linear(s.input(1 << 10, 64), s.input(4096, 64))
    narrow = write(s.program(t), limit=1, seed=0, precision="strict")[0].source
    assert "offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)" in wide
    assert ".to(tl.int64)" not in narrow


def two_products() -> Program:
    s, t = linear(8, 8, 8)
    return s.program(s.mm(t, s.input(8, 8)))


def output_without_the_product() -> Program:
    s, t = linear(8, 8, 8)
    return s.program(t, s.relu(s.input(4)))


def softmax_of_a_product() -> Program:
    s, t = linear(8, 8, 8)
    return s.program(s.softmax(t, dim=1))


def reduction_over_rows() -> Program:
    s, t = linear(8, 8, 8)
    return s.program(s.sum(t, dim=0))


@pytest.mark.parametrize(
    "build",
    [two_products, output_without_the_product, softmax_of_a_product, reduction_over_rows],
    ids=lambda build: build.__name__,
)
def test_what_has_no_form_is_not_claimed(build):
    assert not matmul.classify(build())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("strict", "float32"), ("strict", "bfloat16")],
    ids=["tf32x3", "bfloat16"],
)
def test_the_favourite_of_a_large_product_fits_hopper(precision, dtype):
    s, t = linear(1024, 8192, 8192, dtype)
    program = s.program(s.gelu(t))
    [candidate] = write(program, limit=1, seed=0, precision=precision)
    [usage] = compiled(program, candidate)
    assert usage.shared_bytes <= SHARED_LIMIT_BYTES
    assert usage.spills <= 128


@pytest.mark.slow
def test_a_factor_that_is_computed_leaves_room_for_its_parts():
    s = Sketch()
    x, w = s.input(1024, 8192), s.input(8192, 8192)
    program = s.program(s.mm(s.relu(x), w))
    for candidate in write(program, limit=2, seed=0, precision="strict"):
        [usage] = compiled(program, candidate)
        assert usage.shared_bytes <= SHARED_LIMIT_BYTES


@pytest.mark.slow
def test_slices_of_k_and_row_reductions_fit_hopper():
    s, t = linear(64, 512, 8192)
    sliced = s.program(s.relu(t))
    s, t = linear(1024, 8192, 8192)
    reduces = s.program(s.logsumexp(s.gelu(t), dim=1))
    chosen = forms(sliced)["split_k tf32x3"], forms(reduces)["matmul_row_reduce tf32x3"]
    for program, candidate in zip((sliced, reduces), chosen, strict=True):
        usages = compiled(program, candidate)
        assert len(usages) == 2
        assert all(u.spills == 0 and u.shared_bytes <= SHARED_LIMIT_BYTES for u in usages)


@pytest.mark.parametrize("op", ["amax", "amin"])
def test_extrema_of_the_columns_pass_nan_on(op):
    s = Sketch()
    program = s.program(getattr(s, op)(s.mm(s.input(20, 7), s.input(7, 40)), dim=(1,)))
    torch.manual_seed(0)
    inputs = [torch.randn(20, 7), torch.randn(7, 40)]
    inputs[0][3] = torch.nan
    candidates = [c for c in write(program, limit=9) if len(c.plan) == 2]
    assert candidates
    assert strays(program, inputs, candidates[:3]) == []


@pytest.mark.parametrize("op", ["addmm", "baddbmm"])
@pytest.mark.parametrize("alpha", [1, 2])
def test_an_operand_that_is_scaled_by_zero_is_not_read(op, alpha):
    """PyTorch ignores its NaN."""
    s = Sketch()
    batch = () if op == "addmm" else (3,)
    shapes = (*batch, 4, 5), (*batch, 4, 7), (*batch, 7, 5)
    added, *factors = (s.input(*shape) for shape in shapes)
    program = s.program(getattr(s, op)(added, *factors, beta=0, alpha=alpha))
    torch.manual_seed(0)
    inputs = [torch.full(shapes[0], torch.nan), *(torch.randn(shape) for shape in shapes[1:])]
    assert strays(program, inputs, write(program, limit=2)) == []


@pytest.mark.parametrize("k", [3, 8, 20, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_block_of_k_is_mostly_padding(dtype, k):
    s, t = linear(300, 64, k, dtype=dtype)
    for way in matmul.ways(s.program(t), "strict"):
        assert way.write().plan[0].tiles["BLOCK_K"] < 2 * max(16, k)


def small_products(*, dtype: str = "float32", k: int = 5) -> Program:
    s = Sketch()
    a, b = s.input(3, 50, 4, k, dtype=dtype), s.input(50, k, 6, dtype=dtype)
    bias = s.input(4, 1, dtype=dtype)
    return s.program(s.relu(s.add(s.matmul(s.sigmoid(a), b), bias)))


def small_products_of_views() -> Program:
    s = Sketch()
    q, k = s.input(30, 7, 12), s.input(30, 9, 2, 6)
    flat = s.reshape(k, shape=(30, 9, 12))
    return s.program(s.bmm(q, s.transpose(flat, dim0=1, dim1=2)))


def small_baddbmm() -> Program:
    s = Sketch()
    c, a, b = s.input(40, 3, 2), s.input(40, 3, 11), s.input(40, 11, 2)
    return s.program(s.tanh(s.baddbmm(c, a, b, beta=0.5, alpha=2)))


SMALL = {
    "broadcast batch": small_products,
    "float16": lambda: small_products(dtype="float16"),
    "bfloat16": lambda: small_products(dtype="bfloat16", k=70),
    "views": small_products_of_views,
    "operand added": small_baddbmm,
}


@pytest.mark.parametrize("build", SMALL.values(), ids=SMALL)
def test_a_batch_of_small_products_is_right_element_by_element(build):
    program = build()
    way = next(way for way in matmul.ways(program, "strict") if way.kind[0] is elements)
    assert faults(program, [way.write()]) == []


def test_many_small_products_are_elements_first_and_larger_ones_never():
    s = Sketch()
    many = s.program(s.matmul(s.input(2, 2048, 124, 4, 4), s.input(2, 1, 124, 4, 4)))
    assert write(many, limit=1, seed=0)[0].plan[0].loop == "elements"
    s = Sketch()
    larger = s.program(s.bmm(s.input(500, 17, 8), s.input(500, 8, 4)))
    assert elements not in {way.kind[0] for way in matmul.ways(larger, "strict")}


def turned_factor() -> Program:
    s = Sketch()
    return s.program(s.mm(s.t(s.input(100, 70)), s.input(100, 90)))


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(epilogue_of_everything(), "M"), (batch_with_operands(), "M"), (turned_factor(), "")],
    ids=["weights", "batch", "turned"],
)
def test_distances_between_rows_are_constants_and_the_number_of_rows_is_an_argument(
    program, arguments
):
    for candidate in forms(program).values():
        signature = candidate.source.partition("_kernel(\n")[2].partition("):")[0]
        sizes = {name.strip() for name in signature.replace("\n", ",").split(",")} & set("MNK")
        assert sizes <= set(arguments)
        assert "K: tl.constexpr" in signature


def test_a_long_sum_of_few_outputs_is_cut_into_slices():
    s = Sketch()
    program = s.program(
        s.mm(s.input(16, 8590, dtype="float16"), s.input(8590, 384, dtype="float16"))
    )
    assert write(program, limit=1)[0].plan[0].loop == "split_k"
