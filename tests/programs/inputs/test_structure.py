"""Properties that inputs have by construction survive every change of their values."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.programs.draws.families import FAMILIES, apply
from kernelwright.programs.draws.structure import Structure, are_kept, structures

FINITE = [family for family in FAMILIES if family != "special"]
FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def integers(high, *shape, seed=0):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def structure_of(make):
    """The structure of two draws of one tensor."""
    return structures([make(1)], [make(2)])[0]


def is_sorted(x):
    return bool((x[..., 1:] >= x[..., :-1]).all())


MAKES = {
    "lower": lambda s: normal(6, 6, seed=s).tril(),
    "upper": lambda s: normal(2, 6, 6, seed=s).triu(),
    "symmetric": lambda s: normal(6, 6, seed=s) + normal(6, 6, seed=s).T,
    "sorted": lambda s: normal(3, 8, seed=s).sort().values,
    "unit sums": lambda s: normal(4, 8, seed=s).softmax(-1),
    "zeros": lambda s: normal(4, 8, seed=s) * (torch.arange(8) % 3 > 0),
}
HOLDS = {
    "lower": lambda x: torch.equal(x, x.tril()),
    "upper": lambda x: torch.equal(x, x.triu()),
    "symmetric": lambda x: torch.equal(x, x.mT),
    "sorted": is_sorted,
    "unit sums": lambda x: bool(((x.double().sum(-1) - 1).abs() < 0.02).all() and (x >= 0).all()),
    "zeros": lambda x: not bool(x[:, ::3].any()),
}


@given(
    kind=st.sampled_from(list(MAKES)),
    family=st.sampled_from(FINITE),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 100),
)
def test_a_property_survives_every_family_in_every_type(kind, family, dtype, seed):
    one, other = (MAKES[kind](n).to(dtype) for n in (seed, seed + 1000))
    kept = structures([one], [other])
    (changed,) = apply(family, [one], seed, kept)
    assert HOLDS[kind](changed), changed
    assert (changed.dtype, changed.stride()) == (one.dtype, one.stride())


@pytest.mark.parametrize("kind", MAKES)
def test_without_its_structure_some_family_destroys_a_property(kind):
    one = MAKES[kind](1)
    assert not all(HOLDS[kind](apply(family, [one], 1)[0]) for family in FINITE)


@pytest.mark.parametrize("family", [f for f in FINITE if f not in ("plain", "last_tile")])
def test_a_property_does_not_keep_values_from_changing(family):
    for kind in ("lower", "symmetric", "zeros"):
        one, other = (MAKES[kind](n) for n in (1, 2))
        (changed,) = apply(family, [one], 1, structures([one], [other]))
        assert not torch.equal(changed, one), kind


def test_special_probabilities_stay_probabilities():
    one, other = (MAKES["unit sums"](n) for n in (1, 2))
    (changed,) = apply("special", [one], 1, structures([one], [other]))
    assert HOLDS["unit sums"](changed)


def test_rows_of_nothing_become_even_probabilities():
    restored = Structure(has_unit_sums=True).restored(torch.zeros(2, 4))
    assert torch.equal(restored, torch.full((2, 4), 0.25))


FIXED = {
    "a mask of zeros and ones": lambda s: (normal(5, 5, seed=s) > 0).float(),
    "an additive mask": lambda s: torch.where(normal(5, 5, seed=s) > 0, 0.0, -torch.inf),
    "a permutation": lambda s: torch.randperm(9, generator=torch.Generator().manual_seed(s)),
    "permutations from one": lambda s: normal(3, 7, seed=s).argsort() + 1,
    "integers that choose one": lambda s: torch.nn.functional.one_hot(integers(5, 4, seed=s), 5),
}


@pytest.mark.parametrize("make", FIXED.values(), ids=FIXED)
def test_masks_choices_and_permutations_are_fixed(make):
    assert structure_of(make).is_fixed


def test_offsets_keep_their_ends():
    def offsets(seed):
        inner = integers(90, 6, seed=seed).sort().values
        return torch.cat([torch.zeros(1).long(), inner, torch.tensor([90])])

    kept = structure_of(offsets)
    assert kept.is_sorted
    assert kept.ends == (0, 90)
    mixed = torch.tensor([7, 3, 95, -2, 50, 60, 80, 20])
    restored = kept.restored(mixed)
    assert is_sorted(restored)
    assert (int(restored[0]), int(restored[-1])) == (0, 90)
    assert torch.equal(mixed, torch.tensor([7, 3, 95, -2, 50, 60, 80, 20]))


def test_sorted_integers_with_other_ends_have_no_ends():
    kept = structure_of(lambda s: integers(1000, 8, seed=s).sort().values)
    assert kept.is_sorted
    assert kept.ends is None


NOTHING = {
    "normal numbers": lambda s: normal(6, 6, seed=s),
    "integers": lambda s: integers(50, 20, seed=s),
    "booleans": lambda s: normal(6, seed=s) > 0,
    "complex numbers": lambda s: torch.complex(normal(6, seed=s), normal(6, seed=s)),
    "nothing": lambda _: torch.zeros(0),
    "a number": lambda s: 3.0 * s,
    "one sorted pair": lambda s: normal(2, seed=s).sort().values,
    "zeros in one draw": lambda s: normal(6, seed=s) * (s - 1),
    "a row of two sizes": lambda s: normal(s, seed=s),
    "a diagonal that draws": lambda s: integers(9, 5, 5, seed=s) + 1,
}


@pytest.mark.parametrize("make", NOTHING.values(), ids=NOTHING)
def test_what_draws_do_not_share_is_no_structure(make):
    assert structure_of(make) is None


def test_draws_that_are_symmetric_by_chance_once_are_free():
    one, other = MAKES["symmetric"](1), normal(6, 6, seed=2)
    assert structures([one], [other]) == [None]


def test_zeros_are_those_of_both_draws():
    one = torch.tensor([0.0, 1, 0, 1, 2])
    other = torch.tensor([0.0, 0, 3, 1, 2])
    kept = structures([one], [other])[0]
    assert kept.zeros.tolist() == [True, False, False, False, False]


@given(size=st.integers(3, 8), new=st.integers(2, 12), kind=st.sampled_from(["lower", "upper"]))
def test_a_triangle_is_one_at_another_size_too(size, new, kind):
    kept = Structure(is_lower=kind == "lower", is_upper=kind == "upper")
    assert HOLDS[kind](kept.resized(normal(new, new), size, new))


@given(new=st.integers(2, 12))
def test_a_symmetric_matrix_is_one_at_another_size_too(new):
    assert HOLDS["symmetric"](Structure(is_symmetric=True).resized(normal(new, new), 6, new))


@pytest.mark.parametrize(("size", "new", "last"), [(90, 50, 50), (90, 120, 120), (40, 50, 90)])
def test_offsets_into_a_dimension_follow_its_size(size, new, last):
    kept = Structure(is_sorted=True, ends=(0, 90))
    resized = kept.resized(torch.tensor([0, 20, 70, 90]), size, new)
    assert int(resized[-1]) == last
    assert is_sorted(resized)


def test_a_property_that_a_size_destroys_is_noticed():
    before = structures([MAKES["lower"](1)], [MAKES["lower"](2)])
    good = [normal(4, 4, seed=n).tril() for n in (1, 2)]
    bad = [normal(4, 4, seed=n) for n in (1, 2)]
    assert are_kept(before, good[:1], good[1:], 6)
    assert not are_kept(before, bad[:1], bad[1:], 6)
    assert are_kept([None], bad[:1], bad[1:], 6)


def test_a_pattern_of_zeros_is_known_at_its_own_size_alone():
    pair = [MAKES["zeros"](1)], [MAKES["zeros"](2)]
    before = structures(*pair)
    assert not are_kept(before, *pair, 8)
    assert are_kept(before, *pair, 5)
