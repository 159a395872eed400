"""The main job on CPU: what is written computes what the original computes."""

import copy
import math
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
import torch
from flat_program import FLAT
from record_kinds import faults_in
from torch import nn

import kernelwright
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.programs.lowering.lower import lower
from kernelwright.search import optimize
from kernelwright.search import search as searching
from kernelwright.search.arguments import call_of, warn_of_weights
from kernelwright.search.contest import wholes
from kernelwright.search.module.files import write_result
from kernelwright.search.module.importing import import_file
from kernelwright.search.options import SearchOptions
from kernelwright.search.target import depends_on_mode


def optimize_target(spec, *, out, **options):
    search = SearchOptions(policy="teacher", **options)
    return optimize.optimize_target(spec, search, out=out)


MODEL = '''
"""A model."""
import torch
from torch import nn

WIDTH = 24
\f

class Model(nn.Module):
    def __init__(self, width):
        super(Model, self).__init__()
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.BatchNorm1d(2 * width)

    def forward(self, x, shift=None):
        y = torch.relu(self.linear(x)) * 0.5 + 1.0
        y = torch.minimum(self.norm(y), torch.tensor(0.75, device=x.device))
        return y, {"total": y.sum(dim=1)}


def get_inputs():
    return [torch.randn(6, WIDTH)]


def get_init_inputs():
    return [WIDTH]


if __name__ == "__main__":
    raise SystemExit("not for import")
'''

TWO_PARTS = """
import torch


def get_inputs():
    x0 = torch.randn((9, 33), dtype=torch.float32)
    x1 = torch.randn((8, 35), dtype=torch.float32)
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.tanh(x0)
    t1 = torch.softmax(t0, dim=1)
    t2 = torch.exp(x1)
    t3 = torch.softmax(t2, dim=1)
    return [t1, t3]
"""


def both(file, path):
    """The optimized model and the original, with the same weights."""
    ours, theirs = import_file(path).ModelNew(24), import_file(file).Model(24)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def optimized(tmp_path, source):
    file = tmp_path / "target.py"
    file.write_text(textwrap.dedent(source))
    result = optimize_target(str(file), out=tmp_path / "out", device="cpu", budget_s=600)
    return file, tmp_path / "out" / "optimized.py", result


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return optimized(tmp_path_factory.mktemp("model"), MODEL)


@pytest.mark.slow
def test_a_model_is_accepted_with_a_triton_part_and_its_records(model):
    _, path, result = model
    assert result["verdict"]["accepted"], result["verdict"]["message"]
    assert result["num_triton"] >= 1
    assert result["bytes"]["after"] < result["bytes"]["before"]
    assert result["times"] == {}, "speed is never reported without a GPU"
    kinds = [line["record"] for line in record.read(path.parent / "records.jsonl")]
    assert faults_in(path.parent / "records.jsonl") == set()
    assert kinds[0] == "run"
    assert kinds[-1] == "result"
    assert {"program", "fragment", "candidate"} <= set(kinds)


@pytest.mark.slow
def test_the_file_keeps_the_constructor_the_names_and_the_docstring(model):
    file, path, _ = model
    text = path.read_text()
    assert text.startswith('"""A model."""')
    assert "__main__" not in text
    assert "SystemExit" not in text
    ours, theirs = both(file, path)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_gradients_are_refused_clearly(model):
    _, path, _ = model
    module = import_file(path).ModelNew(24)
    with pytest.raises(RuntimeError, match="no_grad"):
        module(torch.randn(6, 24))


@pytest.mark.parametrize(
    ("rows", "training"), [(6, True), (6, False), (7, True)], ids=["on a CPU", "mode", "size"]
)
def test_calls_that_the_kernels_do_not_compute_run_the_original_forward(model, rows, training):
    file, path, _ = model
    ours, theirs = (module.train(training) for module in both(file, path))
    x = torch.randn(rows, 24)
    with torch.no_grad():
        (a, b), (c, d) = ours(x, shift=None), theirs(x)
    assert torch.equal(a, c)
    assert torch.equal(b["total"], d["total"])
    assert torch.equal(ours.norm.running_var, theirs.norm.running_var)


