"""Real code of Inductor's, for programs of several kinds; the judge has the last word."""

import ast

import pytest

from kernelwright.data.inductor.source import InductorSource
from kernelwright.policy.answer import answer_text, read_answer
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import parse
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.static import findings
from kernelwright.verify.tasks.program_task import program_task

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef get_inputs():\n"
SOFTMAX = f"""{HEAD}    x0 = torch.randn((33, 70), dtype=torch.bfloat16)
    x1 = torch.randn((33, 70), dtype=torch.float32)
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.maximum(x1, x0)
    t1 = torch.softmax(t0, dim=1)
    return [t0, t1]
"""
TRANSPOSED = f"""{HEAD}    x0 = torch.randn((24, 40), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.transpose(x0, 0, 1)
    t1 = torch.cumsum(t0, dim=0)
    t2 = torch.std(t1, dim=1)
    return [t2]
"""
PRODUCT = f"""{HEAD}    x0 = torch.randn((24, 40), dtype=torch.float32)
    x1 = torch.randn((40, 30), dtype=torch.float32)
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.mm(x0, x1)
    t1 = torch.relu(t0)
    return [t1]
"""


def answers(text, *, mode="pure", limit=1, seed=0):
    request = Request(program=parse(text), mode=mode)
    return InductorSource.of({}).answers(request, limit=limit, seed=seed)


def test_an_answer_stands_alone():
    (written,) = answers(SOFTMAX)
    candidate = written.candidate
    assert read_answer(answer_text(candidate), origin="inductor").candidate == candidate
    assert "inductor" not in candidate.source
    assert not [f for f in findings(candidate.source, "pure", "fused_operator") if not f.is_hint]
    kernels = {plan.kernel for plan in candidate.plan}
    defined = {n.name for n in ast.parse(candidate.source).body if isinstance(n, ast.FunctionDef)}
    assert kernels < defined
    assert [op for plan in candidate.plan for op in plan.fuses][:2] == ["maximum", "softmax"]
    for dim in ("33", "70"):
        assert f" {dim}" not in candidate.source, "sizes are read from tensors"


@pytest.mark.slow
def test_answers_to_one_program_differ_in_blocks_and_come_again_by_seed():
    found = answers(SOFTMAX, limit=6, seed=3)
    sources = [written.candidate.source for written in found]
    assert 1 < len(set(sources)) == len(sources)
    tiles = [[plan.tiles for plan in written.candidate.plan] for written in found]
    assert all(tiles[0] != other for other in tiles[1:])
    assert sources == [written.candidate.source for written in answers(SOFTMAX, limit=6, seed=3)]


@pytest.mark.slow
def test_the_judge_accepts_it_at_other_sizes_too():
    (written,) = answers(TRANSPOSED)
    with Judge(JudgeOptions(device="cpu", precision="strict", mode="pure", seed=1)) as judge:
        verdict = judge.verify(program_task(parse(TRANSPOSED)), written.candidate)
    assert verdict.accepted, verdict.message
    assert len({case.split()[0] for case in verdict.cases}) > 1


def test_a_product_is_a_library_call_which_hybrid_mode_may_keep():
    (refused,) = answers(PRODUCT)
    assert (refused.candidate, refused.refused) == (None, "inductor: library call")
    (written,) = answers(PRODUCT, mode="hybrid")
    assert "torch.mm(x0, x1, out=buf0)" in written.candidate.source
    assert [plan.fuses for plan in written.candidate.plan] == [("relu",)]
