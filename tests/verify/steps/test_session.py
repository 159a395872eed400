"""Calls that start from the same state, weights by name or place, and grad mode."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from kernelwright.core.verdict import Code
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall, Limits
from kernelwright.sandbox.shared.manner import WATCHED
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import CPU

X = torch.ones(2, 3)
GRAD = replace(WATCHED, has_grad=True)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return x * self.weight


SECRET = """\
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.box = [0]
    def forward(self, x):
        self.box[0] += 1
        return x * self.box[0]
"""
OWN_NAME = """\
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(3))
    def forward(self, x):
        return x * self.scale
"""
REFUSES = "        if torch.is_grad_enabled(): raise ValueError('no grad')\n"
NO_GRAD = OWN_NAME.replace("        return", f"{REFUSES}        return")
REFUSES_INFERENCE = REFUSES.replace("is_grad", "is_inference_mode")
NO_INFERENCE = OWN_NAME.replace("        return", f"{REFUSES_INFERENCE}        return")
NO_WEIGHT = OWN_NAME.replace("torch.nn.Parameter(torch.randn(3))", "2.0")


def task_of(kind):
    return ModuleTask(name="t", get_inputs=lambda: [X], build=kind, text="", get_arguments=None)


@pytest.fixture(scope="module")
def guest():
    with shared("cpu").guest(Limits(wall_s=60)) as cpu_guest:
        yield cpu_guest


@pytest.fixture
def session(guest):
    def open_session(kind, source, **options):
        one = Session(task_of(kind), guest, CPU, **options)
        one.load("candidate", source)
        return one

    return open_session


def output(session, task=None, manner=WATCHED):
    ran = session.call("candidate", task or session.task, GuestCall([X], 0, manner=manner)).ran
    return ran.outputs[0]


def test_each_call_finds_a_new_instance_where_the_reference_keeps_hidden_state(session):
    one = session(Counting, SECRET)
    assert [float(output(one)[0, 0]) for _ in range(3)] == [1.0] * 3


def test_weights_go_to_parameters_of_other_names(session):
    one = session(Scaling, OWN_NAME)
    for task in (one.task, one.task.with_other_weights(1)):
        assert torch.equal(output(one, task), X * task.state(CPU)["weight"])


def test_a_weight_without_a_place_is_a_rejection(session):
    with pytest.raises(Rejected, match=r"no counterpart of weight \[3\]") as caught:
        session(Scaling, NO_WEIGHT)
    assert caught.value.code is Code.STATE_DIFFERS


def test_a_candidate_may_refuse_grad_mode_under_fixed_and_is_not_asked_again(session):
    one = session(Scaling, NO_GRAD)
    assert torch.equal(output(one, manner=GRAD), X * one.task.state(CPU)["weight"])
    assert one.refuses_grad
    assert torch.equal(output(one, manner=GRAD), X * one.task.state(CPU)["weight"])


def test_a_candidate_may_refuse_inference_mode_under_fixed(session):
    manner = replace(WATCHED, is_inference=True)
    one = session(Scaling, NO_INFERENCE)
    assert torch.equal(output(one, manner=manner), X * one.task.state(CPU)["weight"])
    assert one.refuses_grad


def test_under_drop_in_a_candidate_must_take_grad_mode(session):
    one = session(Scaling, NO_GRAD.replace("scale", "weight"), is_drop_in=True)
    with pytest.raises(Rejected, match="no grad") as caught:
        output(one, manner=GRAD)
    assert caught.value.code is Code.RUNTIME_ERROR


def test_under_drop_in_a_candidate_must_keep_the_names(session):
    with pytest.raises(Rejected, match="no checkpoint") as caught:
        session(Scaling, OWN_NAME, is_drop_in=True)
    assert caught.value.code is Code.STATE_DIFFERS


def test_what_fails_in_every_mode_is_no_refusal_of_grad_mode(session):
    one = session(Scaling, OWN_NAME.replace("return x", "return missing"))
    with pytest.raises(Rejected, match="missing"):
        output(one, manner=GRAD)
    assert not one.refuses_grad


def test_a_second_instance_has_weights_of_its_own(session):
    one = session(Scaling, OWN_NAME)
    other = one.task.with_other_weights(5)
    number = one.instance("candidate", other)
    called = one.call_on("candidate", number, GuestCall([X], 0))
    assert torch.equal(called.ran.outputs[0], X * other.state(CPU)["weight"])
    assert torch.equal(called.before["weight"], other.state(CPU)["weight"])
    assert torch.equal(output(one), X * one.task.state(CPU)["weight"])