@pytest.mark.slow
def test_in_the_interpreter_the_file_computes_what_the_original_does(model):
    file, path, _ = model
    code = f"""
import pathlib, torch
from kernelwright.search.module.importing import import_file
torch.manual_seed(0)  # statistics over six rows magnify rounding in some draws
path, file = pathlib.Path({str(path)!r}), pathlib.Path({str(file)!r})
ours, theirs = import_file(path).ModelNew(24).eval(), import_file(file).Model(24).eval()
ours.load_state_dict(theirs.state_dict())
x = torch.randn(6, 24)
ours, theirs = ours.train(), theirs.train()
with torch.no_grad():
    (a, b), (c, d) = ours(x), theirs(x)
torch.testing.assert_close(a, c)
torch.testing.assert_close(b["total"], d["total"])
torch.testing.assert_close(ours.norm.running_mean, theirs.norm.running_mean)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "cause"),
    [("torch.randn(", "torch.eye("), ("return", "y = x0.clone()[0]\n    return")],
    ids=["inputs", "operators"],
)
def test_a_file_that_is_no_flat_program_is_refused_with_its_line(tmp_path, text, cause):
    """A message without the line let users search for the reason in the wrong function."""
    path = tmp_path / "step.py"
    path.write_text(FLAT.replace(text, cause, 1))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if cause[:6] in text)
    with pytest.raises(UsageError) as refused:
        optimize_target(str(path), out=tmp_path / "out")
    assert refused.value.line == line
    assert refused.value.message.startswith("the file is no flat program: ")
    assert "write a Model with get_inputs" in refused.value.remedy


@pytest.mark.slow
def test_a_flat_program_becomes_one_kernel(tmp_path):
    _, path, result = optimized(tmp_path, FLAT)
    assert result["verdict"]["accepted"]
    assert result["launches"] == {"before": 3, "after": 1}
    assert "def get_inputs" in path.read_text()


RECURRENT = """
import sympy
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, int(sympy.Integer(12)), num_layers=2)

    def forward(self, x):
        _, (state, _) = self.lstm(x)
        return torch.special.i0(state)


def get_inputs():
    return [torch.randn(7, 16, 32)]


def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_a_recurrent_layer_is_written_and_the_file_keeps_what_it_imports(tmp_path):
    *_, result = optimized(tmp_path, RECURRENT)
    assert result["verdict"]["accepted"], result["verdict"]["message"]
    assert result["operators_triton"] == 1
    assert result["unknown_operators"] == ["aten.i0.default"]


