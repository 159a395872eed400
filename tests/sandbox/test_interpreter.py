"""The interpreter's remedies, each against what the hardware does."""

from fractions import Fraction

import pytest
import torch
from sample_candidates import HEADER

from kernelwright.sandbox.shared.contract import GuestCall, GuestFault

UNARY = (
    HEADER
    + """
{imports}
@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, {expression})


def fused_operator(x):
    out = torch.empty_like(x)
    kernel[(1,)](x, out, BLOCK=64)
    return [out]
"""
)


def unary(guest, expression: str, x: torch.Tensor, imports: str = "") -> torch.Tensor:
    guest.load(UNARY.format(expression=expression, imports=imports))
    return guest.run("candidate", GuestCall([x], seed=1)).outputs[0]


def test_bfloat16_is_computed_in_float_and_rounded_to_nearest(guest):
    x = torch.randn(64).bfloat16()
    expected = torch.exp(x.float()).bfloat16()
    assert torch.equal(unary(guest, "tl.exp(x.to(tl.float32))", x), expected)


def test_bfloat16_multiplication_and_where_work_directly(guest):
    x = torch.randn(64).bfloat16()
    expected = torch.where(x > 0, x * x, x)
    assert torch.equal(unary(guest, "tl.where(x > 0, x * x, x)", x), expected)


def test_a_bfloat16_sum_accumulates_in_float(guest):
    x = torch.randn(64).bfloat16()
    expected = x.float().sum().bfloat16().expand(64)
    expression = "x * 0 + tl.sum(x.to(tl.float32)).to(tl.bfloat16)"
    assert torch.equal(unary(guest, expression, x), expected)


def test_sums_of_integers_wrap_round_in_their_type(guest):
    x = torch.full((64,), 1 << 30, dtype=torch.int32)
    x[0] += 3
    for expression in ("tl.sum(x)", "tl.sum(tl.reshape(x, (1, 64)), 1)"):
        assert unary(guest, f"x * 0 + {expression}", x).unique().tolist() == [3]


@pytest.mark.parametrize(
    ("function", "expected"),
    [("tanh", torch.tanh), ("erf", torch.erf), ("log1p", torch.log1p), ("rint", torch.round)],
)
def test_libdevice_functions_are_computed(guest, function, expected):
    x = torch.rand(64) * 3
    imports = "from triton.language.extra import libdevice"
    assert torch.equal(unary(guest, f"libdevice.{function}(x)", x, imports), expected(x))


# From mpmath: PyTorch is inaccurate there, or has no such function.
ACCURATE = {
    "cbrt": {-1.5208329e35: -533777791540.6578, 1e-30: 1e-10, 27.0: 3.0},
    "erfcinv": {0.0: torch.inf, 1e-30: 8.148616223, 1e-9: 4.320005388, 1.75: -0.8134198476},
    "fdim": {torch.inf: 0.0, 2.0: 0.0},
    "j0": {16300.947265625: -5.234781419e-05, 50.0: 0.05581232767},
    "j1": {-6798.2939453125: 0.007567594703, 50.0: -0.09751182813},
    "normcdf": {-12.0: 1.776482112e-33, -8.5: 9.479534822e-18, -1.0: 0.1586552539},
    "round": {0.49999997: 0.0, 2.5: 3.0, -2.5: -3.0, 8388609.0: 8388609.0, -torch.inf: -torch.inf},
    "tgamma": {-0.5: -3.544907702, -1.5: 2.363271801, 30.0: 8.841761994e30, -3.0: torch.nan},
    "y0": {15121.279296875: -5.48190383e-05, 50.0: -0.09806499547},
    "y1": {8334.3212890625: 0.003891182709, 50.0: -0.05679566856},
}


@pytest.mark.parametrize("function", ACCURATE)
def test_libdevice_functions_are_accurate_for_small_large_and_negative_numbers(guest, function):
    x = torch.tensor([*ACCURATE[function]] * 64)[:64]
    expected = torch.tensor([*ACCURATE[function].values()] * 64)[:64]
    imports = "from triton.language.extra import libdevice"
    arguments = "x, x" if function == "fdim" else "x"
    y = unary(guest, f"libdevice.{function}({arguments})", x, imports)
    torch.testing.assert_close(y, expected, rtol=3e-7, atol=0, equal_nan=True)


