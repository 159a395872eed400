"""What a user reads of graphs, and the backend by its name."""

import shutil
from importlib.metadata import entry_points

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.compile.backend import backend
from kernelwright.compile.reports import GraphReport

RECORDS = [
    {
        "record": "program",
        "calls": [
            {"op": "conv2d", "fragment": None},
            {"op": "relu", "fragment": 0},
            {"op": "topk", "fragment": None},
            {"op": "conv2d", "fragment": None},
        ],
    },
    {
        "record": "fragment",
        "ops": ["relu"],
        "calls": [1],
        "source": "text",
        "reason": "2.00x of torch.compile",
        "eager": {"median_ms": 0.5},
        "best": {"median_ms": 0.2},
    },
    {
        "record": "fragment",
        "ops": ["relu", "topk"],
        "calls": [1, 2],
        "source": None,
        "reason": "stays PyTorch: slower",
        "eager": None,
        "best": None,
    },
    {
        "record": "result",
        "form": "compiled_kernels",
        "source": "@triton.jit\ndef relu_kernel(x):\n    pass\n",
        "outcome": {"message": "1 of 4 operators in Triton"},
        "speedups": {"over_compile": [1.5, 1.4, 1.6]},
    },
]


def test_a_report_says_what_runs_why_and_what_that_saves():
    report = GraphReport(number=1, num_calls=4)
    report.read(RECORDS)
    lines = str(report).splitlines()
    assert lines[0] == "graph 1 (4 calls): own kernels and torch.compile, 1.50x of torch.compile"
    assert "why: 1 of 4 operators in Triton" in lines[1]
    assert lines[2] == "  kernel, saves 0.300 ms: relu (2.00x of torch.compile)"
    assert lines[3] == "  no kernel: relu, topk (stays PyTorch: slower)"
    assert "without a kernel: conv2d, topk" in lines[4]
    assert [fragment.operators for fragment in report.left] == [("relu", "topk")]
    assert list(report.kernels) == ["relu_kernel"]
    report.keeps_inductor("a call failed")
    assert str(report).startswith("graph 1 (4 calls): Inductor's code\n  why: a call failed")


def test_the_backend_is_registered_with_pytorch():
    [entry] = entry_points(group="torch_dynamo_backends", name="kernelwright")
    assert entry.load() is backend


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_a_module_on_a_cpu_is_inductors_and_explained(tmp_path):
    class Broken(nn.Module):
        def forward(self, x):
            x = torch.tanh(x) * 2
            torch._dynamo.graph_break()
            return x + 1

    torch._dynamo.reset()
    options = {"library": str(tmp_path)}
    x = torch.randn(5)
    with torch.no_grad():
        fast = torch.compile(Broken(), backend="kernelwright", options=options)
        torch.testing.assert_close(fast(x), Broken()(x))
        explanation = kernelwright.explain(Broken(), x, options=options)
    assert [graph.why for graph in explanation.graphs] == ["Triton kernels need a GPU"] * 2
    text = str(explanation)
    assert text.count("Inductor's code") == 2
    assert "graph break" in text
