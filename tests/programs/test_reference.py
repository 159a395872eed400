"""Inputs are drawn as they say, runs free memory, the oracle is fp64 throughout."""

import weakref

import pytest
import torch
from drawing import programs
from hypothesis import given, settings

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.families import BEYOND_DOMAINS, FAMILIES
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Init, Ref
from kernelwright.programs.reference import evaluate_call, make_inputs, run

NORMAL = Init("randn")


def inputs_of(*inits: Init, shape=(64, 64), dtype="float32") -> Builder:
    builder = Builder()
    for init in inits:
        builder.input(TensorType(shape, dtype), init)
    return builder


def builder_input(builder: Builder) -> Ref:
    return Ref(builder.inputs[0].name)


def draw(init: Init, family: str = "plain", seed: int = 0, dtype="float32") -> torch.Tensor:
    builder = inputs_of(init, dtype=dtype)
    return make_inputs(builder.program([]), seed, family=family)[0]


def test_seeds_inputs_and_families_have_streams_of_their_own():
    program = inputs_of(NORMAL, NORMAL).program([])
    first, second = make_inputs(program, 1)
    assert torch.equal(first, make_inputs(program, 1)[0])
    assert not torch.equal(first, second)
    assert not torch.equal(first, make_inputs(program, 2)[0])
    assert not torch.equal(first, make_inputs(program, 1, family="shifted")[0] - 5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_families_have_the_special_values_and_zeros_that_they_name_and_no_others(family, dtype):
    drawn = draw(NORMAL, family, dtype=dtype).float()
    assert drawn.isfinite().all() == (family != "special")
    assert (drawn == 0).float().mean() < {"rounded": 0.25, "flat_rows": 0.6}.get(family, 0.01)


def test_families_differ_as_they_say():
    spread = {family: draw(NORMAL, family).std().item() for family in FAMILIES}
    assert 0.9 < spread["plain"] < 1.1
    assert 9 < spread["scaled"] < 11
    assert 4.8 < draw(NORMAL, "shifted").mean() < 5.2
    assert draw(NORMAL, "spikes").abs().max() > 50
    assert spread["heavy_tail"] > 2
    near = draw(NORMAL, "thresholds").abs()
    distance = torch.stack([(near - point).abs() for point in (0, 0.5, 1, 3, 6)]).amin(0)
    assert distance.max() < 0.06
    energy = draw(NORMAL, "last_tile").square()
    assert energy[-4:].sum() + energy[:, -4:].sum() > 0.99 * energy.sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_with_a_domain_leave_it_in_the_families_that_say_so_alone(family):
    unit = draw(Init("rand", 0.05, 0.95), family)
    is_inside = bool(0.05 <= unit.min() <= unit.max() < 0.95)
    assert is_inside == (family not in BEYOND_DOMAINS)
    index = draw(Init("randint", 0, 7), family, dtype="int64")
    assert index.min() == 0
    assert index.max() == 6
    assert set(draw(Init("sign"), family).unique().tolist()) == {-1, 1}
    assert set(draw(Init("randint", 0, 2), family, dtype="bool").unique().tolist()) == {False, True}
    assert (draw(Init("randn", 0.0, 0.1), family).abs().max() < 1) == (family != "large")


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="not one of"):
        draw(NORMAL, "odd")


def test_layouts_are_honoured():
    builder = Builder()
    builder.input(TensorType((2, 3, 4, 5), "float32", Layout.CHANNELS_LAST))
    (drawn,) = make_inputs(builder.program([]), 0)
    assert drawn.is_contiguous(memory_format=torch.channels_last)


@settings(max_examples=40, deadline=None)
@given(programs())
def test_types_say_what_pytorch_returns(program):
    for result, name in zip(run(program, make_inputs(program, 3)), program.outputs, strict=True):
        made = program.type_of(name)
        assert (tuple(result.shape), str(result.dtype)) == (made.shape, f"torch.{made.dtype}")


