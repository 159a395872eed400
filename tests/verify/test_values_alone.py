"""`Checks.VALUES`: the judge of published benchmarks, which compares values and nothing else."""

import pytest

from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Checks, Code
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.tasks.load import load_task

HONEST = (ROOT / "honest" / "plain.py").read_text()
LIBRARY = """
import torch

def fused_operator(x0):
    return [torch.relu(x0)]
"""
REMEMBERS = """
import torch

answers = {}

def fused_operator(x0):
    answers.setdefault(x0.shape, torch.relu(x0))
    return [answers[x0.shape]]
"""
TASK = load_task(ROOT / "tasks" / "relu.py")


def codes(checks, *sources):
    options = JudgeOptions(
        device="cpu",
        precision="kernelbench",
        mode="pure",
        grade="recycled",
        checks=checks,
        wall_s=60.0,
    )
    with Judge(options) as judge:
        pairs = [(TASK, Candidate(source=source)) for source in sources]
        return list(judge.verify_many(pairs))


@pytest.mark.slow
def test_values_alone_let_a_library_call_pass_and_all_checks_do_not():
    wrong = HONEST.replace("[relu(x0)]", "[relu(x0) * 1.5]")
    assert wrong != HONEST
    alone = codes("values", HONEST, LIBRARY, wrong, REMEMBERS)
    assert [verdict.code for verdict in alone] == [
        Code.OK,
        Code.OK,
        Code.WRONG_VALUES,
        Code.WRONG_VALUES,  # several draws of the inputs are what published benchmarks take, too
    ]
    assert "static rules" not in alone[0].checks
    assert len(alone[0].cases) > 1
    everything = codes("all", LIBRARY)
    assert not everything[0].accepted
    assert codes("runs", LIBRARY)[0].code in {Code.NOT_LAUNCHED, Code.LIBRARY_COMPUTE}


def test_values_alone_are_no_evidence():
    with pytest.raises(UsageError, match="no evidence"):
        Judge(JudgeOptions(device="cpu", checks="values", grade="fresh"))
    with pytest.raises(UsageError, match="no such checks"):
        Judge(JudgeOptions(device="cpu", checks="none", grade="recycled"))


def test_a_recipe_carries_what_may_refuse():
    recipe = JudgeRecipe(device="cpu", grade="recycled", checks="values").resolved()
    with recipe.judge() as judge:
        assert judge.rules.checks is Checks.VALUES
    assert JudgeRecipe(**recipe.to_json()) == recipe
