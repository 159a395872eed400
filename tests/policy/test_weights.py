"""The model that ships with the package: whole, small, and its kernels are right."""

import pytest
import torch

import kernelwright
from kernelwright.ops.operator import TensorType
from kernelwright.policy.embedded import WEIGHTS, load_embedded
from kernelwright.policy.local import LocalModel
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request
from kernelwright.programs.build import Builder
from kernelwright.search import sources
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

CHAINS = [("relu",), ("exp",), ("tanh", "softmax"), ("sigmoid", "sum")]
GIVEN = {"softmax": {"dim": -1}, "sum": {"dim": (1,)}}


def program(ops):
    builder = Builder()
    x = builder.input(TensorType((64, 192)))
    for op in ops:
        (x,) = builder.call(op, input=x, **GIVEN.get(op, {}))
    return builder.program([x])


@pytest.fixture(scope="module")
def model():
    return LocalModel.embedded()


def test_the_weights_are_whole_and_fit():
    size = sum(path.stat().st_size for path in WEIGHTS.glob("*.safetensors"))
    assert 0 < size <= 32 * 2**20
    loaded, _ = load_embedded("cpu")
    assert all(torch.isfinite(weight).all() for weight in loaded.parameters())


@pytest.mark.slow
def test_its_likeliest_answers_to_small_programs_are_right(model):
    programs = [program(ops) for ops in CHAINS]
    requests = [
        Request(program=each, device="sm_90", precision="strict", mode="pure") for each in programs
    ]
    answers = model.write(requests, samples=1, sampling=Sampling())
    with Judge(JudgeOptions(device="cpu", mode="pure", seed=4, budget_s=0.0)) as judge:
        for each, (answer,) in zip(programs, answers, strict=True):
            assert answer.candidate is not None, answer.message
            verdict = judge.verify(program_task(each), answer.candidate)
            assert verdict.accepted, verdict.message


@pytest.mark.slow
def test_modules_are_optimized_with_it_by_default_where_the_teacher_writes_nothing(monkeypatch):
    monkeypatch.setattr(sources, "write", lambda *_, **__: [])
    module = torch.nn.Sequential(torch.nn.Linear(96, 64), torch.nn.GELU()).eval()
    optimized = kernelwright.optimize(module, (torch.randn(32, 96),), mode="pure", budget_s=600)
    assert set(optimized.optimization["origins"]) == {"embedded"}