def test_the_fused_product_and_sum_of_libdevice_rounds_once_in_float64(guest):
    x = torch.rand(64, dtype=torch.float64)
    imports = "from triton.language.extra import libdevice"
    rest = unary(guest, "libdevice.fma(x, x, -(x * x))", x, imports)
    expected = [Fraction(value) ** 2 - Fraction(value * value) for value in x.tolist()]
    assert rest.tolist() == [float(value) for value in expected]


def test_erf_matches_torch(guest):
    x = torch.randn(64)
    torch.testing.assert_close(unary(guest, "tl.erf(x)", x), torch.erf(x))


def test_a_scalar_condition_joins_a_mask(guest):
    x = torch.randn(64)
    before = "tl.load(x_ptr + at - 5, mask=(tl.program_id(0) == 0) & (at >= 5), other=0)"
    assert torch.equal(unary(guest, before, x)[5:], x[:-5])


TAKING_THE_RIGHT = """@triton.jit
def right(a, b):
    return a * 0 + b
@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d"""


def test_scans_by_a_function_keep_the_order_of_operands(guest):
    x = torch.randn(64)
    assert torch.equal(unary(guest, "tl.associative_scan(x, 0, right)", x, TAKING_THE_RIGHT), x)
    # x -> x * 0.5 + 1, 64 times over: a recurrence that sums would not show
    pair = "tl.associative_scan((x * 0 + 0.5, x * 0 + 1.0), 0, affine)[1]"
    expected = 2 - 2 * 0.5 ** torch.arange(1, 65)
    torch.testing.assert_close(unary(guest, pair, x, TAKING_THE_RIGHT), expected.float())


def test_reductions_by_a_function_keep_the_order_of_operands(guest):
    x = torch.randn(64)
    last = unary(guest, "x * 0 + tl.reduce(x, 0, right)", x, TAKING_THE_RIGHT)
    assert torch.equal(last, x[-1].expand(64))
    rows = "x * 0 + tl.sum(tl.reduce(tl.reshape(x, (4, 16)), 0, right, keep_dims=True))"
    total = unary(guest, rows, x, TAKING_THE_RIGHT)
    torch.testing.assert_close(total, x.reshape(4, 16)[-1].sum().expand(64))


SUMS = """
import torch
import triton
import triton.language as tl


@triton.jit
def sums_kernel(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tile = tl.load(x + row * COLUMNS + column)
    tl.store(y + column, tl.sum(tile, 0, keep_dims=True))


def fused_operator(x):
    y = torch.empty(x.shape[1])
    sums_kernel[(1,)](x, y, *x.shape)
    return [y]
"""


def test_a_sum_over_rows_errs_no_more_than_a_tree_of_additions(guest):
    """Added up one after the other, 4096 numbers near 1000 err a hundred times as much."""
    x = torch.randn(4096, 4) + 1000
    guest.load(SUMS)
    (result,) = guest.run("candidate", GuestCall([x], seed=0)).outputs
    error = (result.double() - x.double().sum(0)).abs().max().item()
    assert error <= 2 * torch.finfo(torch.float32).eps * 4096 * 1000


def test_a_store_past_the_end_is_caught_with_its_line(guest):
    source = UNARY.format(expression="x", imports="").replace("out_ptr + at,", "out_ptr + at + 1,")
    guest.load(source)
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall([torch.randn(64)], seed=1))
    assert caught.value.kind == "out_of_bounds"
    assert "'out_ptr'" in caught.value.message
    assert "tl.store" in source.splitlines()[caught.value.line - 1]


def test_a_load_before_the_start_is_caught(guest):
    source = UNARY.format(expression="x", imports="").replace("x_ptr + at)", "x_ptr + at - 1)")
    guest.load(source)
    with pytest.raises(GuestFault, match="load of 4 bytes x 1"):
        guest.run("candidate", GuestCall([torch.randn(64)], seed=1))


def test_a_masked_access_may_point_anywhere(guest):
    expression = "tl.load(x_ptr + at * 1000, mask=at < 1, other=2.0)"
    x = torch.randn(64)
    expected = torch.full((64,), 2.0)
    expected[0] = x[0]
    assert torch.equal(unary(guest, expression, x), expected)


