"""Wholes of ours beside torch.compile on a GPU, and what a search delivers after that."""

import threading

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.search.contest.graph_trees import replayed, waits_for_launches
from kernelwright.search.module import emit
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions
from kernelwright.search.target import load_target
from kernelwright.timing.clock import gpu_lock
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

OPTIONS = SearchOptions(policy="teacher", budget_s=90.0)
LARGE = """
import torch
import torch.nn.functional as F

def get_inputs():
    return [torch.randn(8192, 4096), torch.randn(4096)]

def fused_operator(x0, x1):
    return [F.softmax(x0 * 0.125 + x1, -1)]
"""
"""Large enough that a kernel wins: launches take no part of the time."""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "large.py"
    path.write_text(LARGE)
    return str(path)


def test_a_search_delivers_nothing_slower_than_torch_compile(tmp_path, program):
    result = optimize_target(program, OPTIONS, out=tmp_path / "out")
    assert result["torch_compile"]["timed"], result["torch_compile"]["message"]
    assert result["torch_compile"]["failed"] == {}, "every whole took part"
    times = result["times"]
    assert {"eager", "compiled"} <= set(times)
    if result["form"] in ("kernels", "compiled_kernels"):
        ratio, low, high = result["speedups"]["over_compile"]
        assert low <= ratio <= high
        assert ratio == times["compiled"]["median_ms"] / times["optimized"]["median_ms"] >= 1.0
    else:
        assert result["form"] == "compiled"
        assert "torch.compile(" in (tmp_path / "out" / "optimized.py").read_text()


INSIDE = """
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0), mask=i < n)


def fused_operator(x0):
    t0 = torch.sin(x0)
    t1 = torch.empty_like(t0)
    relu_kernel[(triton.cdiv(t0.numel(), 1024),)](t0, t1, t0.numel(), 1024)
    return [t1 * FACTOR]
"""


@pytest.mark.parametrize(
    ("factor", "code"), [("2.0", "ok"), ("torch._dynamo.is_compiling() + 2.0", "forbidden")]
)
def test_a_whole_inside_torch_compile_is_judged(factor, code):
    """Inductor compiles what the kernels leave, in the guest."""
    b = Builder()
    x = b.input(TensorType((1000, 513)))
    [y] = b.call("sin", input=x)
    [y] = b.call("relu", input=y)
    [y] = b.call("mul", input=y, other=2.0)
    task = program_task(b.program([y]))
    source = emit.compiled(INSIDE.replace("FACTOR", factor))
    with Judge(JudgeOptions(device="cuda", mode="hybrid"), times=False) as judge:
        verdict = judge.verify(task, Candidate(source=source))
        assert verdict.code.value == code, verdict.message
    with Judge(JudgeOptions(device="cuda", mode="pure"), times=False) as judge:
        assert judge.verify(task, Candidate(source=source)).code is Code.FORBIDDEN


def test_values_that_differ_inside_torch_compile_alone_are_found():
    """Uncompiled calls are right, so only the compiled ones can show the fault."""
    b = Builder()
    x = b.input(TensorType((1000, 513)))
    [y] = b.call("sin", input=x)
    [y] = b.call("relu", input=y)
    [y] = b.call("mul", input=y, other=2.0)
    source = emit.compiled(INSIDE.replace("FACTOR", "(2.0 + torch.compiler.is_compiling())"))
    with Judge(JudgeOptions(device="cuda", mode="hybrid", checks="runs"), times=False) as judge:
        verdict = judge.verify(program_task(b.program([y])), Candidate(source=source))
    assert verdict.code is Code.WRONG_VALUES, verdict.message
    assert "inside torch.compile" in verdict.message


MODULE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.sin(x)) * 2.0


def get_inputs():
    return [torch.randn(1000, 513)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("factor", "code"),
    [("2.0", Code.OK), ("(2.0 + torch.compiler.is_compiling())", Code.WRONG_VALUES)],
)
def test_a_cuda_graph_of_a_whole_inside_torch_compile_is_judged(tmp_path, factor, code):
    """The instance of uncompiled calls has a graph of its own, which compiled calls must not
    replay."""
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    target = load_target(str(path), torch.device("cuda"))
    source = target.write_graphed(emit.compiled(INSIDE.replace("FACTOR", factor)))
    is_honest = code is Code.OK
    with Judge(
        JudgeOptions(device="cuda", mode="hybrid", checks="all" if is_honest else "runs"),
        times=is_honest,
    ) as judge:
        verdict = judge.verify(target.task, Candidate(source=source))
    assert verdict.code is code, verdict.message


def test_a_search_without_time_left_says_so(tmp_path, program, monkeypatch):
    monkeypatch.setattr("kernelwright.search.contest.contest.LEAST_S", 1e6)
    result = optimize_target(program, OPTIONS, out=tmp_path / "out")
    assert not result["torch_compile"]["timed"]
    assert "of the budget were left" in result["torch_compile"]["message"]
    assert set(result["speedups"]) == {"over_eager"}


def test_cuda_graphs_of_torch_compile_are_right_in_every_thread():
    weights = [torch.randn(64, 64, device="cuda") * 0.1 for _ in range(20)]

    def chain(x):
        for weight in weights:
            x = torch.tanh(x @ weight)
        return {"y": x}

    def is_right(call, x):
        results.append((call(x)["y"], chain(x)["y"]))

    results = []
    with torch.no_grad():
        call = replayed(chain, {})
        inputs = [torch.randn(8, 64, device="cuda") for _ in range(5)]
        compiled = torch.compile(chain)
        compiled(*inputs[:1])
        with gpu_lock():  # kernels of other tests on the GPU would make the call wait for them
            assert waits_for_launches(compiled, inputs[:1])
        for x in inputs:
            is_right(call, x)
        thread = threading.Thread(target=torch.no_grad()(is_right), args=(call, inputs[0]))
        thread.start()
        thread.join()
    assert len(results) == len(inputs) + 1
    for ours, theirs in results:  # each result outlives the calls after it
        torch.testing.assert_close(ours, theirs)


def test_guests_compile_after_the_server_imported_the_compiler():
    b = Builder()
    [y] = b.call("sin", input=b.input(TensorType((1000, 513))))
    [y] = b.call("relu", input=y)
    [y] = b.call("mul", input=y, other=2.0)
    source = emit.compiled(INSIDE.replace("FACTOR", "2.0"))
    server = shared("cuda")
    server.start(compiles=True)
    with Judge(JudgeOptions(device="cuda", mode="hybrid"), times=False) as judge:
        verdict = judge.verify(program_task(b.program([y])), Candidate(source=source))
    assert verdict.accepted, verdict.message
    with server.guest() as guest:
        guest.load("def fused_operator(x):\n    return [x + 1]\n")
        (answer,) = guest.run(
            "candidate", GuestCall([torch.zeros(3, device="cuda")], seed=0)
        ).outputs
    assert answer.tolist() == [1.0, 1.0, 1.0]
