"""The instances that judged calls use."""

import pytest
import torch

from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.sandbox.shared.manner import WATCHED, Manner
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.load import load_task

MODULE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return [torch.zeros(4)]


def get_init_inputs():
    return []
"""
COUNTING = """
import weakref

import torch

calls = weakref.WeakKeyDictionary()


def identity(x):
    return x


compiled = COMPILED


class ModelNew(torch.nn.Module):
    def forward(self, x):
        calls[self] = calls.get(self, 0) + 1
        return x + calls[self]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiled", "counts"),
    [("torch.compile(identity, fullgraph=True)", [1, 2, 1, 2, 1]), ("None", [1, 2, 3, 4, 5])],
)
def test_compiled_calls_have_an_instance_of_their_own(tmp_path, compiled, counts):
    """An instance may keep a CUDA graph of uncompiled calls, which compiled calls would replay."""
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    device = torch.device("cpu")
    task = load_task(path, device)
    inside = Manner(compiles=True)
    with shared("cpu").guest() as guest:
        session = Session(task, guest, device)
        session.load("candidate", COUNTING.replace("COMPILED", compiled))
        inputs = task.example(device)
        outputs = [
            session.call("candidate", task, GuestCall(inputs, 0, 0.0, manner=manner)).ran.outputs[0]
            for manner in (WATCHED, WATCHED, inside, inside, WATCHED)
        ]
    assert [int(output[0]) for output in outputs] == counts
