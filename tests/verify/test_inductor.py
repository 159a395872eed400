"""The text of a program as a function that torch.compile compiles."""

import gc
import linecache
from functools import partial

import torch

from kernelwright.core.verdict import Precision
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.lowering.lower import lower
from kernelwright.verify import inductor
from kernelwright.verify.inductor import program_function
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import CPU


def program(factor: float):
    builder = Builder()
    x = builder.input(TensorType((4, 3)))
    [y] = builder.call("mul", input=x, other=factor)
    return builder.program(builder.call("relu", input=y))


def test_each_of_many_programs_is_compiled():
    """Dynamo refuses a ninth function without source: all such functions share one cache."""
    torch.compiler.reset()
    for factor in range(1, 14):
        function = program_function(program(float(factor)))
        compiled = torch.compile(function, fullgraph=True, dynamic=False, backend="eager")
        [result] = compiled(torch.ones(4, 3))
        assert result[0, 0].item() == factor


def test_the_text_of_a_program_is_forgotten_with_its_function():
    def texts():
        return [name for name in linecache.cache if name.startswith("<kernelwright program")]

    gc.collect()
    num_before = len(texts())
    function = program_function(program(2.0))
    assert len(texts()) == num_before + 1
    del function
    gc.collect()
    assert len(texts()) == num_before


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LSTM(4, 4)

    def forward(self, x):
        return self.layer(x)[0].relu() + 1.0


def test_recurrent_layers_stay_out_of_the_graph(monkeypatch):
    """Inductor would compile a copy of each step, for many minutes, and nothing could stop it."""
    model, x, targets = Recurrent().eval(), torch.randn(60, 2, 4), []

    def backend(graph, _):
        targets.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    lowered = lower(model, (x,))
    tensors = lowered.gather(model, (x,), {})
    with torch.no_grad():
        [result] = torch.compile(program_function(lowered.program))(*tensors)
        torch.testing.assert_close(result, model(x))
    assert any("relu" in target for target in targets)
    assert not any("lstm" in target for target in targets)
    task, rules = program_task(lowered.program), Rules(CPU, Precision.STRICT, "hybrid")
    assert inductor.compiled_reference(task, tensors, rules) is None
