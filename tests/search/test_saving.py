"""Optimized modules are shown, copied, pickled, and saved for other processes."""

import copy
import json
import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.core.errors import UsageError
from kernelwright.core.record import environment
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.optimized import Delivery, attach, delivery_of
from kernelwright.search.saving import FACTS
from kernelwright.search.sizes.signature import Signature
from kernelwright.search.telling.summary import FragmentReport

RESULT = {
    "form": "compiled_kernels",
    "speedups": {"over_compile": [1.5, 1.4, 1.6], "over_eager": [3.0, 2.9, 3.1]},
    "outcome": {"message": "1.50x faster than <torch.compile>"},
    "graph": None,
}
FRAGMENTS = (
    FragmentReport(operators=("relu", "add"), has_kernel=True, why="it won", saving_ms=0.25),
    FragmentReport(operators=("matmul",), has_kernel=False, why="stays PyTorch", saving_ms=None),
)


@dataclass
class Scores:
    values: torch.Tensor
    shift: float


class Net(nn.Module):
    """Its names are those of functions of ours, and it takes and returns an object."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.save = self.source = "the user's own"
        self.register_buffer("total", torch.zeros(4))

    def summary(self):
        return "the user's own"

    def forward(self, scores):
        values = torch.relu(self.linear(scores.values)) + scores.shift
        self.total += values.sum(0)
        return Scores(values, scores.shift)


def optimized(module, *inputs, **facts):
    """A module that computes with a source, as if its inputs were on a GPU."""
    lowered = lower(module, inputs)
    text = compose(lowered.program, []).source
    delivery = Delivery(
        kind=type(module),
        lowered=lowered,
        source=text.replace("torch.relu", "1.0 + torch.relu"),
        signature=Signature.of((inputs, {})),
        is_training=module.training,
        on_gpu=True,
        result=RESULT,
        fragments=FRAGMENTS,
        environment=environment(),
    )
    return attach(module, replace(delivery, **facts))


@pytest.fixture
def scores():
    return Scores(torch.ones(2, 4), 0.5)


@pytest.fixture
def pair(scores):
    """A module, and the optimized module, which adds 1."""
    torch.manual_seed(0)
    module = Net().eval()
    with torch.no_grad():
        yield module, optimized(module, scores)


def adds_one(ours, module, scores):
    copies = copy.deepcopy(scores), copy.deepcopy(scores)
    values = [call(each).values for call, each in zip((ours, module), copies, strict=True)]
    return torch.equal(values[0], values[1] + 1.0)


def test_weights_stay_shared_and_names_stay_the_users(pair, scores):
    module, ours = pair
    assert isinstance(ours, Net)
    assert ours.state_dict().keys() == module.state_dict().keys()
    assert ours.linear.weight is module.linear.weight
    assert (ours.save, ours.source, ours.summary()) == ("the user's own",) * 3
    assert adds_one(ours, module, scores)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same_with_weights_of_their_own(pair, scores, how):
    module, ours = pair
    other = how(ours)
    assert type(other).__name__ == "OptimizedNet"
    assert other.linear.weight is not module.linear.weight
    assert adds_one(other, module, scores)
    other.linear.weight.zero_()
    assert adds_one(ours, module, scores)
    assert other.optimization == ours.optimization


def test_what_runs_is_shown(pair):
    _, ours = pair
    lines = kernelwright.summary(ours).splitlines()
    assert lines[0] == (
        "Net: own kernels and torch.compile, 1.50x of torch.compile, 3.00x of PyTorch"
    )
    assert lines[2:] == [
        "  kernel, saves 0.250 ms: relu, add (it won)",
        "  no kernel: matmul (stays PyTorch)",
    ]
    assert "def fused_operator" in kernelwright.source(ours)
    text = repr(ours)
    assert text.startswith("OptimizedNet(\n  (linear): Linear")
    assert text.endswith(
        "# own kernels and torch.compile, 1.50x of torch.compile, 3.00x of PyTorch"
    )
    assert "&lt;torch.compile&gt;" in ours._repr_html_()
    for function in (kernelwright.summary, kernelwright.source):
        with pytest.raises(UsageError, match="Linear is not an optimized module"):
            function(nn.Linear(1, 1))


def test_a_class_with_a_view_of_its_own_for_notebooks_keeps_it(scores):
    class Shown(Net):
        def _repr_html_(self):
            return "the user's own"

    assert optimized(Shown().eval(), scores)._repr_html_() == "the user's own"


MODULES = """
import torch


