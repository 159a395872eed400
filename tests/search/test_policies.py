"""Policies by name, and the teacher as one of them."""

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import read_answer
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request
from kernelwright.programs.build import Builder
from kernelwright.search.policies import Several, policy


def request(op="softmax", **attributes):
    builder = Builder()
    value = builder.input(TensorType((64, 33)))
    return Request(program=builder.program(builder.call(op, input=value, **attributes)))


def test_the_teacher_s_answers_are_those_that_can_be_read():
    requests = [request("relu"), request(dim=1)]
    found = policy("teacher").write(requests, samples=3, sampling=Sampling(seed=4))
    assert [len(answers) for answers in found] == [3, 3]
    for answer in (answer for answers in found for answer in answers):
        read = read_answer(answer.text, origin="teacher")
        assert read.candidate is not None
        assert read.candidate.plan == answer.candidate.plan
        assert answer.candidate.origin == "teacher"


def test_the_teacher_s_answers_depend_on_the_seed_alone():
    teacher = policy("teacher")
    alone = teacher.write([request(dim=1)], samples=3, sampling=Sampling(seed=4))
    beside = teacher.write([request("relu"), request(dim=1)], samples=3, sampling=Sampling(seed=4))
    assert beside[1:] == alone
    assert teacher.write([request(dim=1)], samples=3, sampling=Sampling(seed=5)) != alone


def test_served_models_are_named_by_their_address():
    spec = "openai:http://localhost:1/v1#m"
    assert policy(spec).name == spec


@pytest.mark.parametrize("spec", ["", "Teacher", "gpt", "http://localhost/v1#m"])
def test_a_name_of_no_policy_lists_the_forms(spec):
    with pytest.raises(UsageError, match="teacher, embedded, hf:PATH or openai:URL#model"):
        policy(spec)


@pytest.mark.parametrize("spec", ["hf:", "hf:nowhere/at/all", "openai:here"])
def test_a_model_that_is_not_there(spec):
    with pytest.raises(UsageError) as caught:
        policy(spec)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"max_tokens": 0}]
)
def test_sampling_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError, match="cannot sample"):
        Sampling(**wrong)


class Writing:
    """Answers with its name, to so many requests."""

    def __init__(self, name, most):
        self.name, self.most, self.asked = name, most, []

    def write(self, requests, *, samples, sampling):
        self.asked.append(len(requests))
        return [[self.name][: self.most - i] for i, _ in enumerate(requests)]

    def release(self): ...


def test_of_several_policies_the_later_ones_write_what_is_left():
    first, second = Writing("first", 1), Writing("second", 9)
    both = Several([first, second])
    assert both.name == "first,second"
    found = both.write([request(dim=1)] * 2, samples=1, sampling=Sampling())
    assert found == [["first"], ["second"]]
    assert (first.asked, second.asked) == ([2], [1])
    assert policy("teacher, teacher").name == "teacher,teacher"
