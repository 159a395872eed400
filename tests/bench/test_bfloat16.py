"""Tasks cast to bfloat16: what the cast file computes with, and what cannot be cast."""

import ast
from pathlib import Path

import pytest
import torch

from kernelwright.bench.bfloat16 import cast_source, cast_tasks
from kernelwright.bench.kernelbench import kernel_file, place
from kernelwright.bench.suite import SuiteCase
from kernelwright.core.errors import UsageError
from kernelwright.core.levels import in_bfloat16, level_number
from kernelwright.verify.tasks.load import load_task

TASK = '''
import torch
import torch.nn as nn


class Model(nn.Module):
    """A layer, a norm with counts, a table."""

    def __init__(self, width, scale=2.0):
        """Make the layers."""
        super(Model, self).__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.register_buffer("rows", torch.arange(width))
        self.scale = scale

    def forward(self, x, index, factor):
        return self.norm(self.linear(x))[index] * self.scale * factor


def get_inputs():
    return [torch.randn(4, 8), torch.tensor([1, 0]), 3.0]


def get_init_inputs():
    return [8]
'''


def loaded(text, folder):
    path = folder / "1_task.py"
    path.write_text(text)
    return load_task(path)


def test_floating_point_parameters_buffers_and_inputs_are_cast_and_nothing_else(tmp_path):
    task = loaded(cast_source(TASK, "1_task.py"), tmp_path)
    cpu = torch.device("cpu")
    types = {name: tensor.dtype for name, tensor in task.state(cpu).items()}
    assert types.pop("norm.num_batches_tracked") == types.pop("rows") == torch.int64
    assert set(types.values()) == {torch.bfloat16}
    assert {"linear.weight", "norm.running_var"} <= types.keys()
    x, index, factor = task.draw(0, cpu)
    assert (x.dtype, index.dtype, factor) == (torch.bfloat16, torch.int64, 3.0)
    (answer,) = task.native_answer([x, index, factor], 0, cpu)
    assert answer.dtype == torch.bfloat16


def test_all_but_constructor_and_inputs_stays_as_it_is_written():
    before, after = (ast.parse(text).body for text in (TASK, cast_source(TASK, "")))
    assert [ast.unparse(node) for node in after[3:4]] == ["def get_inputs_as_drawn():\n"
        "    return [torch.randn(4, 8), torch.tensor([1, 0]), 3.0]"]  # fmt: skip
    assert ast.unparse(after[4]) == ast.unparse(before[4])
    assert ast.unparse(after[2].body[-1]) == ast.unparse(before[2].body[-1])


@pytest.mark.parametrize(
    "base", ["nn.Sequential", "nn.Module"], ids=["arguments of the base", "no constructor at all"]
)
def test_a_model_without_a_constructor_gets_one(tmp_path, base):
    arguments = "[nn.Linear(8, 8)]" if base == "nn.Sequential" else "[]"
    text = (
        f"from torch import nn\nimport torch.nn\n\n\nclass Model({base}):\n"
        "    def forward(self, x):\n        return (super().forward(x) if len(self._modules)"
        " else x) + 1\n\n\ndef get_inputs():\n    return [torch.randn(2, 8)]\n\n\n"
        f"def get_init_inputs():\n    return {arguments}\n"
    )
    task = loaded(cast_source(text, "1_task.py"), tmp_path)
    cpu = torch.device("cpu")
    assert all(tensor.dtype == torch.bfloat16 for tensor in task.state(cpu).values())
    assert task.native_answer(task.draw(0, cpu), 0, cpu)[0].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TASK.replace("class Model", "class Net"), "defines no Model to cast"),
        (TASK.replace("get_inputs", "inputs"), "defines no get_inputs to cast"),
        (TASK.replace("self.scale = scale", "return"), "returns before its end"),
    ],
)
def test_what_cannot_be_cast_is_named(text, why):
    with pytest.raises(UsageError, match=why) as raised:
        cast_source(text, "level1/1_task.py")
    assert raised.value.file == "level1/1_task.py"
    assert "--only" in raised.value.remedy


def test_a_function_inside_the_constructor_may_return(tmp_path):
    inner = "def layer():\n            return nn.Linear(width, width)\n        "
    text = TASK.replace("self.linear = nn.Linear(width, width)", f"{inner}self.linear = layer()")
    task = loaded(cast_source(text, ""), tmp_path)
    assert task.state(torch.device("cpu"))["linear.weight"].dtype == torch.bfloat16


def test_a_file_that_is_no_python_is_left_to_whoever_loads_it():
    assert cast_source("def get_inputs(:\n", "") == "def get_inputs(:\n"


def test_cast_tasks_have_levels_of_their_own_and_kernels_named_as_before(tmp_path):
    source = tmp_path / "1_task.py"
    source.write_text(TASK)
    task = SuiteCase(level="L2", id=1, name="1_task", spec=str(source))
    [cast] = cast_tasks([task], tmp_path / "tasks")
    assert (cast.level, place(cast), kernel_file(cast)) == ("L2-bf16", (2, 1), kernel_file(task))
    assert Path(cast.spec) == tmp_path / "tasks" / "level2" / "1_task.py"
    assert "self.bfloat16()" in Path(cast.spec).read_text()
    assert task.folder != cast.folder


def test_names_of_levels():
    assert level_number("L3") == level_number(in_bfloat16("L3")) == 3
    with pytest.raises(ValueError, match="operators"):
        level_number("operators")
