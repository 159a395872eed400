"""`kernelwright optimize --export`."""

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.deploy.targets import export_target
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(width) + 0.5)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(torch.tanh(x * self.scale) + 1)


def get_inputs():
    return [torch.randn(6, 16)]


def get_init_inputs():
    return [16]
"""
FLAT = """
import torch


def get_inputs():
    x0 = torch.randn((6, 16), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.exp(x0)
    t1 = torch.tanh(t0)
    return [t1]
"""
FACTORY = """
import torch


class Tanh(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x).exp()


def make():
    return Tanh(), torch.randn(6, 16)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "factory"])
def test_each_kind_of_target_is_exported(kind, tmp_path, monkeypatch):
    captures = []  # AOTInductor takes seconds for each, and test_package.py runs it
    monkeypatch.setattr(
        torch._inductor, "aoti_compile_and_package", lambda program, **_: captures.append(program)
    )
    monkeypatch.syspath_prepend(tmp_path)
    text = {"model": MODEL, "factory": FACTORY}[kind]
    file = tmp_path / f"exported_{kind}.py"
    file.write_text(text)
    spec = "exported_factory:make" if kind == "factory" else str(file)
    options = {"training": False, "dynamic": ("x:0=rows:1-40",)}
    search = SearchOptions(device="cpu", budget_s=600, **options)
    result = optimize_target(spec, search, out=tmp_path / "out")
    package = tmp_path / "model.pt2"
    export_target(
        spec,
        tmp_path / "out" / "optimized.py",
        package,
        form=result["form"],
        device=torch.device("cpu"),
        **options,
    )
    for rows in (6, 1, 40):
        x = torch.zeros(rows, 16)
        assert torch.equal(captures[0].module()(x), torch.ones(rows, 16))


def test_a_flat_program_is_not_exported_without_a_gpu(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(FLAT)
    with pytest.raises(UsageError, match="need a GPU"):
        export_target(
            str(file),
            file,
            tmp_path / "model.pt2",
            form="kernels",
            device=torch.device("cpu"),
        )