def test_nothing_is_written_for_bad_input(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("def get_inputs(:\n")
    with pytest.raises(UsageError, match=r"bad\.py:1"):
        optimize_target(str(file), out=tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["module", "get_inputs", "forward"])
def test_a_target_that_exits_is_bad_input_and_not_success(tmp_path, place):
    lines = {
        "module": ("class Model", "raise SystemExit(0)\nclass Model"),
        "get_inputs": ("return [torch.randn(6, WIDTH)]", "raise SystemExit(0)"),
        "forward": ("y = torch.relu", "raise SystemExit(0)\n        y = torch.relu"),
    }
    file = tmp_path / "exits.py"
    file.write_text(MODEL.replace(*lines[place]))
    with pytest.raises(UsageError, match="exits"):
        optimize_target(str(file), out=tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_search(tmp_path):
    file = tmp_path / "flat.py"
    file.write_text(FLAT)
    with pytest.raises(UsageError, match="cannot write"):
        optimize_target(str(file), out=file, device="cpu")


def test_a_right_kernel_that_is_not_worth_keeping_is_written_on_request(tmp_path):
    file = tmp_path / "lone.py"
    file.write_text(
        "import torch\n\ndef get_inputs():\n    return [torch.randn(4, 6)]\n\n"
        "def fused_operator(x0):\n    t0 = torch.tanh(x0)\n    return [t0]\n"
    )
    out = tmp_path / "out"
    assert "slower" not in optimize_target(str(file), out=out, device="cpu", budget_s=600)
    found = optimize_target(str(file), out=out, device="cpu", budget_s=600, with_slower=True)
    assert (found["num_triton"], found["verdict"]["code"]) == (0, "no_kernel")
    assert found["outcome"]["cause"] == "not_faster"
    assert found["slower"]["verdict"]["accepted"]
    assert "@triton.jit" in (out / "slower.py").read_text()
    assert "@triton.jit" not in (out / "optimized.py").read_text()


def test_where_no_kernel_is_kept_the_file_holds_the_original(tmp_path):
    lone = MODEL.replace("y = torch.relu(self.linear(x)) * 0.5 + 1.0", "return self.linear(x)")
    file, path, result = optimized(tmp_path, lone)
    assert result["outcome"]["status"] == "unchanged"
    assert result["launches"]["before"] == result["launches"]["after"]
    ours, theirs = both(file, path)
    x = torch.randn(3, 24)
    assert torch.equal(ours(x), theirs(x)), "at any size, with gradients"


def test_a_form_that_would_launch_more_is_not_kept_without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(wholes, "saves", lambda _: False)
    _, path, result = optimized(tmp_path, FLAT)
    assert (result["outcome"]["status"], result["outcome"]["cause"]) == ("unchanged", "not_faster")
    assert "estimate" in result["outcome"]["message"]
    assert path.read_text() == FLAT


def test_a_disk_that_fails_after_the_search_keeps_the_result_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match="kernelwright-result-") as error:
        write_result(tmp_path / "taken", {"optimized.py": "x = 1\n"}, [{"record": "result"}])
    (kept,) = tmp_path.glob("kernelwright-result-*")
    assert str(kept) in error.value.remedy
    assert {each.name for each in kept.iterdir()} == {"optimized.py", "records.jsonl"}


def test_trying_the_folder_leaves_nothing_behind(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="cannot write to /proc/"):
        check_folder(Path("/proc/nothere/out"))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)

    def forward(self, x, gate=None):
        return {"y": self.norm(x) * torch.sigmoid(gate)}


@pytest.mark.slow
def test_a_module_keeps_its_interface_and_falls_back_elsewhere(monkeypatch):
    module = Gate().eval()
    x, gate = torch.randn(4, 16), torch.randn(4, 16)
    ours = kernelwright.optimize(module, (x,), {"gate": gate}, budget_s=600, policy="teacher")
    assert ours.optimization["verdict"]["accepted"]
    assert isinstance(ours, Gate)
    assert ours.norm.weight is module.norm.weight
    with pytest.raises(RuntimeError, match="no_grad"):
        ours(x, gate=gate)
    with torch.no_grad():
        for rows in (2, 4):  # another signature, and the same one on a CPU
            other = torch.randn(rows, 16)
            want, got = module(other, gate=other), ours(other, gate=other)
            assert torch.equal(want["y"], got["y"])


class Scaled(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 0.5, dim=-1)


def test_a_tensor_or_named_tensors_stand_for_a_call():
    x = torch.randn(2, 3)
    assert call_of(Gate(), x, None) == ((x,), {})
    assert call_of(Gate(), [x, x], None) == ((x, x), {})
    assert call_of(Gate(), {"x": x, "gate": x}, None) == ((), {"x": x, "gate": x})
    assert call_of(Gate(), {"y": x}, None) == (({"y": x},), {})
    with pytest.raises(UsageError, match="example_inputs is a float"):
        call_of(Gate(), 1.0, None)


