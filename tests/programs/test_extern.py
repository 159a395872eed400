"""Extern calls: binding by schema, types without running long recurrences."""

import pytest
import torch
from torch import nn

from kernelwright.programs import extern
from kernelwright.programs.lowering import lower
from kernelwright.programs.reference import make_inputs, run


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
