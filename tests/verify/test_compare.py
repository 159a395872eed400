"""The comparison accepts rounding and refuses sabotage, whatever the scale of the answer."""

from dataclasses import replace

import pytest
import torch

from kernelwright.core.verdict import Code
from kernelwright.verify.values.compare import Expected, compare, share_of_allowed, worse

SCALES = [1e-6, 1.0, 1e6]


def matmul_case(scale=1.0, *, tf32=False):
    """fp32 operands, (64, 256) and (256, 96), with the expected values of their product."""
    generator = torch.Generator().manual_seed(7)
    a = scale * torch.randn(64, 256, generator=generator)
    b = torch.randn(256, 96, generator=generator)
    oracle = a.double() @ b.double()
    rounded = (truncated(a).double() @ truncated(b).double(),)
    expected = Expected(native=(a @ b,), oracle=(oracle,), tolerated=(rounded,) if tf32 else ())
    return a, b, expected


def truncated(x):
    """fp32 with 10 mantissa bits, as TF32 hardware reads it."""
    return (x.view(torch.int32) & -(1 << 13)).view(torch.float32)


def exact(*answers):
    return Expected(native=answers, oracle=tuple(y.double() for y in answers))


def missing_row(y):
    return torch.cat([y[:-1], torch.zeros_like(y[-1:])])


def with_one(element):
    def spoil(y):
        y = y.clone()
        y[3, 5] = element(y)
        return y

    return spoil


