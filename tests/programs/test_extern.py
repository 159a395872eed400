"""Extern calls: binding by schema, types without running long recurrences."""

import time

import pytest
import torch
from torch import nn

from kernelwright.ops.operator import TensorType
from kernelwright.programs import extern
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.text import parse, to_text


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_first": True}, {"bidirectional": True, "num_layers": 2}, {"bias": False}],
    ids=str,
)
def test_recurrent_results_have_the_types_that_pytorch_gives(kind, options):
    program = lower(kind(3, 5, **options), (torch.randn(2, 4, 3),)).program
    (call,) = (c for c in program.calls if c.op in extern.RECURRENT)
    for result, name in zip(run(program, make_inputs(program, 0)), program.outputs, strict=True):
        assert tuple(result.shape) == program.type_of(name).shape
    assert call.outputs[0] in program.outputs


def test_a_projected_lstm_has_the_types_that_pytorch_gives():
    program = lower(nn.LSTM(3, 5, proj_size=2), (torch.randn(2, 4, 3),)).program
    for result, name in zip(run(program, make_inputs(program, 0)), program.outputs, strict=True):
        assert tuple(result.shape) == program.type_of(name).shape


def test_a_long_sequence_is_lowered_without_walking_it():
    gru = nn.GRU(3, 5)
    began_s = time.process_time()
    program = lower(gru, (torch.randn(20_000, 2, 3),)).program
    assert time.process_time() - began_s < 20
    assert "aten.gru.input" in {call.op for call in program.calls}
    out, _ = gru(torch.ones(4, 2, 3))  # the layer itself is as it was
    assert out.isfinite().all()
    assert out.unique().numel() > 1


def test_multiply_adds_of_recurrent_layers_are_counted():
    program = lower(nn.LSTM(3, 5, bidirectional=True), (torch.randn(7, 2, 3),)).program
    assert program.flops() == 2 * 7 * 2 * 2 * 4 * 5 * (3 + 5)


@pytest.mark.parametrize(("layers", "dropout", "train"), [(2, 0.5, True), (2, 0.0, True)])
def test_recurrent_layers_draw_for_dropout_alone(layers, dropout, train):
    values = {"num_layers": layers, "dropout": dropout, "train": train}
    assert extern.is_random("aten.gru.input", values) is bool(dropout)
    assert not extern.is_random("aten.gru.input", values | {"train": False})
    assert extern.is_random("aten.bernoulli.default", {})


def test_the_oracle_of_a_recurrent_layer_is_in_double():
    program = lower(nn.GRU(3, 5), (torch.randn(4, 2, 3),)).program
    inputs = make_inputs(program, 0)
    native, oracle = run(program, inputs), run(program, inputs, dtype=torch.float64)
    assert not torch.equal(native[0].double(), oracle[0])


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((1, 2, 3, 4), {}, "takes 3 arguments, not 4"),
        ((), {}, "needs 'self'"),
        ((1,), {"stable": True}, "no argument 'stable'"),
    ],
)
def test_arguments_that_the_schema_does_not_have_are_refused(args, kwargs, words):
    with pytest.raises(ValueError, match=words):
        extern.bind("aten.sort.default", args, kwargs)


def test_defaults_and_placement_are_left_out():
    bound = extern.bind("aten.sort.default", (1, -1), {"descending": True})
    assert bound == {"self": 1, "descending": True}
    options = {"dtype": torch.float16, "device": torch.device("cpu"), "pin_memory": False}
    assert extern.bind("aten.zeros.default", ([2, 3],), options) == {
        "size": (2, 3),
        "dtype": "float16",
    }


@pytest.mark.parametrize("op", ["aten.sort", "aten.no_such.default", "sort"])
def test_what_is_no_overload_is_refused(op):
    with pytest.raises(ValueError, match=r"torch\.ops"):
        extern.overload(op)


class FakeQuantized(nn.Module):
    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)


def test_an_overload_that_cannot_run_without_memory_has_types():
    program = lower(FakeQuantized(), (torch.randn(3, 4),)).program
    assert parse(to_text(program)).type_of(program.outputs[0]) == TensorType((3, 4))
