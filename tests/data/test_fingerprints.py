"""Tasks of other suites as fingerprints: every form of file is read, nothing else is written."""

import json

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.data.fingerprints import fingerprints
from kernelwright.programs.text import parse
from kernelwright.synth.benchmarks import task_fingerprint

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 7, bias=False)

    def forward(self, x):
        return torch.tanh(self.linear(x)) * 2.0

def get_inputs():
    return [torch.randn(3, 5)]

def get_init_inputs():
    return [5]
"""
FLAT = """
import torch
import torch.nn.functional as F

def get_inputs():
    x0 = torch.randn((64, 32))
    x1 = torch.randn((16, 32))
    return [x0, x1]

def fused_operator(x0, x1):
    t0 = F.linear(x0, x1)
    t1 = torch.tanh(t0)
    t2 = torch.mul(t1, 0.5)
    return [t2]
"""
CALLED = """
import torch

def helper(x):
    return torch.exp(x)

def shifted_exponential(x, by=None, out=None):
    return helper(x) if by is None else helper(x) + by

{ruler}

def test_shifted_exponential():
    x = torch.ones(4, device="cuda")
    return shifted_exponential(x), shifted_exponential(x, by=x), shifted_exponential(x, nothing=1)

test_shifted_exponential()
"""
BROKEN = "import nothing_of_this_name\n\ndef fused_operator(x):\n    return [x]\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "model.py").write_text(MODEL)
    (folder / "flat.py").write_text(FLAT)
    (folder / "shifted_exponential.py").write_text(CALLED.format(ruler="#" * 80))
    (folder / "broken.py").write_text(BROKEN)
    return fingerprints([folder], timeout_s=120, say=lambda _: None)


@pytest.mark.slow
def test_each_form_of_file_is_read_and_what_fails_is_counted(found):
    (source,) = found["sources"]
    assert (source["files"], source["read"], source["fingerprints"]) == (4, 3, 3)
    assert sum(source["refused"].values()) == 1


def test_a_module_and_a_flat_program_that_compute_the_same_are_one_task(found):
    assert task_fingerprint(parse(FLAT))[0] in found["fingerprints"]
    assert len(found["fingerprints"]) == 2


def test_a_function_gives_a_program_for_each_way_it_is_called(found):
    text = FLAT.replace("t0 = F.linear(x0, x1)", "t0 = x0").replace("torch.tanh", "torch.exp")
    added = text.replace("torch.mul(t1, 0.5)", "torch.add(t1, x1)").replace("(16, 32)", "(64, 32)")
    assert task_fingerprint(parse(added))[0] in found["fingerprints"]
    single = text.replace("return [t2]", "return [t1]").replace("    t2 = torch.mul(t1, 0.5)\n", "")
    assert found["one_call"] == [task_fingerprint(parse(single))[0]]


def test_nothing_of_a_task_but_its_fingerprint_is_written(found):
    text = json.dumps(found)
    assert not any(word in text for word in ("linear", "tanh", "shifted", "model", "torch"))


def test_a_folder_without_tasks_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no Python file"):
        fingerprints([tmp_path], timeout_s=1, say=lambda _: None)
