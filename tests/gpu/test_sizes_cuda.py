"""Sizes that vary, training and packages on a GPU, with real searches."""

import subprocess
import sys

import pytest
import torch
from scores import WIDTH, Scores
from torch.export import Dim

import kernelwright
from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import BackendSettings

RUN = """
import sys, torch
sys.modules["kernelwright"] = None
package = torch._inductor.aoti_load_package(sys.argv[1])
for x, expected in torch.load(sys.argv[2]):
    torch.testing.assert_close(package(x.cuda()), expected.cuda(), rtol=1e-4, atol=1e-5)
"""


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_one_module_serves_all_rows_and_so_does_its_package(tmp_path):
    module = Scores().cuda()
    rows = {"x": {0: Dim("rows", max=4096)}}
    with torch.no_grad():
        fast = kernelwright.optimize(
            module,
            torch.randn(1024, WIDTH, device="cuda"),
            dynamic_shapes=rows,
            budget_s=150,
            progress=False,
        )
        assert fast.optimization["form"] in ("kernels", "compiled_kernels", "compiled")
        pairs = []
        for number in (1, 2, 31, 1024, 4000, 4096):
            x = torch.randn(number, WIDTH, device="cuda")
            torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
            pairs.append((x.cpu(), module(x).cpu()))
        x = torch.randn(4097, WIDTH, device="cuda")
        with pytest.warns(UserWarning, match="rows 1 to 4096"):
            assert torch.equal(fast(x), module(x))
    kernelwright.export(fast, tmp_path / "scores.pt2")
    torch.save(pairs, tmp_path / "pairs.pt")
    command = [sys.executable, "-c", RUN, str(tmp_path / "scores.pt2"), str(tmp_path / "pairs.pt")]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("dynamic", [None, True], ids=["training", "varying sizes"])
def test_the_backend_searches_graphs_for_training_and_for_all_sizes(tmp_path, dynamic):
    settings = BackendSettings.of({"library": tmp_path, "budget_s": 80.0, "search": "now"})
    compiler, module = Compiler(settings), Scores().cuda()
    fast = torch.compile(module, backend=compiler, dynamic=dynamic)
    for number in (1024, 512) if dynamic else (1024, 1024):
        x = torch.randn(number, WIDTH, device="cuda")
        if dynamic:
            with torch.no_grad():
                torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
            continue
        gradients = []
        for call in (fast, module):
            module.zero_grad()
            call(x).square().sum().backward()
            gradients.append(module.shift.grad.clone())
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    parts = [report.part for report in compiler.reports]
    assert parts == ([""] if dynamic else ["forward", "backward"])
    assert all(report.fragments for report in compiler.reports), compiler.reports
