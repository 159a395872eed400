"""Packages of AOTInductor: they compute without kernelwright, from Python and from C++."""

import shutil
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import kernelwright
from kernelwright.core.errors import UsageError
from kernelwright.core.record import environment
from kernelwright.deploy.package import captured, deployed
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.module import emit
from kernelwright.search.module.importing import importable
from kernelwright.search.optimized import REPLACED, Delivery, attach, delivery_of
from kernelwright.search.sizes.lowering import lower_at_sizes
from kernelwright.search.sizes.requested import requested
from kernelwright.search.sizes.signature import Signature
from kernelwright.teacher.writer import write

RUN = """
import sys, torch
sys.modules["kernelwright"] = None  # an import would fail
package = torch._inductor.aoti_load_package(sys.argv[1])
for x, expected in torch.load(sys.argv[2]):
    torch.testing.assert_close(package(x), expected)
"""


class Parts(nn.Module):
    """Keyword arguments, nested inputs and results, a buffer that changes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x, *, scale, parts):
        y = self.linear(x).relu() * scale
        self.total += y.sum(0)
        return {"y": y + parts[0], "more": (x.exp(), self.total * 1)}


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(24, 24)

    def forward(self, x):
        return self.linear(x).relu() + 1


def of(module, example, *, shapes=None, change=lambda source: source, on_gpu=True):
    """The module, optimized with PyTorch's own calls in the place of kernels."""
    asked = requested(module.forward, example, shapes) if shapes else None
    sized = lower_at_sizes(module, example, asked) if asked else None
    lowered = sized.lowered if sized else lower(module, *example)
    program = sized.sized.spelled if sized else lowered.program
    delivery = Delivery(
        kind=type(module),
        lowered=lowered,
        source=change(compose(program, []).source),
        signature=Signature.of(example, sized.requested if sized else None),
        is_training=module.training,
        on_gpu=on_gpu,
        result={"graph": None, "form": "kernels"},
        fragments=(),
        environment=environment(),
    )
    return attach(module, delivery)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A package for all numbers of rows up to 50."""
    torch.manual_seed(0)
    module, example = Plain().eval(), ((torch.randn(4, 24),), {})
    fast = of(module, example, shapes={"x": {0: Dim("rows", max=50)}})
    path = tmp_path_factory.mktemp("packages") / "plain.pt2"
    kernelwright.export(fast, path)
    return module, path


@pytest.mark.slow
def test_a_package_computes_what_the_module_does_at_all_sizes(plain, tmp_path):
    module, path = plain
    inputs, data = [torch.randn(rows, 24) for rows in (1, 2, 4, 17, 50)], tmp_path / "data.pt"
    with torch.no_grad():
        torch.save([(x, module(x)) for x in inputs], data)
    subprocess.run([sys.executable, "-c", RUN, str(path), str(data)], check=True)


@pytest.fixture
def exported(monkeypatch, tmp_path):
    """What AOTInductor would compile, which takes seconds: a function from a module that is
    exported to the module that was captured."""
    captures = []
    monkeypatch.setattr(
        torch._inductor, "aoti_compile_and_package", lambda program, **_: captures.append(program)
    )

    def of_module(fast):
        kernelwright.export(fast, tmp_path / "captured.pt2")
        return captures[-1].module()

    return of_module


def test_structures_and_state_are_those_of_the_module(exported):
    module = Parts().eval()
    other = deepcopy(module)  # the captured module has the module's buffers
    kwargs = {"scale": torch.tensor(2.0), "parts": [torch.randn(8)]}
    package = exported(of(module, ((torch.randn(4, 8),), kwargs)))
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 8)
            torch.testing.assert_close(package(x, **kwargs), other(x, **kwargs))


def test_kernels_inside_torch_compile_are_exported(exported):
    module, x = Plain().eval(), torch.randn(4, 24)
    package = exported(of(module, ((x,), {}), change=emit.compiled))
    with torch.no_grad():
        torch.testing.assert_close(package(x), module(x))


@pytest.mark.parametrize("replaced", [False, True])
def test_where_the_original_runs_the_original_is_exported(exported, replaced):
    module, example = Plain().eval(), ((torch.randn(4, 24),), {})
    fast = of(module, example)
    fast = attach(module, replace(delivery_of(fast), source=None))
    x = torch.randn(4, 24)
    with torch.no_grad():
        expected = module(x)
    if replaced:
        vars(fast)[REPLACED] = module.forward
    with torch.no_grad():
        torch.testing.assert_close(exported(fast)(x), expected)


@pytest.mark.slow
def test_cpp_loads_a_package(plain, tmp_path):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    module, path = plain
    folder, program = Path(torch.__file__).parent, tmp_path / "load_package"
    include, library = folder / "include", folder / "lib"
    subprocess.run(
        [
            *(compiler, "-O0", "-std=c++20", str(Path(__file__).parent / "load_package.cpp")),
            *(f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-L{library}"),
            *(f"-Wl,-rpath,{library}", "-ltorch", "-ltorch_cpu", "-lc10", "-o", str(program)),
        ],
        check=True,
    )
    done = subprocess.run(
        [str(program), str(path), "5", "24"], check=True, capture_output=True, text=True
    )
    with torch.no_grad():
        expected = float(module(torch.ones(5, 24)).sum())
    assert float(done.stdout) == pytest.approx(expected, rel=1e-4)


def test_the_graph_of_a_package_launches_the_kernels(monkeypatch):
    """Dynamo knows Triton kernels where there is a GPU, or where it believes so."""
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)

    class Fused(nn.Module):
        def forward(self, x):
            return torch.tanh(x * 2) + 1

    module, example = Fused(), ((torch.randn(4, 24),), {})
    kernel = write(lower(module, *example).program)[0].source
    fast = of(module, example, change=lambda _: kernel)
    delivery = delivery_of(fast)
    compute = delivery.compute
    whole = deployed(fast, delivery, compute, example)
    with torch.no_grad(), importable(compute.__module__, compute.__globals__):
        graph = captured(whole, example).graph
    assert "triton_kernel_wrapper" in str(graph)
    assert "tanh" not in str(graph)


class Sorts(nn.Module):
    def forward(self, x):
        return x.sort().values


def test_what_cannot_be_written_is_said(tmp_path):
    module, example = Plain().eval(), ((torch.randn(4, 24),), {})
    fast = of(module, example)
    with pytest.raises(UsageError, match="a package cannot have the name"):
        kernelwright.export(fast, tmp_path / "model.zip")
    with pytest.raises(UsageError, match="there is no folder"):
        kernelwright.export(fast, tmp_path / "none" / "model.pt2")
    with pytest.raises(UsageError, match="is not an optimized module"):
        kernelwright.export(module, tmp_path / "model.pt2")
    wrong = of(module, example, change=lambda s: s.replace("torch.relu(", "print("))
    with pytest.raises(UsageError, match="PyTorch cannot export Plain"):
        kernelwright.export(wrong, tmp_path / "model.pt2")
    assert not (tmp_path / "model.pt2").exists()