@pytest.mark.slow
def test_a_forward_replaced_on_the_instance_is_what_is_optimized():
    module, x = Scaled().eval(), torch.randn(4, 16)
    module.forward = lambda x: torch.softmax(x * 3.0, dim=-1)
    steps = []
    ours = kernelwright.optimize(module, x, budget_s=600, policy="teacher", progress=steps.append)
    assert ours.optimization["outcome"]["status"] == "optimized"
    assert "3.0" in ours.optimization["source"]
    assert "forward" not in vars(ours), "the kernels would never run"
    with torch.no_grad():
        assert torch.equal(ours(x), module(x)), "on a CPU, as replaced"
        assert torch.equal(copy.deepcopy(ours)(x), module(x))
    stages = [step.stage for step in steps]
    assert stages[0] == "lowering"
    assert "writing and judging kernels" in stages
    assert all(step.budget_s == 600 for step in steps)
    assert [step.spent_s for step in steps] == sorted(step.spent_s for step in steps)
    assert "1 kernel saves" in steps[-1].best


def test_weights_that_are_no_numbers_are_warned_of_by_name():
    module = Gate()
    module.norm.weight.data[3] = math.nan
    with pytest.warns(UserWarning, match=r"parameter norm\.weight holds NaN"):
        warn_of_weights(module)


def test_an_interrupted_call_raises_with_the_best_module(monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "proposed", interrupted)
    x = torch.randn(4, 16)
    with pytest.raises(kernelwright.SearchInterrupted) as stop:
        kernelwright.optimize(Scaled(), x, budget_s=600, policy="teacher")
    with torch.no_grad():
        assert torch.equal(stop.value.module(x), Scaled()(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "kill"),
    [
        (signal.SIGINT, "os.killpg(0, signal.SIGINT)"),  # as a terminal does
        (signal.SIGTERM, "os.kill(os.getpid(), signal.SIGTERM)"),
    ],
)
def test_a_signal_writes_the_best_result_so_far(tmp_path, number, kill):
    file, out = tmp_path / "flat.py", tmp_path / "out"
    file.write_text(TWO_PARTS)
    code = f"""
import os, pathlib, signal, time
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions
def stop(step):
    if step.best and not sent:
        sent.append(1)
        {kill}
        time.sleep(60)  # the signal arrives here, and in no destructor that would swallow it
sent = []
# A process that was started in the background may have inherited that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
options = SearchOptions(device="cpu", policy="teacher")
optimize_target({str(file)!r}, options, out=pathlib.Path({str(out)!r}), progress=stop)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    *_, result = record.read(out / "records.jsonl")
    assert faults_in(out / "records.jsonl") == set()
    assert result["outcome"]["cause"] == "interrupted"
    assert result["interrupted_by"] == number.name
    assert result["outcome"]["status"] == "optimized"
    assert "@triton.jit" in (out / "optimized.py").read_text()


class Frozen(nn.Sequential):
    """Its statistics stay as they are in both modes."""

    def train(self, mode: bool = True):
        super().train(mode)
        self[0].eval()
        return self


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm1d(4).eval(),
        nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4)).eval(),
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)).eval(),
    ],
    ids=["statistics", "used statistics", "inside", "dropout"],
)
def test_a_module_that_surely_uses_its_mode_is_not_captured_twice(module):
    lowered = lower(module, (torch.randn(6, 4),))
    assert depends_on_mode(module, lowered, lambda: pytest.fail("captured again"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [nn.ReLU(), nn.Dropout(0.0), Frozen(nn.BatchNorm1d(4)).eval()],
    ids=["no mode", "dropout of nothing", "frozen statistics"],
)
def test_a_module_that_computes_the_same_in_both_modes_is_captured_twice(module):
    x = torch.randn(6, 4)
    lowered = lower(module, (x,))
    assert not depends_on_mode(module, lowered, lambda: lower(module.train(), (x,)))
