"""Which fragments are tried: as a model can write them where one writes, and what winners leave."""

import pytest

from kernelwright.programs.text import parse
from kernelwright.search.proposals import gaps, proposed
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions

TEXT = """
import torch
import torch.nn.functional as F


def get_inputs():
    x0 = torch.randn((8, 6), dtype=torch.float32)
    x1 = torch.randn((6, 6), dtype=torch.float32)
    x2 = torch.randn((48,), dtype=torch.float32)
    return [x0, x1, x2]


def fused_operator(x0, x1, x2):
    t0 = F.linear(x0, x1)
    t1 = F.gelu(t0)
    t2 = F.linear(t1, x1)
    t3 = torch.reshape(x2, shape=(8, 6))
    t4 = torch.add(t2, t3)
    return [t4]
"""
PROGRAM = parse(TEXT)
WHOLE = frozenset({0, 1, 2, 4})


def tried(has_models, mode="hybrid"):
    return proposed(
        PROGRAM, Judge(JudgeOptions(device="cpu", mode=mode)), has_models=has_models, for_s=60.0
    )


def left(has_models, mode="hybrid"):
    judge, chosen = Judge(JudgeOptions(device="cpu", mode=mode)), [frozenset({0, 1})]
    return gaps(PROGRAM, judge, chosen, chosen, has_models=has_models)


def test_models_are_given_the_whole_without_the_view_of_an_input():
    assert WHOLE in tried(has_models=True)
    assert not any(3 in part for part in tried(has_models=True))
    assert any(3 in part for part in tried(has_models=False))
    assert not any(part >= WHOLE for part in tried(has_models=False))


@pytest.mark.parametrize(
    ("has_models", "mode", "found"),
    [(True, "hybrid", [{2, 4}]), (False, "hybrid", []), (False, "pure", [{2, 3, 4}, {3, 4}])],
)
def test_what_winners_leave_is_tried_for_models_and_where_nothing_may_stay(has_models, mode, found):
    assert left(has_models, mode) == found


def test_a_lone_call_is_left_to_pytorch():
    judge, chosen = (
        Judge(JudgeOptions(device="cpu", mode="hybrid")),
        [frozenset({0, 1}), frozenset({4})],
    )
    assert gaps(PROGRAM, judge, chosen, chosen, has_models=True) == []


def test_a_call_that_draws_keeps_the_whole_from_being_one_fragment():
    drawing = parse(TEXT.replace("F.gelu(t0)", "F.dropout(t0, p=0.5)"))
    found = proposed(drawing, Judge(JudgeOptions(device="cpu")), has_models=True, for_s=60.0)
    assert found
    assert not any(1 in part for part in found)
