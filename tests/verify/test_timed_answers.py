"""Answers to the inputs of timed calls: kept for candidates of one task, within bounds."""

import torch

from kernelwright.core.verdict import Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.task import CPU, FunctionTask
from kernelwright.verify.times.timed_answers import TimedAnswers

RULES = Rules(CPU, Precision.STRICT, "pure")
SIZE = 64


class Counted:
    """A task of one function, and how often the reference is called natively or in fp64."""

    def __init__(self, function=torch.relu):
        self.calls = 0
        self.function = function
        self.task = FunctionTask(
            name="task", get_inputs=lambda: [torch.randn(SIZE)], function=self.call
        )

    def call(self, x):
        self.calls += 1
        return [self.function(x)]


def of(answers, counted, seed):
    """The answer, and how many calls it took."""
    before = counted.calls
    return answers.of(counted.task, seed), counted.calls - before


def test_an_answer_is_computed_once_for_a_task_and_a_seed():
    answers, one, other = TimedAnswers(RULES, 1 << 20), Counted(), Counted(torch.neg)
    first, cost = of(answers, one, 1)
    inputs = one.task.inputs(1, "plain", CPU)
    assert torch.equal(first.outputs.native[0], torch.relu(inputs[0]))
    assert cost > 0
    assert of(answers, one, 1) == (first, 0)
    second, cost = of(answers, one, 2)
    assert cost > 0
    assert not torch.equal(second.outputs.native[0], first.outputs.native[0])
    assert of(answers, other, 1)[1] > 0


def test_what_was_asked_least_lately_goes_when_there_is_no_room():
    counted = Counted()
    num_bytes = of(TimedAnswers(RULES), counted, 1)[0].num_bytes
    answers = TimedAnswers(RULES, 2 * num_bytes)
    costs = [of(answers, counted, seed)[1] > 0 for seed in (1, 2, 1, 3, 1, 2)]
    assert costs == [True, True, False, True, False, True]


def test_an_answer_that_is_too_large_by_itself_drives_nothing_out():
    counted, large = Counted(), Counted(lambda x: x.expand(SIZE, SIZE))
    answers = TimedAnswers(RULES, 2 * of(TimedAnswers(RULES), counted, 1)[0].num_bytes)
    for _ in range(2):
        of(answers, counted, 1)
        assert of(answers, large, 1)[1] > 0
    assert of(answers, counted, 1)[1] == 0


def test_by_itself_nothing_is_kept():
    answers, counted = TimedAnswers(RULES), Counted()
    assert of(answers, counted, 1)[1] == of(answers, counted, 1)[1] > 0


def test_a_reference_that_draws_has_no_answer_and_is_asked_so_once():
    answers, counted = TimedAnswers(RULES, 1 << 20), Counted(lambda x: x + torch.rand_like(x))
    assert of(answers, counted, 1)[0] is None
    assert of(answers, counted, 1) == (None, 0)
