"""Programs as records: the text says it all, figures are the program's, JSON holds everything."""

import json

import pytest
from drawing import programs
from hypothesis import given, settings

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder, canonical, rename
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Init
from kernelwright.programs.record import program_record
from kernelwright.programs.text import parse


@settings(max_examples=40, deadline=None)
@given(programs())
def test_the_text_gives_the_program_back_and_json_holds_the_record(program):
    record = program_record(program)
    assert parse(record["text"]) == canonical(program)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["level"] == len(record["calls"]) == len(program.calls)
    assert record["fingerprint"] == fingerprint(program)
    assert record["intensity"] == pytest.approx(program.flops() / program.bytes_fused())
    made = {value["name"] for value in record["inputs"]}
    for call in record["calls"]:
        assert {ref["ref"] for ref in _refs(list(call["args"].values()))} <= made
        made |= {value["name"] for value in call["outputs"]}


def _refs(value):
    if isinstance(value, dict):
        return [value] if "ref" in value else []
    return [ref for item in value for ref in _refs(item)] if isinstance(value, list) else []


def test_types_draws_arguments_and_cost_are_spelled_out():
    builder = Builder()
    made = TensorType((2, 4, 3, 3), "float16", Layout.CHANNELS_LAST)
    x = builder.input(made, Init("randn", 0.5, 2.0))
    (clamped,) = builder.call("clamp", input=x, min=0.0, max=float("inf"))
    (summed,) = builder.call("sum", input=clamped, dim=(1,))
    record = program_record(builder.program([summed]))
    assert record["inputs"] == [
        {
            "name": "x0",
            "shape": [2, 4, 3, 3],
            "dtype": "float16",
            "layout": "channels_last",
            "init": {"kind": "randn", "low": 0.5, "high": 2.0},
        }
    ]
    first = record["calls"][0]["args"]
    assert first == {"input": {"ref": "x0"}, "min": 0.0, "max": {"float": "inf"}}
    assert record["calls"][1]["args"]["dim"] == [1]
    assert record["calls"][1]["outputs"] == record["outputs"]
    assert record["outputs"] == [{"name": "t1", "shape": [2, 3, 3], "dtype": "float16"}]
    assert record["bytes_fused"] == 2 * (72 + 18)
    assert record["bytes_unfused"] == 2 * (72 + 72 + 72 + 18)
    assert record["level"] == 2


def test_names_do_not_matter():
    builder = Builder()
    x = builder.input(TensorType((3,)))
    program = builder.program(builder.call("relu", input=x))
    renamed = rename(program, {"x0": "given", "t0": "made"})
    assert program_record(renamed) == program_record(program)