@settings(max_examples=40, deadline=None)
@given(programs())
def test_the_oracle_is_close_and_float64(program):
    inputs = make_inputs(program, 4)
    oracle = run(program, inputs, dtype=torch.float64)
    for native, wide in zip(run(program, inputs), oracle, strict=True):
        if native.is_floating_point():
            assert wide.dtype == torch.float64
    assert all(tensor.dtype != torch.float64 for tensor in inputs)


def test_narrow_casts_do_nothing_in_the_oracle():
    builder = inputs_of(NORMAL)
    (half,) = builder.call("to_dtype", input=builder_input(builder), dtype="float16")
    (total,) = builder.call("sum", input=half, dim=1, dtype="float32")
    program = builder.program([half, total])
    inputs = make_inputs(program, 0)
    kept, total_ = run(program, inputs, dtype=torch.float64)
    assert torch.equal(kept, inputs[0].double())
    torch.testing.assert_close(total_, inputs[0].double().sum(1))


def test_a_run_holds_no_dead_values(monkeypatch):
    made: list[weakref.ref] = []
    live: list[int] = []

    def watched(call, env, **options):
        live.append(sum(ref() is not None for ref in made))
        results = evaluate_call(call, env, **options)
        made.extend(map(weakref.ref, results))
        return results

    monkeypatch.setattr("kernelwright.programs.reference.evaluate_call", watched)
    builder = inputs_of(NORMAL)
    value = builder_input(builder)
    for _ in range(5):
        (value,) = builder.call("tanh", input=value)
    run(builder.program([value]), make_inputs(builder.program([value]), 0))
    assert live == [0, 1, 1, 1, 1]


def test_the_oracle_of_an_extern_draw_uses_the_same_values():
    builder = inputs_of(NORMAL)
    (drawn,) = builder.call("aten.bernoulli.p", self=builder_input(builder), p=0.5)
    program = builder.program([drawn])
    inputs = make_inputs(program, 0)
    torch.manual_seed(5)
    (native,) = run(program, inputs)
    torch.manual_seed(5)
    (wide,) = run(program, inputs, dtype=torch.float64)
    assert torch.equal(native.double(), wide)


def test_the_oracle_of_dropout_keeps_what_the_native_run_keeps():
    builder = inputs_of(NORMAL, dtype="float16")
    (kept,) = builder.call("dropout", input=builder_input(builder), p=0.3)
    program = builder.program([kept])
    inputs = make_inputs(program, 0)
    torch.manual_seed(5)
    (native,) = run(program, inputs)
    torch.manual_seed(5)
    (wide,) = run(program, inputs, dtype=torch.float64)
    assert torch.equal(native == 0, wide == 0)
    assert torch.equal(wide[wide != 0], inputs[0].double()[wide != 0] / (1 - 0.3))


def test_the_oracle_reads_the_bits_of_the_native_dtype():
    builder = Builder()
    x = builder.input(TensorType((3, 4)))
    (bits,) = builder.call("aten.view.dtype", self=x, dtype="int32")
    (same,) = builder.call("aten.view.dtype", self=bits, dtype="float32")
    program = builder.program([bits, same])
    inputs = make_inputs(program, 0)
    native, wide = run(program, inputs), run(program, inputs, dtype=torch.float64)
    assert torch.equal(native[0], wide[0])
    assert torch.equal(inputs[0].double(), wide[1])


class Bags(torch.nn.Module):
    """Two tables that are read by rows of the same indices, as in recommenders."""

    def __init__(self):
        super().__init__()
        self.large, self.small = (torch.nn.EmbeddingBag(n, 4, mode="sum") for n in (50, 7))

    def forward(self, indices, offsets):
        return self.large(indices[0], offsets[0]) * self.small(indices[1], offsets[1]).relu()


@pytest.mark.parametrize("family", ["plain", "scaled", "last_tile"])
def test_drawn_groups_of_rows_are_groups(family):
    """PyTorch refuses offsets that do not begin with 0, and indices beyond a table."""
    example = torch.randint(7, (2, 12)), torch.tensor([[0, 3, 6, 9]] * 2)
    program = lower(Bags().eval(), example).program
    for seed in range(3):
        [result] = run(program, make_inputs(program, seed, family=family))
        assert result.shape == (4, 4)
