"""Counts and draws of skeletons, held against all skeletons of small forms by the definition."""

from math import prod
from random import Random

import pytest
from enumerating import fit

from kernelwright.ops.forms.form import Arrangement, Form, FormSpace, Slot, ValueKind
from kernelwright.ops.forms.registry import forms
from kernelwright.synth.skeletons import counting
from kernelwright.synth.skeletons.calls import places
from kernelwright.synth.skeletons.skeleton import Skeletons
from kernelwright.synth.skeletons.weighted import Weighted
from tools.sampler.every_skeleton import every_skeleton, is_skeleton, shared_inputs

VECTOR, MATRIX = ValueKind(1, "float32"), ValueKind(2, "float32")
SCALAR, HALF, INDEX = ValueKind(0, "float32"), ValueKind(1, "float16"), ValueKind(1, "int64")


def form(op, slots, *results):
    def arrange(choice):
        return Arrangement((), ())

    return Form(op, tuple(slots), results, {}, arrange, lambda *_: ())


def unary(op, kind, *results):
    return form(op, [Slot("input", kind)], *(results or (kind,)))


def binary(op, left, right, *results):
    return form(op, [Slot("input", left), Slot("other", right)], *results)


RELU = unary("relu", VECTOR)
ADD = binary("add", VECTOR, VECTOR, VECTOR)
SUM = unary("sum", MATRIX, VECTOR), unary("sum", VECTOR, SCALAR)
CAST = unary("half", VECTOR, HALF), unary("float", HALF, VECTOR)
LERP = form("lerp", [Slot(name, VECTOR) for name in ("input", "end", "weight")], VECTOR)
MAX = unary("max", VECTOR, VECTOR, INDEX)
TAKE = form("take", [Slot("input", VECTOR), Slot("index", INDEX, reads_inputs=False)], VECTOR)
LINEAR = form("linear", [Slot("input", MATRIX), Slot("weight", MATRIX, False)], MATRIX)
BROADCAST = [
    binary("mul", left, right, max(left, right, key=lambda kind: kind.rank))
    for left in (VECTOR, MATRIX)
    for right in (VECTOR, MATRIX)
]
CAT = [form("cat", [Slot("tensors", VECTOR)] * count, VECTOR) for count in (2, 3)]
MOMENTS = form("moments", [Slot("input", VECTOR)], VECTOR, VECTOR, VECTOR)

SPACES = {
    "chain": ([RELU, *CAST], 1, 4),
    "binary": ([RELU, ADD], 2, 4),
    "narrow": ([ADD, *CAST], 1, 4),
    "wide": ([ADD], 3, 3),
    "broadcast": ([*BROADCAST, *SUM], 3, 3),
    "indices": ([MAX, TAKE], 3, 3),
    "weights of layers": ([LINEAR, *SUM, ADD], 2, 4),
    "ternary": ([LERP, RELU], 3, 2),
    "sequences": ([*CAT, RELU], 2, 3),
    "forms alike": ([RELU, RELU, ADD, ADD], 2, 3),
    "more results than room": ([MOMENTS, ADD], 2, 3),
}
WEIGHTS = {"relu": 3, "add": 2, "mul": 5, "max": 2}


@pytest.mark.slow
@pytest.mark.parametrize(("some", "width", "most"), SPACES.values(), ids=SPACES)
def test_the_count_is_the_sum_of_the_skeletons_weights(some, width, most):
    uniform = Skeletons(some, width=width)
    weighted = Skeletons(some, weights=WEIGHTS, width=width)
    for n in range(1, most + 1):
        found = list(every_skeleton(some, n, width))
        assert uniform.count(n) == len(found) == len(set(found))
        assert weighted.count(n) == sum(weight(skeleton, WEIGHTS) for skeleton in found)


def weight(skeleton, weights):
    return prod(weights.get(call.op, 1) for call in skeleton.calls)


UNEVEN = {
    "binary": ([RELU, ADD], 2, 3),
    "broadcast": ([*BROADCAST, *SUM], 3, 2),
    "indices": ([MAX, TAKE, RELU], 2, 3),
    "ternary": ([LERP, RELU, *CAST], 3, 2),
}
"""Small enough for every skeleton to be drawn."""