def test_a_loop_with_a_runtime_bound_runs(guest):
    source = HEADER + (
        "@triton.jit\n"
        "def total(x_ptr, out_ptr, size, BLOCK: tl.constexpr):\n"
        "    acc = tl.zeros((BLOCK,), tl.float32)\n"
        "    for start in range(0, tl.cdiv(size, BLOCK)):\n"
        "        at = start * BLOCK + tl.arange(0, BLOCK)\n"
        "        acc += tl.load(x_ptr + at, mask=at < size, other=0.0)\n"
        "    tl.store(out_ptr, tl.sum(acc))\n"
        "def fused_operator(x):\n"
        "    out = torch.empty((), dtype=x.dtype)\n"
        "    total[(1,)](x, out, x.numel(), BLOCK=32)\n"
        "    return [out]\n"
    )
    x = torch.randn(100)
    guest.load(source)
    torch.testing.assert_close(guest.run("candidate", GuestCall([x], seed=1)).outputs[0], x.sum())


MATMUL = (
    HEADER
    + """
@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], key=[])
@triton.jit
def mm(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION)
    tl.store(out_ptr + at, c.to(out_ptr.dtype.element_ty))


def fused_operator(a, b, precision):
    out = torch.empty_like(a)
    mm[(1,)](a, b, out, precision, N=64)
    return [out]
"""
)


def test_dot_is_as_precise_as_its_input_precision(guest):
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    exact = a.double() @ b.double()
    guest.load(MATMUL)
    error = {}
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3"):
        output = guest.run("candidate", GuestCall([a, b, precision], seed=1)).outputs[0]
        error[precision] = float((output - exact).norm() / exact.norm())
    assert error["ieee"] < 1e-6
    assert error["tf32x3"] < 1e-6
    assert 1e-7 < error["bf16x3"] < 3e-5
    assert 1e-4 < error["tf32"] < 2e-3


def test_a_bfloat16_dot_is_right(guest):
    a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    guest.load(MATMUL)
    output = guest.run("candidate", GuestCall([a, b, "ieee"], seed=1)).outputs[0]
    torch.testing.assert_close(output.double(), a.double() @ b.double(), rtol=5e-3, atol=1e-3)


def test_autotuning_with_several_choices_runs(guest):
    guest.load(MATMUL)
    ran = guest.run("candidate", GuestCall([torch.eye(64), torch.eye(64), "ieee"], seed=1))
    assert torch.equal(ran.outputs[0], torch.eye(64))
    assert ran.launches["mm"] >= 1


FOLLOWING = (
    HEADER
    + """
@triton.jit
def kernel(table_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, tl.load(x_ptr + at {offset}))


def fused_operator(x):
    out = torch.empty_like(x)
    table = torch.tensor([x.data_ptr()])
    kernel[(1,)](table, out, BLOCK=64)
    return [out]
"""
)


def test_addresses_in_an_argument_lead_into_living_tensors(guest):
    x = torch.randn(64)
    guest.load(FOLLOWING.format(offset=""))
    assert torch.equal(guest.run("candidate", GuestCall([x], seed=1)).outputs[0], x)


def test_addresses_in_an_argument_lead_nowhere_else(guest):
    guest.load(FOLLOWING.format(offset="+ 1"))
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall([torch.randn(64)], seed=1))
    assert caught.value.kind == "out_of_bounds"


IMPORTED = (
    HEADER
    + """
from triton.language import arange, load, store
from triton.language import exp as power

@triton.jit
def kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = arange(0, BLOCK)
    store(out_ptr + at, power(load(x_ptr + at)))


def fused_operator(x):
    out = torch.empty_like(x)
    before = load
    kernel[(1,)](x, out, BLOCK=64)
    assert load is before
    return [out]
"""
)


def test_functions_of_the_language_may_be_imported_by_name(guest):
    x = torch.randn(64)
    guest.load(IMPORTED)
    torch.testing.assert_close(guest.run("candidate", GuestCall([x], seed=1)).outputs[0], x.exp())


@pytest.mark.parametrize(
    ("expression", "of_nan"),
    [
        ("tl.maximum(x, 0.5{})", 0.5),
        ("tl.minimum(x, 0.5{})", 0.5),
        ("tl.clamp(x, 0.5, 2.0{})", 0.5),
    ],
)
def test_extrema_drop_nan_as_a_gpu_does_unless_asked_to_propagate(guest, expression, of_nan):
    x = torch.rand(64)
    x[::3] = torch.nan
    dropped = unary(guest, expression.format(""), x)
    assert dropped[::3].eq(of_nan).all()
    propagated = unary(guest, expression.format(", propagate_nan=tl.PropagateNan.ALL"), x)
    assert torch.equal(propagated.isnan(), x.isnan())
    assert torch.equal(dropped[1::3], propagated[1::3])
