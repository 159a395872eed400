"""`kernelwright lint` on files: modules as their authors draw them, and what has no program."""

from functools import partial

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.lint.gaps import Allowed, gap
from kernelwright.verify.linting import task as lint_task
from kernelwright.verify.linting.task import lint
from kernelwright.verify.tasks.small_draws import resampled, small_draw
from kernelwright.verify.values import compare


@pytest.fixture
def linted(tmp_path):
    """The report on a module's file; `inputs` and `body` are source text."""

    def write(body, inputs="[torch.rand(64, 48)]", init="pass", **options):
        path = tmp_path / "task.py"
        path.write_text(
            "import torch\n\n\n"
            "class Model(torch.nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n"
            f"        {init}\n\n"
            f"    def forward(self, x, *rest):\n        {body}\n\n\n"
            f"def get_inputs():\n    return {inputs}\n"
        )
        return lint(path, device="cpu", **options)

    return write


def ids(report):
    return {each.id for each in report.findings}


LINEAR = "self.linear = torch.nn.Linear(48, 32)"


@pytest.mark.slow
def test_a_module_is_called_with_its_own_inputs_and_parameters(linted):
    assert "identity" in ids(linted("return torch.relu(x)"))
    assert "identity" not in ids(linted("return torch.relu(x)", "[torch.randn(64, 48)]"))
    clean = linted("return torch.tanh(self.linear(x) * 4)", "[torch.randn(64, 48)]", LINEAR)
    assert clean.findings == ()
    assert (clean.task.rpartition("/")[2], clean.device) == ("task.py", "cpu")


def test_norms_with_affine_weights_of_ones_are_affine(linted):
    init = "self.norm = torch.nn.BatchNorm1d(8)"
    report = linted("return self.norm(x)", "[torch.rand(131072, 8)]", init)
    assert {"affine"} <= ids(report)
    assert report.notes == ("a call updates 3 buffers",)


def test_a_parameter_without_effect_is_found(linted):
    init = "self.linear = torch.nn.Linear(48, 32); self.norm = torch.nn.BatchNorm1d(32)"
    report = linted("return self.norm(self.linear(x))", "[torch.randn(64, 48)]", init)
    (found,) = [each for each in report.findings if each.id == "ignores_parameter"]
    assert "linear.bias" in found.message
    assert "cancelled_operator" in ids(report)
    report = linted("return self.linear(x).tanh()", "[torch.randn(64, 48)]", LINEAR)
    assert "ignores_parameter" not in ids(report)


def test_state_that_a_call_leaves_behind_is_found(linted):
    stateful = linted(
        "self.count.add_(1); return torch.sin(x) * self.count",
        init="self.register_buffer('count', torch.zeros(()))",
    )
    assert "stateful_reference" in ids(stateful)
    hidden = linted("self.last = torch.sin(x); return self.last", init="self.last = torch.ones(1)")
    assert "hidden_state" in ids(hidden)
    still = linted("last = torch.sin(x); return last", init="self.last = torch.ones(1)")
    assert not {"hidden_state", "stateful_reference"} & ids(still)


def test_chance_is_found_and_eval_mode_has_none(linted):
    init = "self.drop = torch.nn.Dropout(0.3)"
    assert "random_reference" in ids(linted("return self.drop(x)", init=init))
    assert "random_reference" not in ids(linted("return self.drop(x)", init=f"{init}; self.eval()"))


def test_inputs_that_forward_changes_in_place_do_not_spoil_the_checks(linted):
    assert "stateful_reference" not in ids(linted("return x.mul_(2).sin_()"))


def test_what_cannot_be_captured_is_called_all_the_same(linted):
    report = linted("return torch.relu(x) if x.sum() > 0 else x")
    assert "identity" in ids(report)
    assert "not captured as a program" in report.not_checked[0]


@pytest.mark.slow
def test_a_large_module_is_scaled_down_on_a_cpu_with_its_own_distribution(linted):
    inputs = "[torch.rand(16384, 16384) + 0.25]"
    report = linted("return torch.nn.functional.selu(x)", inputs)
    assert report.scaled
    assert "affine" in ids(report)
    assert "identity" in ids(linted("return torch.clamp(x, 0.25, 1.25)", inputs))
    init = "self.scale = torch.nn.Parameter(torch.randn(16384))"
    report = linted("return torch.relu(x) + self.scale * 1e-6", inputs, init)
    (found,) = [each for each in report.findings if each.id == "identity"]
    assert (found.input, "input 0 in place" in found.message) == (0, True)
    assert "identity" not in ids(linted("return torch.clamp(x, 0.3, 1.25)", inputs))


def test_what_is_too_large_and_no_program_is_named(linted, monkeypatch):
    monkeypatch.setattr(lint_task, "CPU_BYTES", 100)
    report = linted("return torch.relu(x) if x.sum() > 0 else x")
    assert report.findings == ()
    assert "too large for this machine" in report.not_checked[1]


def test_capped_draws_still_fit_together():
    def get_inputs():
        mask = torch.ones(5000, 5000).tril()
        a = torch.rand(5000, 70) @ torch.randn(size=(70, 5000))
        return [a * mask, torch.randint(0, 9, (5000,)), 3.0, torch.randint(high=7, size=(4,))]

    values, indices, number, more = small_draw(get_inputs, 2, 0)
    assert values.numel() == 256 * 256
    assert indices is number is more is None


def test_values_are_taken_once_where_there_are_enough():
    values = torch.rand(600)
    assert resampled(values, (20, 30), 1).unique().numel() == values.unique().numel()
    assert set(resampled(values, (40, 30), 1).flatten().tolist()) <= set(values.tolist())


def test_a_file_that_fails_is_the_users(linted, tmp_path):
    with pytest.raises(UsageError, match="fails on its own inputs"):
        linted("return x @ x")
    with pytest.raises(UsageError, match="no such file"):
        lint(tmp_path / "gone.py")


def test_a_flat_program_and_a_function_that_is_more_are_linted(tmp_path):
    text = "import torch\ndef get_inputs():\n    return [torch.rand(9, 9)]\n"
    flat, more = tmp_path / "flat.py", tmp_path / "more.py"
    flat.write_text(f"{text}def fused_operator(x):\n    y = torch.relu(x)\n    return [y]\n")
    loop = "    for _ in range(2):\n        x = torch.relu(x)\n    return [x]\n"
    more.write_text(f"{text}def fused_operator(x):\n{loop}")
    for path in (flat, more):
        assert "identity" in ids(lint(path, device="cpu"))


@pytest.mark.parametrize("special", [None, "both", "native"])
@pytest.mark.parametrize("size", [1, 5, 4096])
def test_errors_and_bounds_are_the_judges_where_elements_are_few_or_not_finite(special, size):
    oracle = torch.randn(size, 4, generator=torch.Generator().manual_seed(1)).double()
    native = (oracle * (1 + 1e-5 * oracle.sin())).float()
    if special:
        native[0, :3] = torch.inf
    if special == "both":
        oracle[0, :3] = torch.inf
    y = torch.where(native.isfinite(), native * 1.001, native)
    judged = compare.compare((y,), compare.Expected(native=(native,), oracle=(oracle,)), "strict")
    allowed = Allowed.by_oracle(native, oracle)
    close = partial(pytest.approx, rel=1e-6)
    assert allowed.rms == close(judged.errors.rms_allowed)
    assert allowed.largest == close(judged.errors.max_allowed)
    if special != "native":
        mine = gap(oracle, y)
        assert mine.rms == close(judged.errors.rms_candidate)
        assert mine.largest == close(judged.errors.max_candidate)
