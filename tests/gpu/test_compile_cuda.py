"""The backend of torch.compile on a GPU: real searches, real kernels, real wholes."""

import pytest
import torch
from scores import WIDTH, Scores

import kernelwright
from kernelwright.compile.backend import Compiler
from kernelwright.compile.searching import LibraryFinder, background
from kernelwright.compile.settings import BackendSettings


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class NeverSearches(LibraryFinder):
    def search(self, program, settings):
        raise AssertionError("the library has the graph")


def agree(module, fast, num=3):
    other = Scores().cuda()
    other.load_state_dict(module.state_dict())
    for _ in range(num):
        x = torch.randn(8192, WIDTH, device="cuda")
        torch.testing.assert_close(fast(x), other(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("search", ["now", "background"])
def test_kernels_serve_a_module_and_a_second_process_takes_them_from_the_library(tmp_path, search):
    settings = BackendSettings.of({"library": tmp_path, "budget_s": 60.0, "search": search})
    compiler = Compiler(settings)
    module = Scores().cuda()
    with torch.no_grad():
        fast = torch.compile(module, backend=compiler)
        agree(module, fast)
        background.wait()
        agree(module, fast)
        [report] = compiler.reports
        assert report.fragments, report.why
        torch._dynamo.reset()
        again = Compiler(settings, finder=NeverSearches())
        agree(module, torch.compile(module, backend=again))
    assert again.reports[0].runs == report.runs
    assert again.reports[0].why == report.why


def test_a_module_is_explained(tmp_path):
    options = {"library": str(tmp_path), "budget_s": 40.0}
    with torch.no_grad():
        explanation = kernelwright.explain(
            Scores().cuda(), torch.randn(8192, WIDTH, device="cuda"), options=options
        )
    assert len(explanation.graphs) == 1
    assert "softmax" in str(explanation)
