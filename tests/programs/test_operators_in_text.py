"""Every operator's sample calls print, read back as the same call, run, and have an oracle."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import FAMILIES, operators
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.initial import choose_inits
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.tensors import type_of
from kernelwright.programs.text import parse, to_text

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
SAMPLES = [s for family in FAMILIES for s in import_module(f"samples.{family}").SAMPLES]


def program_of(sample) -> Program:
    """A program of the one call, its inputs drawn within the operator's domains."""
    builder = Builder()

    def declared(value):
        if isinstance(value, TensorType):
            return builder.input(value)
        if isinstance(value, tuple):
            return tuple(map(declared, value))
        return value

    names = [param.name for param in operators()[sample.op].params]
    values = dict(zip(names, sample.args, strict=False)) | sample.attributes
    results = builder.call(sample.op, **{name: declared(v) for name, v in values.items()})
    program = builder.program(results)
    unnamed = [""] * len(program.inputs)
    return choose_inits(program, unnamed, [None] * len(unnamed))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_call_reads_back_as_itself_runs_and_has_an_oracle(sample):
    program = program_of(sample)
    text = to_text(program)
    assert parse(text) == program
    module: dict = {}
    exec(text, module)
    torch.manual_seed(0)
    inputs = module["get_inputs"]()
    assert [type_of(tensor) for tensor in inputs] == [value.type for value in program.inputs]
    torch.manual_seed(1)
    theirs = module["fused_operator"](*inputs)
    torch.manual_seed(1)
    for ours, other, name in zip(run(program, inputs), theirs, program.outputs, strict=True):
        torch.testing.assert_close(ours, other, equal_nan=True)
        made = program.type_of(name)
        assert (tuple(ours.shape), f"torch.{made.dtype}") == (made.shape, str(ours.dtype))
    for result in run(program, make_inputs(program, 0), dtype=torch.float64):
        assert result.dtype == torch.float64 or not result.is_floating_point()
        assert result.isfinite().all()