class Scores:
    def __init__(self, values, shift):
        self.values, self.shift = values, shift


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, scores):
        return {"y": torch.relu(self.linear(scores.values)) + scores.shift}
"""
ELSEWHERE = """
import sys, torch, kernelwright
from users_modules import Scores

fast = kernelwright.load(sys.argv[1])
with torch.no_grad():
    print(fast(Scores(torch.ones(2, 4), 0.5))["y"].sum().item())
print(kernelwright.summary(fast).splitlines()[0])
"""


@pytest.mark.slow
def test_another_process_loads_a_module(tmp_path, monkeypatch):
    (tmp_path / "users_modules.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    import users_modules

    module, scores = users_modules.Net().eval(), users_modules.Scores(torch.ones(2, 4), 0.5)
    with torch.no_grad():
        ours = optimized(module, scores)
        want = module(scores)["y"].sum().item() + 8.0
    path = tmp_path / "net.pt"
    kernelwright.save(ours, path)
    assert [file.name for file in tmp_path.glob("net*")] == ["net.pt"]
    command = [sys.executable, "-c", ELSEWHERE, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    total, line = done.stdout.splitlines()
    assert float(total) == pytest.approx(want)
    assert line.startswith("Net: own kernels")
    assert "Warning" not in done.stderr
    (tmp_path / "users_modules.py").unlink()
    monkeypatch.delitem(sys.modules, "users_modules")
    with pytest.raises(UsageError, match="users_modules"):
        kernelwright.load(path)


def rewritten(path, **changes):
    """Change the facts in a saved file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    [name] = [name for name in members if name.endswith(FACTS)]
    members[name] = json.dumps(json.loads(members[name]) | changes).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_kernels_of_another_gpu_or_version_are_warned_of(pair, tmp_path):
    _, ours = pair
    here = environment()
    versions = here["versions"] | {"triton": "0.1"}
    other = attach(
        Net().eval(), replace(delivery_of(ours), environment=here | {"versions": versions})
    )
    kernelwright.save(other, tmp_path / "net.pt")
    with pytest.warns(UserWarning, match=r"triton was 0\.1 and is"):
        kernelwright.load(tmp_path / "net.pt")


def test_files_that_cannot_be_read_are_named(pair, tmp_path):
    _, ours = pair
    path = tmp_path / "net.pt"
    with pytest.raises(UsageError, match="not an optimized module"):
        kernelwright.save(Net(), path)
    for missing in (tmp_path / "no" / "net.pt", tmp_path):
        with pytest.raises(UsageError):
            kernelwright.save(ours, missing)
        with pytest.raises(UsageError):
            kernelwright.load(missing)
    kernelwright.save(ours, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    with pytest.raises(UsageError, match="not a file of kernelwright"):
        kernelwright.load(path)
    torch.save(nn.Linear(1, 1), path)
    with pytest.raises(UsageError, match="not a file of kernelwright"):
        kernelwright.load(path)
    path.write_bytes(whole)
    rewritten(path, format=99)
    with pytest.raises(UsageError, match="the format is 99"):
        kernelwright.load(path)


def test_a_module_that_cannot_be_pickled_is_named(scores, tmp_path):
    module = Net().eval()
    module.hook = lambda: None
    with torch.no_grad():
        ours = optimized(module, scores)
    with pytest.raises(UsageError, match="Net cannot be saved"):
        kernelwright.save(ours, tmp_path / "net.pt")
    assert not list(tmp_path.iterdir())
