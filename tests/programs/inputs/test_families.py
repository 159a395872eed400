"""What each input family is good for, and what it leaves as it was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.programs.draws.families import FAMILIES, apply, changed
from kernelwright.programs.draws.structure import Structure

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
GROWING = [name for name in FAMILIES if name not in ("special", "plain")]


def drawn(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def in_family(family, x, seed=1):
    return changed(family, x, torch.Generator().manual_seed(seed))


@given(
    family=st.sampled_from(list(FAMILIES)),
    dtype=st.sampled_from(FLOATS),
    shape=st.lists(st.integers(0, 9), min_size=0, max_size=4).map(tuple),
    order=st.randoms(use_true_random=False),
    step=st.integers(1, 2),
)
def test_dtype_shape_and_strides_stay_and_the_given_tensor_is_not_written(
    family, dtype, shape, order, step
):
    dims = list(range(len(shape)))
    order.shuffle(dims)
    x = drawn(*shape, dtype=dtype).permute(dims)
    x = x[..., ::step] if x.ndim else x
    before = x.clone()
    y = in_family(family, x)
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    is_dense = x.numel() == x.untyped_storage().nbytes() // x.element_size()
    assert y.stride() == (x.stride() if is_dense or y is x else torch.empty_like(x).stride())
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("family", GROWING)
def test_every_type_holds_what_a_family_makes_of_normal_numbers(family, dtype):
    y = in_family(family, drawn(64, 64, dtype=dtype))
    assert bool(y.isfinite().all())
    assert int(y.unique().numel()) > 3


@given(
    family=st.sampled_from([f for f in FAMILIES if f != "plain"]),
    seed=st.integers(0, 1000),
    dtype=st.sampled_from(FLOATS),
)
def test_a_seed_decides_what_is_made(family, seed, dtype):
    x = drawn(16, 16, dtype=dtype, seed=seed)
    one, again = in_family(family, x, seed), in_family(family, x, seed)
    assert torch.equal(one.nan_to_num(), again.nan_to_num())
    assert not torch.equal(one.nan_to_num(7), x)


@pytest.mark.parametrize(("family", "factor"), [("scaled", 10), ("negated", -1)])
def test_values_are_multiplied(family, factor):
    x = drawn(5, 7)
    assert torch.equal(in_family(family, x), factor * x)


@pytest.mark.parametrize(
    ("dtype", "distance"), [(torch.float32, 1000), (torch.float16, 50), (torch.bfloat16, 20)]
)
def test_far_values_have_a_mean_that_is_large_against_a_spread_that_still_shows(dtype, distance):
    y = in_family("far", drawn(100, 100, dtype=dtype)).double()
    assert float(y.mean()) == pytest.approx(distance, rel=0.01)
    assert 0.8 < float(y.std()) < 1.3


@pytest.mark.parametrize("num", [1, 3, 200, 10_000])
def test_some_spikes_stand_out_and_the_last_value_is_one(num):
    y = in_family("spikes", drawn(num)).abs()
    assert bool(y[-1] >= 100)
    is_spike = y >= 100
    assert bool((y[~is_spike] < 1).all())
    assert num < 100 or 1 <= int(is_spike.sum()) < num / 8


def test_heavy_tails_spread_over_orders_of_magnitude_and_keep_signs():
    x = drawn(100, 100)
    ratio = in_family("heavy_tail", x) / x
    assert bool((ratio > 0).all())
    assert float(ratio.max() / ratio.min()) > 100
    assert float(ratio.max()) <= 20.1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_thresholds_lie_close_to_where_activations_change(dtype):
    x = drawn(50, 50, dtype=dtype)
    y = in_family("thresholds", x)
    points = torch.tensor([0.0, 0.5, 1.0, 3.0, 6.0], dtype=torch.float64)
    distances = (y.double().abs()[..., None] - points).abs()
    assert bool((distances.min(-1).values < 0.07).all())
    near = distances.argmin(-1)
    assert set(near.unique().tolist()) == {0, 1, 2, 3, 4}
    signs = y.sign() * x.sign()
    assert bool((signs[near > 0] >= 0).all())


def test_the_energy_of_a_last_tile_is_at_the_end_of_the_first_and_last_dimension():
    x = torch.ones(32, 3, 48)
    y = in_family("last_tile", x)
    assert bool((y[30:] == 10).all())
    assert bool((y[..., 45:] == 10).all())
    assert torch.equal(y[:30, :, :45], torch.full((30, 3, 45), 0.01))


def test_most_rounded_values_are_multiples_of_a_half_and_the_others_of_a_finer_step():
    y = in_family("rounded", drawn(50, 50))
    assert torch.equal(32 * y, (32 * y).round())
    assert 0.7 < (2 * y == (2 * y).round()).float().mean() < 0.9
    assert bool((y == 0).any())


def test_flat_rows_hold_zero_rows_constant_rows_and_zero_columns():
    y = in_family("flat_rows", drawn(12, 20))
    assert not bool(y[::4].any())
    assert bool((y[1::4] == 0.5).all())
    rest = y[2::4]
    assert not bool(rest[:, ::5].any())
    zeros = float((rest[:, 1::5] == 0).float().mean())
    assert 0 < zeros < 1
    samples = in_family("flat_rows", drawn(4, 5, 10))
    assert not bool(samples[0].any())
    assert bool((samples[1] == 2).all())


@pytest.mark.parametrize(
    ("family", "dtype", "factor"),
    [
        ("tiny", torch.float32, 1e-6),
        ("tiny", torch.bfloat16, 1e-6),
        ("tiny", torch.float16, 1e-3),
        ("large", torch.float32, 1e5),
        ("large", torch.bfloat16, 1e5),
        ("large", torch.float16, 300),
    ],
)
def test_tiny_and_large_values_keep_their_digits(family, dtype, factor):
    x = drawn(1000, dtype=dtype)
    ratio = in_family(family, x).double() / x.double()
    assert bool(((ratio / factor - 1).abs() < 2**-7).double().mean() > 0.95)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_largest_extreme_value_is_a_quarter_of_the_types_largest(dtype):
    y = in_family("extreme", drawn(1000, dtype=dtype))
    assert float(y.abs().max()) == pytest.approx(torch.finfo(dtype).max / 4, rel=0.01)


@given(dtype=st.sampled_from(FLOATS))
def test_extreme_values_of_zeros_are_zeros(dtype):
    assert not bool(in_family("extreme", torch.zeros(5, dtype=dtype)).any())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_few_special_values_are_infinite_of_both_signs_or_nan_and_the_rest_stay(dtype):
    x = drawn(100, 100, dtype=dtype)
    y = in_family("special", x)
    assert bool(y.view(-1)[-1] == torch.inf)
    for is_value in (y == torch.inf, y == -torch.inf, y.isnan()):
        assert 10 < int(is_value.sum()) < 150
    assert torch.equal(y[y.isfinite()], x[y.isfinite()])


def test_small_inputs_have_each_special_value_too():
    y = in_family("special", drawn(8))
    assert {str(value) for value in y[~y.isfinite()].tolist()} == {"inf", "-inf", "nan"}


@pytest.mark.parametrize("family", FAMILIES)
def test_complex_numbers_change_like_pairs_but_for_their_size(family):
    x = torch.view_as_complex(drawn(12, 20, 2))
    y = in_family(family, x)
    assert y.is_complex()
    assert y.stride() == x.stride()
    assert torch.equal(y, x) == (family in ("plain", "extreme", "special"))


def test_an_unknown_family_is_an_error():
    with pytest.raises(KeyError):
        in_family("unheard of", drawn(3))


def test_containers_integers_and_plain_values_stay():
    inputs = [{"a": drawn(4, 4)}, (torch.arange(4), 3, None), torch.tensor([True, False])]
    (found, rest, mask) = apply("scaled", inputs, seed=1)
    assert torch.equal(found["a"], 10 * inputs[0]["a"])
    assert torch.equal(rest[0], torch.arange(4))
    assert rest[1:] == (3, None)
    assert torch.equal(mask, inputs[2])


def test_two_inputs_do_not_get_the_same_change():
    one, other = apply("heavy_tail", [torch.ones(50), torch.ones(50)], seed=1)
    assert not torch.equal(one, other)


def test_what_is_fixed_stays_and_other_structures_are_restored():
    mask, lower = torch.ones(3, 3).tril(), drawn(3, 3).tril()
    kept = [Structure(is_fixed=True), Structure(zeros=lower == 0), None]
    same, triangle, free = apply("shifted", [mask, lower, lower], 1, kept)
    assert same is mask
    assert torch.equal(triangle, (lower + 5).tril())
    assert torch.equal(free, lower + 5)