def p_value(some, width, n, weights):
    """That samples come from the weights of the skeletons, by a chi-square test; and how many
    skeletons were never drawn."""
    found = {made: weight(made, weights) for made in every_skeleton(some, n, width)}
    skeletons = Skeletons(some, weights=weights, width=width)
    rng = Random(7)
    draws = [skeletons.sample(n, rng) for _ in range(30 * len(found))]
    return fit(draws, found), len(found) - len(set(draws))


@pytest.mark.parametrize("weights", [{}, WEIGHTS], ids=["uniform", "weighted"])
@pytest.mark.parametrize(("some", "width", "n"), UNEVEN.values(), ids=UNEVEN)
def test_samples_are_drawn_by_weight_and_reach_everything(some, width, n, weights):
    p, never = p_value(some, width, n, weights)
    assert p > 1e-3
    assert never == 0


@pytest.mark.parametrize(("some", "width", "n"), UNEVEN.values(), ids=UNEVEN)
def test_a_sampler_that_is_uniform_at_every_step_is_found_out(some, width, n, monkeypatch):
    def flat(items, weights):
        return Weighted(items, [min(weight, 1) for weight in weights])

    monkeypatch.setattr(counting, "Weighted", flat)
    p, _ = p_value(some, width, n, {})
    assert p < 1e-6


# All forms of the operators, in a space that is quick to count


@pytest.fixture(scope="module")
def real():
    return forms(FormSpace(max_rank=2, floats=("float32", "float16")))


@pytest.fixture(scope="module")
def skeletons(real):
    return Skeletons(real)


@pytest.fixture(scope="module")
def samples(skeletons):
    rng = Random(3)
    return [skeletons.sample(n, rng) for n in (1, 2, 5, 20) for _ in range(50)]


def test_skeletons_of_all_operators_fit_the_definition(samples):
    assert all(is_skeleton(skeleton.calls, width=3) for skeleton in samples)


def test_values_are_numbered_as_they_come_up(samples):
    for skeleton in samples:
        made = [v for call in skeleton.calls for v in (*shared_inputs(call), *call.results)]
        assert made == list(range(len(made)))


def test_a_slot_reads_values_of_its_kind(samples):
    for skeleton in samples:
        kind_of = dict(skeleton.shared)
        for call in skeleton.calls:
            kind_of.update(zip(call.results, call.pattern.results, strict=True))
            assert {r.place: r.kind for r in call.pattern.reads} == {
                place: kind_of[value] for place, value in call.reads.items()
            }


def test_the_forms_of_a_call_are_those_that_fit(real, skeletons, samples):
    by_results = {}
    for made in real:
        by_results.setdefault((made.op, made.results), []).append(made)
    for call in samples[-1].calls + samples[0].calls:
        candidates = by_results[call.op, call.pattern.results]
        fitting = [made for made in candidates if fits(made, call.pattern.reads)]
        assert len(fitting) > 0
        assert {fit.form for fit in skeletons.fits(call)} == set(fitting)


def fits(made, reads):
    slots = dict(zip(places(made), made.slots, strict=True))
    read = {r.place for r in reads}
    return (
        read <= slots.keys()
        and all(slots[r.place].kind == r.kind and slots[r.place].reads_results for r in reads)
        and all(slots[r.place].reads_inputs for r in reads if r.is_new)
        and all(slot.reads_inputs for place, slot in slots.items() if place not in read)
    )


def test_the_same_seed_gives_the_same_skeleton(real, skeletons):
    again = Skeletons(real)
    assert skeletons.sample(5, Random(11)) == again.sample(5, Random(11))
    assert skeletons.sample(5, Random(11)) != skeletons.sample(5, Random(12))


def test_an_operator_of_weight_0_does_not_occur(real):
    without = Skeletons(real, weights={"addcmul": 0, "addcdiv": 0, "lerp": 0})
    rng = Random(5)
    drawn = {call.op for _ in range(50) for call in without.sample(5, rng).calls}
    assert not drawn & {"addcmul", "addcdiv", "lerp"}
    assert "matmul" in drawn


def test_no_skeleton_of_that_length_is_an_error():
    lonely = Skeletons([unary("double", VECTOR, HALF)])
    assert lonely.count(1) == 1
    assert lonely.count(2) == 0
    with pytest.raises(ValueError, match="no skeleton has 2 calls"):
        lonely.sample(2, Random(0))
