"""Variants of a task: other sizes, constants, integers, arguments and weights."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kernelwright.core.verdict import Contract, Precision
from kernelwright.sandbox.shared.contract import StateEntry
from kernelwright.sandbox.shared.tensors import TensorMeta
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks import alike, weights
from kernelwright.verify.tasks import variation as module
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.resized import resized, sizes_of
from kernelwright.verify.tasks.task import CPU, FunctionTask
from kernelwright.verify.tasks.variation import other_weights, variations
from kernelwright.verify.tasks.weights import (
    SMALL,
    SMALL_DRAWS,
    move_part_of_weights,
    move_weights,
    num_draws,
    permute_weights,
    redraw_constants,
    redraw_weights,
)
from kernelwright.verify.tasks.weights_match import matched

RULES = Rules(CPU, Precision.STRICT, "pure")


def task_of(function, *makes):
    return FunctionTask(name="t", get_inputs=lambda: [m() for m in makes], function=function)


def variants_of(task, start="", rules=RULES):
    return [v for v in variations(task, rules, 3) if v.name.startswith(start)]


def inputs_of(variation, seed=1):
    return variation.task.inputs(seed, "plain", CPU)


def test_every_input_of_one_size_gets_the_new_one():
    ways = variants_of(
        task_of(torch.add, lambda: torch.randn(4, 6), lambda: torch.randn(6)), "size"
    )
    assert ways
    assert all(way.is_foreign for way in ways)
    for way in ways:
        x, y = inputs_of(way)
        assert x.shape[1] == y.shape[0]
        assert x.shape != (4, 6)


def test_a_size_that_the_reference_spells_out_stays():
    table = torch.randn(6)
    ways = variants_of(task_of(lambda x: x * table, lambda: torch.randn(4, 6)), "size")
    assert ways
    assert {inputs_of(way)[0].shape[1] for way in ways} == {6}


def test_larger_sizes_are_beyond_the_next_power_of_two():
    sizes = {
        inputs_of(w)[0].shape[0] for w in variants_of(task_of(torch.relu, lambda: torch.randn(6)))
    }
    assert any(size > 8 for size in sizes)
    assert any(size < 6 for size in sizes)


def test_constants_of_every_draw_vary_and_what_is_drawn_does_not():
    mask = torch.tensor([True, False] * 8)
    task = task_of(lambda x, m, k: x * m * k, lambda: torch.randn(16), lambda: mask, lambda: 2.5)
    ways = variants_of(task, "other constants")
    assert ways
    x, *others = zip(inputs_of(ways[0]), task.draw(1, CPU), strict=True)
    assert torch.equal(*x)
    assert any(not torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in others)


def test_another_number_is_not_the_tasks_own_and_another_mask_is():
    mask = torch.tensor([True, False] * 8)
    numbers = variants_of(
        task_of(torch.mul, lambda: torch.randn(16), lambda: 2.5), "other constants"
    )
    masks = variants_of(
        task_of(torch.mul, lambda: torch.randn(16), lambda: mask), "other constants"
    )
    assert {way.is_foreign for way in numbers} == {True}
    assert {way.is_foreign for way in masks} == {False}


def test_masks_change_without_the_numbers_beside_them_which_a_candidate_may_refuse():
    mask = torch.tensor([True, False] * 8)
    task = task_of(lambda x, m, k: x * m * k, lambda: torch.randn(16), lambda: mask, lambda: 2.5)
    for way in variants_of(task, "other constants"):
        (_, m, k), is_foreign = inputs_of(way), way.is_foreign
        assert (torch.equal(m, mask), k == 2.5) == (is_foreign, not is_foreign)


def test_masks_get_empty_and_full_rows_where_the_reference_is_defined_there():
    def mean(x, m):
        return (x * m).sum(-1) / m.sum(-1).clamp(min=1)

    makes = (lambda: torch.randn(6, 16), lambda: torch.rand(6, 16) < 0.5)
    (way,) = variants_of(task_of(mean, *makes), "empty and full rows")
    counts = inputs_of(way)[1].sum(-1)
    assert {0, 16} <= set(counts.tolist())
    assert not variants_of(
        task_of(lambda x, m: (x * m).sum(-1) / m.sum(-1), *makes), "empty and full"
    )


def test_bytes_are_as_large_as_their_type_holds():
    task = task_of(lambda n: n * 2.0, lambda: torch.randint(0, 50, (64,), dtype=torch.uint8))
    assert variants_of(task, "255 ")


def test_ignored_labels_of_the_tasks_own_are_tried():
    task = replace(
        task_of(lambda n: (n != 77) * 2.0, lambda: torch.randint(0, 50, (64,))),
        text="loss(x, n, ignore_index=77)",
    )
    assert module._literals(task.text) == [77]


def test_one_of_two_equal_dimensions_changes_alone():
    ways = variants_of(task_of(torch.relu, lambda: torch.randn(6, 6)), "size")
    assert any(len(set(inputs_of(way)[0].shape)) == 2 for way in ways)


@pytest.mark.parametrize("contract", Contract)
def test_a_size_that_two_inputs_share_changes_in_one_of_them_for_a_drop_in(contract):
    task = task_of(lambda x, y: x.sum(-1) + y.sum(-1), *[lambda: torch.randn(2, 6)] * 2)
    rules = Rules(CPU, Precision.STRICT, "pure", contract)
    widths = [{x.shape[1] for x in inputs_of(way)} for way in variants_of(task, "size", rules)]
    assert any(len(sizes) == 2 for sizes in widths) == (contract is Contract.DROP_IN)
    assert any(len(sizes) == 1 and sizes != {6} for sizes in widths)


@pytest.mark.parametrize("contract", Contract)
def test_a_shared_size_changes_alone_where_it_cannot_change_everywhere(contract):
    table = torch.randn(6)
    task = task_of(lambda x, y: x * table + y.sum(), *[lambda: torch.randn(2, 6)] * 2)
    rules = Rules(CPU, Precision.STRICT, "pure", contract)
    pairs = [inputs_of(way) for way in variants_of(task, "size", rules)]
    assert any(x.shape[1] == 6 and y.shape[1] != 6 for x, y in pairs)


def test_symmetric_inputs_stay_square():
    def symmetric():
        x = torch.randn(6, 6)
        return x + x.T

    ways = variants_of(task_of(torch.relu, symmetric), "size")
    assert ways
    assert all(len(set(inputs_of(way)[0].shape)) == 1 for way in ways)


def test_a_single_sample_becomes_several():
    ways = variants_of(task_of(torch.relu, lambda: torch.randn(1, 6)), "size 3 in place of 1")
    assert [tuple(inputs_of(way)[0].shape) for way in ways] == [(3, 6)]


def test_integers_of_32_bits_come_with_the_largest_of_their_type():
    task = task_of(lambda n: n.sum(-1), lambda: torch.randint(0, 50, (4, 16), dtype=torch.int32))
    (largest,) = variants_of(task, f"{2**31 - 1} in input 0")
    assert not variants_of(task, str(module.BEYOND))
    assert bool((inputs_of(largest)[0] == 2**31 - 1).any())


def test_unusual_integers_come_where_the_reference_takes_them():
    task = task_of(lambda n: n * 2.0, lambda: torch.randint(0, 50, (64,)))
    names = {way.name.split(" in ")[0] for way in variants_of(task) if " in input" in way.name}
    assert {str(n) for n in module.UNUSUAL} <= names
    assert names > {str(n) for n in module.UNUSUAL}  # also numbers beyond the largest
    assert len(names) <= module.MAX_ACCEPTED["integers"]
    for way in variants_of(task, "-100"):
        assert bool((inputs_of(way)[0] == -100).any())


def test_masks_of_integers_get_empty_and_full_rows_and_a_single_choice_a_row_stays():
    def mask():
        return torch.randint(0, 2, (9, 16))

    task = task_of(lambda m: (m * torch.arange(16.0)).sum(-1), mask)
    (variant,) = variants_of(task, "empty and full rows")
    sums = inputs_of(variant)[0].sum(-1)
    assert sums[::3].unique().tolist() == [0]
    assert sums[1::3].unique().tolist() == [16]

    def choice():
        return nn.functional.one_hot(torch.randint(0, 16, (9,)), 16)

    assert not variants_of(task_of(lambda m: m * 2.0, choice), "empty and full rows")


def test_inputs_of_integers_take_turns():
    task = task_of(lambda n, m: n * 2.0 + m, *[lambda: torch.randint(0, 50, (64,))] * 2)
    inputs = [way.name[-1] for way in variants_of(task) if " in input" in way.name]
    assert inputs[:4] == ["0", "1", "0", "1"]


def test_defaults_of_the_constructor_vary():
    class Powered(nn.Module):
        def __init__(self, scale, power=2.0):
            super().__init__()
            self.scale, self.power = scale, power

        def forward(self, x):
            return self.scale * x.abs() ** self.power

    task = ModuleTask(
        name="t",
        get_inputs=lambda: [torch.randn(4)],
        build=lambda: Powered(1.5),
        text="",
        get_arguments=lambda: ([1.5], {}),
        build_with=lambda args, kwargs: Powered(*args, **kwargs),
    )
    arguments = [way.task.arguments for way in variants_of(task, "argument")]
    assert ([1.5], {"power": pytest.approx(3.5)}) in arguments


def test_a_batch_becomes_a_single_sample_under_drop_in():
    task = task_of(torch.relu, lambda: torch.randn(5, 6))
    drop_in = Rules(CPU, Precision.STRICT, "pure", Contract.DROP_IN)
    assert not variants_of(task, "size 1 in place of 5")
    ways = variants_of(task, "size 1 in place of 5", drop_in)
    assert [tuple(inputs_of(way)[0].shape) for way in ways] == [(1, 6)]


def test_negative_positions_are_tried_under_drop_in_alone():
    table = torch.randn(50)
    task = task_of(lambda n: table[n], lambda: torch.randint(0, 50, (64,)))
    assert not variants_of(task, "-1 ")
    drop_in = Rules(CPU, Precision.STRICT, "pure", Contract.DROP_IN)
    assert variants_of(task, "-1 ", drop_in)
    assert not variants_of(task, "2147483653", drop_in), "beyond the table"


def test_nothing_varies_of_a_reference_that_draws_or_is_too_large(monkeypatch):
    assert variants_of(task_of(lambda x: x + torch.rand_like(x), lambda: torch.randn(6))) == []
    monkeypatch.setattr(module, "MAX_ELEMENTS", dict.fromkeys(module.MAX_ELEMENTS, 5))
    assert variants_of(task_of(torch.relu, lambda: torch.randn(6))) == []


class Sloped(nn.Module):
    def __init__(self, slope, *, is_on=True):
        super().__init__()
        self.slope, self.is_on = slope, is_on

    def forward(self, x):
        return nn.functional.leaky_relu(x, self.slope) if self.is_on else x


def test_numbers_and_flags_of_the_constructor_vary_one_at_a_time():
    task = ModuleTask(
        name="t",
        get_inputs=lambda: [torch.randn(4)],
        build=lambda: Sloped(0.1),
        text="",
        get_arguments=lambda: ([0.1], {"is_on": True}),
        build_with=lambda args, kwargs: Sloped(*args, **kwargs),
    )
    ways = variants_of(task, "argument")
    assert [way.task.arguments for way in ways] == [
        ([pytest.approx(0.27)], {"is_on": True}),
        ([0.1], {"is_on": False}),
        ([pytest.approx(1.6)], {"is_on": True}),
    ]
    assert all(way.is_foreign for way in ways)


# -- sizes of tensors


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    size=st.integers(2, 6),
    new=st.integers(1, 12),
)
def test_dimensions_of_a_size_change_and_values_are_old_ones(shape, size, new):
    x = torch.randn(shape)
    y = resized(x, size, new, torch.Generator().manual_seed(1))
    assert list(y.shape) == [new if n == size else n for n in shape]
    assert set(y.flatten().tolist()) <= set(x.flatten().tolist())


@given(new=st.integers(2, 30))
def test_what_is_sorted_stays_sorted_at_other_sizes(new):
    y = resized(torch.arange(8), 8, new, torch.Generator().manual_seed(new))
    assert y.tolist() == sorted(y.tolist())


def test_single_elements_are_no_size():
    assert sizes_of([torch.zeros(1, 3), 7, torch.zeros(3, 5)]) == {3, 5}


# -- weights


def test_constants_move_a_little_and_zeros_off_zero():
    norm = nn.BatchNorm1d(16)
    redraw_constants(norm, 1)
    assert bool(((norm.weight - 1).abs() <= 0.1001).all())
    assert bool((norm.bias.abs() <= 0.1001).all())
    assert int(norm.bias.unique().numel()) > 8


@given(seed=st.integers(0, 200))
def test_moved_weights_stay_within_a_tenth(seed):
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    ratio = move_weights(layer, seed).weight.detach() / before
    assert bool(((ratio - 1).abs() <= 0.1001).all())
    assert not torch.equal(ratio, torch.ones_like(ratio))


@given(seed=st.integers(0, 200))
def test_redrawn_weights_have_no_zeros_and_variances_keep_their_sign(seed):
    norm = redraw_weights(nn.BatchNorm1d(8), seed)
    assert bool((norm.running_var > 0).all())
    assert bool((norm.bias != 0).all())
    assert bool((norm.running_mean != 0).all())


def test_redrawn_weights_change_signs_unless_they_are_to_stay():
    def signs(**options):
        layer = nn.Linear(20, 20)
        nn.init.constant_(layer.weight, 0.5)
        return set(redraw_weights(layer, 1, **options).weight.sign().flatten().tolist())

    assert signs() == {-1.0, 1.0}
    assert signs(keeps_signs=True) == {1.0}


@pytest.fixture
def few_are_large(monkeypatch):
    """Tensors of a few elements are drawn for as gigabytes are: on their own device, in parts."""
    monkeypatch.setattr(alike, "LARGE", 4)
    monkeypatch.setattr(weights, "LARGE", 4)
    monkeypatch.setattr(weights, "PART", 8)


@pytest.mark.parametrize("change", [move_weights, redraw_weights, move_part_of_weights])
def test_large_weights_change_everywhere_and_alike_for_a_seed(change, few_are_large):
    layers = [nn.Linear(7, 9), nn.Linear(7, 9), nn.Linear(7, 9)]
    for layer in layers:
        nn.init.constant_(layer.weight, 0.5)
    more = (0,) if change is move_part_of_weights else ()  # the number of the parameter
    for layer, seed in zip(layers, (1, 1, 2), strict=True):
        change(layer, seed, *more)
    one, same, other = (layer.weight.detach() for layer in layers)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    rows = [tuple(row.tolist()) for row in one]
    assert len(set(rows)) == len(rows), "each part has numbers of its own"
    assert bool((one.abs() >= 0.24).all())
    assert bool((one.abs() <= 1.01).all())


def test_redrawn_vectors_of_extreme_values_stay_finite_and_matter():
    for value in (-1e30, 1e30, 1e-30, 0.0):
        module_ = nn.Module()
        module_.bias = nn.Parameter(torch.full((64,), value))
        sizes = redraw_weights(module_, 1).bias.detach().double().abs()
        assert bool(sizes.isfinite().all())
        # Small ones get the scale 0.3, of which zeros get a tenth.
        assert float(sizes.mean()) > (0.01 if value == 0 else 0.1)


def test_large_redrawn_weights_have_another_order(few_are_large):
    layer = nn.Linear(5, 11, bias=False)
    before = torch.arange(1.0, 56.0).view(11, 5)
    layer.weight.data.copy_(before)
    after = redraw_weights(layer, 1, keeps_signs=True).weight.detach()
    ratio = after / before
    assert not bool(((ratio >= 0.5) & (ratio <= 2.0)).all()), "the values are where they were"


def test_vectors_follow_the_scale_and_matrices_do_not():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    state = layer.state_dict()
    one, other = nn.Linear(4, 4), nn.Linear(4, 4)
    for module_ in (one, other):
        module_.load_state_dict(state)
    redraw_weights(one, 1)
    redraw_weights(other, 1, scale=3.0)
    assert torch.equal(one.weight, other.weight)
    assert torch.allclose(3 * one.bias, other.bias)


def test_tables_move_and_stay_sorted_with_their_zeros_and_infinities():
    module_ = nn.Module()
    module_.register_buffer("edges", torch.tensor([0.0, 1, 2, 3, torch.inf]))
    module_.register_buffer("mask", torch.tensor([0.0, 1, 0]))
    redraw_weights(module_, 1)
    assert module_.edges[0] == 0
    assert module_.edges[-1] == torch.inf
    assert bool((module_.edges[1:] >= module_.edges[:-1]).all())
    assert module_.edges[1:4].tolist() != [1, 2, 3]
    assert module_.mask.tolist() == [0, 1, 0]


def test_small_parameters_are_drawn_more_often():
    assert num_draws(nn.Linear(100, 100, bias=False)) == 1
    assert num_draws(nn.Linear(100, 4)) == SMALL_DRAWS


def test_signs_stay_where_the_reference_gives_no_numbers_otherwise():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.rand(64, 64) + 1)

        def forward(self, x):
            return x * self.scale.sqrt()

    task = ModuleTask(name="t", get_inputs=lambda: [torch.randn(64)], build=Root, text="")
    task.module(CPU)
    found_ = other_weights(task, CPU, 1)
    assert found_.keys() == {"other weights", "redrawn weights 0"}
    assert bool((found_["redrawn weights 0"].state(CPU)["scale"] > 0).all())


def test_redrawn_weights_that_keep_their_signs_differ_between_draws():
    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.rand(SMALL) + 1)

        def forward(self, x):
            return x * self.scale.sqrt()

    task = ModuleTask(name="t", get_inputs=lambda: [torch.randn(SMALL)], build=Root, text="")
    task.module(CPU)
    variants = other_weights(task, CPU, 1)
    drawn = {tuple(variant.state(CPU)["scale"].tolist()) for variant in variants.values()}
    assert len(drawn) == len(variants) == 1 + SMALL_DRAWS


# -- counterparts


def entry(value):
    return StateEntry("parameter", TensorMeta.of(value), value)


def test_names_come_first_then_values_then_shapes_in_order():
    a, b, c = torch.randn(3), torch.randn(3), torch.randn(3)
    entries = {"x": entry(b), "y": entry(torch.randn(3)), "c": entry(torch.randn(3))}
    assert matched({"a": a, "b": b, "c": c}, entries) == {"c": "c", "b": "x", "a": "y"}


def test_equal_constants_say_nothing_and_other_shapes_and_types_never_match():
    ones = torch.ones(3)
    entries = {"x": entry(torch.zeros(3)), "y": entry(ones)}
    assert matched({"a": ones}, entries) == {"a": "x"}, "by order"
    assert matched({"a": torch.ones(4)}, entries) == {}
    assert matched({"a": ones.double()}, entries) == {}
    assert matched({"x": torch.ones(4)}, entries) == {}


def test_a_part_of_one_parameter_moves_alone():
    module_ = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    before = {name: value.clone() for name, value in module_.state_dict().items()}
    move_part_of_weights(module_, 3, 2)
    moved = {n: (v != before[n]).float().mean() for n, v in module_.state_dict().items()}
    assert sum(share > 0 for share in moved.values()) == 1
    assert 0 < max(moved.values()) < 1


def test_permuted_weights_keep_their_sums_and_tables_stay():
    module_ = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    before = {name: value.clone() for name, value in module_.state_dict().items()}
    permute_weights(module_, 3)
    now = module_.state_dict()
    assert torch.allclose(now["0.weight"].sum(-1), before["0.weight"].sum(-1))
    assert not torch.equal(now["0.weight"], before["0.weight"])
    assert torch.equal(now["1.running_var"], before["1.running_var"])


def test_tables_of_two_values_and_codes_of_8_bits_move_and_added_masks_stay():
    module_ = nn.Module()
    module_.register_buffer("scale", torch.tensor([0.5, 2.0, 0.5]))
    module_.register_buffer("mask", torch.tensor([0.0, -1e9, 0.0]))
    module_.register_buffer("codes", torch.arange(-20, 20, dtype=torch.int8))
    module_.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))
    before = {name: value.clone() for name, value in module_.state_dict().items()}
    redraw_weights(module_, 1)
    same = {n for n, v in module_.state_dict().items() if torch.equal(v, before[n])}
    assert same == {"mask"}
    assert sorted(module_.codes.tolist()) == list(range(-20, 20))


def test_buffers_of_one_value_move_and_masks_stay():
    module_ = nn.Module()
    module_.register_buffer("scale", torch.tensor([2.0]))
    module_.register_buffer("zero_point", torch.zeros(3))
    module_.register_buffer("mask", torch.tensor([0.0, 1, 1, 0]))
    redraw_weights(module_, 1)
    assert float(module_.scale) != 2.0
    assert bool((module_.zero_point != 0).all())
    assert module_.mask.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("seed", range(8))
def test_a_single_slope_is_negative_in_one_of_the_redrawn_weights(seed):
    task = ModuleTask(
        name="t",
        get_inputs=lambda: [torch.randn(4)],
        build=lambda: nn.PReLU(1, init=0.5),
        text="",
    )
    variants = other_weights(task, CPU, seed)
    slopes = [
        float(v.module(CPU).weight.detach()) for n, v in variants.items() if n.startswith("redrawn")
    ]
    assert len(slopes) == SMALL_DRAWS
    assert min(slopes) < 0 < max(slopes)