SABOTAGE = {
    "zeros": torch.zeros_like,
    "sign_flipped": torch.neg,
    "scaled_5_percent": lambda y: y * 1.05,
    "scaled_a_thousandth": lambda y: y * 1.001,
    "last_row_missing": missing_row,
    "one_nan": with_one(lambda y: torch.nan * y[3, 5]),
    "one_infinity": with_one(lambda y: torch.inf * y[3, 5]),
    "one_wrong_element": with_one(lambda y: y[3, 5] + 0.01 * y.std()),
    "rows_reversed": lambda y: y.flip(0),
    "shifted_by_one": lambda y: y.roll(1),
    "through_fp16_mantissa": lambda y: torch.ldexp(
        torch.frexp(y).mantissa.half().float(), torch.frexp(y).exponent
    ),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("spoil", SABOTAGE.values(), ids=SABOTAGE)
def test_strict_refuses_wrong_answers_at_every_scale(spoil, scale):
    a, b, expected = matmul_case(scale)
    assert compare((a @ b,), expected, "strict").mismatch is None
    mismatch = compare((spoil(a @ b),), expected, "strict").mismatch
    assert mismatch is not None
    assert mismatch.code in (Code.WRONG_VALUES, Code.NOT_FINITE)


LOOSE = SABOTAGE.keys() - {"scaled_a_thousandth", "through_fp16_mantissa", "one_wrong_element"}


@pytest.mark.parametrize("spoil", sorted(LOOSE))
def test_tf32_refuses_wrong_answers(spoil):
    a, b, expected = matmul_case(tf32=True)
    assert compare((SABOTAGE[spoil](a @ b),), expected, "tf32").mismatch is not None


@pytest.mark.parametrize("spoil", sorted(SABOTAGE.keys() - {"through_fp16_mantissa"}))
def test_kernelbench_refuses_wrong_answers(spoil):
    a, b, expected = matmul_case()
    assert compare((SABOTAGE[spoil](a @ b),), expected, "kernelbench").mismatch is not None


def test_a_truncated_inner_dimension_is_refused_by_every_policy():
    for policy in ("strict", "tf32", "kernelbench"):
        a, b, expected = matmul_case(tf32=policy == "tf32")
        assert compare((a[:, :-8] @ b[:-8],), expected, policy).mismatch is not None


def test_tf32_products_pass_under_tf32_only():
    a, b, strict = matmul_case()
    output = (truncated(a) @ truncated(b),)
    assert compare(output, matmul_case(tf32=True)[2], "tf32").mismatch is None
    assert compare(output, strict, "strict").mismatch.code is Code.WRONG_VALUES


@pytest.mark.parametrize("scale", SCALES)
def test_another_order_of_summation_is_accepted(scale):
    a, b, expected = matmul_case(scale)
    reverse = a.flip(1).contiguous() @ b.flip(0).contiguous()
    split = sum(a[:, i::4].contiguous() @ b[i::4].contiguous() for i in range(4))
    one_by_one = torch.zeros(64, 96)
    for k in range(a.shape[1]):
        one_by_one.addcmul_(a[:, k : k + 1], b[k : k + 1])
    for output in (reverse, split, one_by_one):
        assert compare((output,), expected, "strict").mismatch is None


@pytest.mark.parametrize("scale", SCALES)
def test_a_looped_row_sum_is_accepted(scale):
    x = scale * torch.randn(64, 1 << 15)
    lanes = torch.zeros(64, 64)
    for block in x.split(64, dim=1):
        lanes += block
    expected = Expected(native=(x.sum(1),), oracle=(x.double().sum(1),))
    assert compare((lanes.sum(1),), expected, "strict").mismatch is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_allow_one_rounding_and_not_two_percent(dtype):
    x = torch.randn(4096)
    oracle = x.to(dtype).double().tanh()
    expected = Expected(native=(oracle.to(dtype),), oracle=(oracle,))
    assert compare((x.to(dtype).tanh(),), expected, "strict").mismatch is None
    assert compare(((oracle * 1.02).to(dtype),), expected, "strict").mismatch is not None


def test_a_more_accurate_answer_than_the_reference_is_accepted():
    oracle = torch.randn(1000, dtype=torch.float64)
    poor = (oracle * (1 + 1e-4 * torch.randn(1000))).float()
    comparison = compare((oracle.float(),), Expected(native=(poor,), oracle=(oracle,)), "strict")
    assert comparison.mismatch is None
    assert comparison.errors.rms_candidate < comparison.errors.rms_reference


def test_integers_are_exact_and_may_follow_reference_or_oracle():
    native, oracle = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    expected = Expected(native=(native,), oracle=(oracle,))
    assert compare((oracle.clone(),), expected, "strict").mismatch is None
    assert (
        compare((torch.tensor([1, 1, 3]),), expected, "strict").mismatch.code is Code.WRONG_VALUES
    )


STRUCTURE = {
    "another_dtype": lambda y: (y.half(),),
    "another_shape": lambda y: (y[:-1],),
    "transposed_in_memory": lambda y: (y.t().contiguous().t(),),
    "two_outputs": lambda y: (y, y),
    "no_output": lambda y: (y,)[:0],
}


def test_a_true_value_has_the_byte_one():
    mask = torch.tensor([True, False])
    others = torch.tensor([255, 0], dtype=torch.uint8).view(torch.bool)
    assert compare((mask,), exact(mask), "strict").mismatch is None
    assert compare((others,), exact(mask), "strict").mismatch.code is Code.WRONG_VALUES


@pytest.mark.parametrize("change", STRUCTURE.values(), ids=STRUCTURE)
def test_structure_must_be_the_references(change):
    a, b, expected = matmul_case()
    assert compare(change(a @ b), expected, "strict").mismatch.code is Code.WRONG_STRUCTURE


def test_contiguous_is_accepted_where_the_reference_is_a_view():
    x = torch.randn(4, 6)
    expected = Expected(native=(x.t(),), oracle=(x.t().double(),))
    assert compare((x.t().contiguous(),), expected, "strict").mismatch is None
    assert compare((x.t().clone(),), expected, "strict").mismatch is None


def test_nan_and_infinity_must_be_where_the_reference_has_them():
    x = torch.tensor([-1.0, 0.0, 4.0])
    expected = Expected(native=(x.log(),), oracle=(x.double().log(),))  # nan, -inf, 1.39
    assert compare((x.log(),), expected, "strict").mismatch is None
    for wrong in ([0.0, -torch.inf, 1.3862944], [torch.nan, torch.inf, 1.3862944]):
        assert compare((torch.tensor(wrong),), expected, "strict").mismatch.code is Code.NOT_FINITE


def test_a_reference_that_overflows_may_be_matched_or_bettered():
    x = torch.tensor([1.0, 12.0], dtype=torch.float16)
    oracle = x.double().exp()
    native = oracle.half()
    native[1] = torch.inf
    expected = Expected(native=(native,), oracle=(oracle,))
    assert compare((native.clone(),), expected, "strict").mismatch is None
    better = torch.tensor([native[0].item(), 1.6e5]).double()
    near = Expected(native=(native.double(),), oracle=(oracle,))
    assert compare((better,), near, "strict").mismatch is None
    clamped = torch.tensor([native[0].item(), 65504.0], dtype=torch.float16)
    assert compare((clamped,), expected, "strict").mismatch.code is Code.NOT_FINITE


def test_a_reference_that_overflows_may_overflow_otherwise_where_the_oracle_does_not():
    x = torch.tensor([1.0, 12.0], dtype=torch.float16)
    oracle = x.double().exp()
    native = oracle.half()
    native[1] = torch.nan
    other = torch.tensor([native[0].item(), torch.inf], dtype=torch.float16)
    expected = Expected(native=(native,), oracle=(oracle,))
    assert compare((other,), expected, "strict").mismatch is None
    same = Expected(native=(native,), oracle=(native.double(),))
    assert compare((other,), same, "strict").mismatch.code is Code.NOT_FINITE


def test_where_the_reference_overflows_everywhere_anything_will_not_do():
    oracle = torch.tensor([300.0, -500.0], dtype=torch.float64)  # x * x / x, say
    native = torch.tensor([torch.inf, torch.nan], dtype=torch.float16)
    expected = Expected(native=(native,), oracle=(oracle,))
    for good in (native, oracle.half(), torch.tensor([299.0, torch.nan], dtype=torch.float16)):
        assert compare((good,), expected, "strict").mismatch is None
    nan = torch.full_like(native, torch.nan)
    for bad in (torch.zeros_like(native), nan, -oracle.half(), oracle.half() / 2):
        assert compare((bad,), expected, "strict").mismatch.code is Code.NOT_FINITE


def test_what_overflows_is_left_out_and_nothing_else():
    native = torch.tensor([torch.inf, torch.nan, 2.0, 3.0])
    oracle = torch.tensor([torch.inf, -0.5, 2.0, 3.0], dtype=torch.float64)
    expected = Expected(native=(native,), oracle=(oracle,), is_overflow_free=True)
    better = torch.tensor([3e4, 0.5, 2.0, 3.0])
    assert compare((better,), expected, "strict").mismatch is None
    assert compare(
        (better.clone().index_fill_(0, torch.tensor(3), 9.0),), expected, "strict"
    ).mismatch
    bound = replace(expected, is_overflow_free=False)
    assert compare((better,), bound, "strict").mismatch.code is Code.NOT_FINITE


def test_an_all_zero_answer_must_be_zero():
    zero = torch.zeros(8)
    expected = Expected(native=(zero,), oracle=(zero.double(),))
    assert compare((zero.clone(),), expected, "strict").mismatch is None
    assert compare((zero + 1e-9,), expected, "strict").mismatch is not None


def test_an_empty_output_is_right():
    empty = torch.zeros(0, 3)
    expected = Expected(native=(empty,), oracle=(empty.double(),))
    assert compare((empty.clone(),), expected, "strict").mismatch is None


def test_kernelbench_ranks_outputs_by_the_figure_that_decides():
    tiny, small = torch.full((8,), 1e-6), torch.ones(8)
    expected = exact(tiny, small)
    outputs = (2 * tiny, small + 1e-3)
    shares = [
        share_of_allowed(compare((y,), alone, "kernelbench").errors)
        for y, alone in zip(outputs, (exact(tiny), exact(small)), strict=True)
    ]
    assert shares == pytest.approx([0.01, 5.0], rel=0.01)
    both = compare(outputs, expected, "kernelbench")
    assert both.mismatch.message.startswith("output 1")
    assert share_of_allowed(both.errors) == max(shares)


@pytest.mark.parametrize("policy", ["strict", "kernelbench"])
@pytest.mark.parametrize("special", [torch.nan, torch.inf])
def test_where_the_range_is_free_special_values_are_left_out(policy, special):
    expected = replace(exact(torch.ones(8)), is_range_free=True)
    y = torch.ones(8)
    y[3] = special
    assert compare((y,), expected, policy).mismatch is None
    assert compare((y + 0.1,), expected, policy).mismatch.code is Code.WRONG_VALUES


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_an_empty_output_is_right_in_any_layout(shape):
    expanded = torch.empty(1).expand(shape)
    expected = Expected(native=(expanded,), oracle=(expanded.double(),))
    for output in (expanded, torch.empty(shape), torch.empty(shape[::-1]).T):
        assert compare((output,), expected, "strict").mismatch is None


def test_the_worst_of_several_outputs_is_reported():
    x = torch.randn(64)
    expected = Expected(native=(x, x), oracle=(x.double(), x.double()))
    comparison = compare((x, x * 1.5), expected, "strict")
    assert comparison.errors.max_candidate > 0.1
    assert "output 1" in comparison.mismatch.message
    assert worse(None, comparison.errors) == comparison.errors


def test_big_outputs_are_compared_in_full():
    x = torch.zeros((1 << 22) + 3)
    x[0] = 1.0
    expected = Expected(native=(x,), oracle=(x.double(),))
    spoiled = x.clone()
    spoiled[-1] = 1e-3
    assert compare((spoiled,), expected, "strict").mismatch is not None


def test_complex_outputs_are_allowed_to_round():
    oracle = torch.randn(64, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    oracle = torch.view_as_complex(oracle)
    expected = Expected(native=(oracle.to(torch.complex64),), oracle=(oracle,))
    near = (oracle * (1 + 1e-7)).to(torch.complex64)
    assert compare((near,), expected, "strict").mismatch is None
    assert compare((near.conj().resolve_conj(),), expected, "strict").mismatch is not None


def test_the_layout_is_free_but_for_dimensions_that_both_expand():
    rows = torch.randn(4, 3)
    reference = rows.t().expand(5, 3, 4)
    expected = Expected(native=(reference,), oracle=(reference.double(),))
    output = rows.t().contiguous().expand(5, 3, 4)
    assert compare((output,), expected, "strict").mismatch is None
    every_other = torch.randn(3, 8)[:, ::2].copy_(rows.t()).expand(5, 3, 4)
    mismatch = compare((every_other,), expected, "strict").mismatch
    assert mismatch.code is Code.WRONG_STRUCTURE
