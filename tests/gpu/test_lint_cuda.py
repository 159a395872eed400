"""The linter on a GPU: tasks at their own sizes."""

import pytest
import torch

from kernelwright.verify.linting.files import lint_files
from kernelwright.verify.linting.task import lint

TASK = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.{draw}({shape})]
"""


@pytest.fixture
def write(tmp_path):
    def file(name, result, draw="randn", shape="64, 48", init="pass"):
        path = tmp_path / f"{name}.py"
        path.write_text(TASK.format(result=result, draw=draw, shape=shape, init=init))
        return str(path)

    return file


def ids(report):
    return {each.id for each in report.findings}


def test_a_large_task_is_looked_at_as_it_is(write):
    report = lint(write("softmax", "torch.softmax(x, 1)", "rand", "4096, 131072"), device="cuda")
    assert (report.device, report.scaled, report.num_draws) == ("cuda", False, 5)
    (found,) = [each for each in report.findings if each.id == "zero_passes"]
    assert found.tolerances == ("1e-4", "1e-2")


def test_tf32_does_not_count_as_chance(write):
    init = "self.linear = torch.nn.Linear(1024, 1024)"
    path = write("linear", "self.linear(x).tanh()", shape="512, 1024", init=init)
    before = torch.backends.cuda.matmul.allow_tf32
    report = lint(path, device="cuda")
    assert report.findings == ()
    assert report.not_checked == ()
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_state_and_chance_are_found_on_the_gpu(write):
    init = "self.drop = torch.nn.Dropout(0.3)"
    assert "random_reference" in ids(lint(write("drop", "self.drop(x)", init=init), device="cuda"))
    init = "self.register_buffer('count', torch.zeros(()))"
    path = write("count", "torch.sin(x) * self.count.add_(1)", init=init)
    assert "stateful_reference" in ids(lint(path, device="cuda"))


def test_large_tasks_share_the_memory(write):
    names = [f"{i}_copy" for i in range(4)]
    specs = [write(name, "torch.relu(x)", "rand", "16384, 32768") for name in names]
    lines = lint_files(specs, device="cuda", budget_s=5.0, timeout_s=120.0, num_workers=4)
    assert [line["findings"][0]["id"] for line in lines] == ["identity"] * 4
