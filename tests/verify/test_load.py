"""Reference files: what loads, and what a user is told about one that does not."""

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.verify.tasks.load import available_bytes, load_task
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import CPU, FunctionTask

MODEL = """\
import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, 3)

    def forward(self, x, scale):
        return self.linear(x) * scale


def get_inputs():
    return [torch.randn(4, 5), 2.0]


def get_init_inputs():
    return [5]
"""

FLAT = """\
import torch


def get_inputs():
    x0 = torch.randn((4, 5), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.relu(x0)
    return [t0]
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "reference.py"
        path.write_text(text)
        return load_task(path)

    return load_text


def test_a_model_file_is_a_module_task_with_its_inputs(load):
    task = load(MODEL)
    assert isinstance(task, ModuleTask)
    assert task.entry == "ModelNew"
    tensor, scale = task.inputs(0, "plain", CPU)
    assert tensor.shape == (4, 5)
    assert scale == 2.0
    answer = task.expected([tensor, scale], 0, CPU)
    assert answer.outputs.native[0].dtype is torch.float32
    assert answer.outputs.oracle[0].dtype is torch.float64


def test_keyword_arguments_of_the_constructor_are_passed(load):
    text = MODEL.replace("return [5]", "return [[], {'features': 5}]")
    assert set(load(text).state(CPU)) == {"linear.weight", "linear.bias"}


def test_a_flat_file_is_a_program_task(load):
    task = load(FLAT)
    assert isinstance(task, ProgramTask)
    assert task.entry == "fused_operator"


def test_a_flat_file_that_is_no_program_is_run_as_it_is(load):
    task = load(FLAT.replace("t0 = torch.relu(x0)", "t0 = torch.stack([x0 + i for i in range(3)])"))
    assert isinstance(task, FunctionTask)
    inputs = task.inputs(0, "plain", CPU)
    assert task.expected(inputs, 0, CPU).outputs.native[0].shape == (3, 4, 5)


def test_a_factory_is_lowered_to_a_program(tmp_path, monkeypatch):
    (tmp_path / "made_here.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.ReLU(), (torch.randn(3, 4),)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = load_task("made_here:make")
    assert isinstance(task, ProgramTask)
    assert task.inputs(0, "plain", CPU)[0].shape == (3, 4)


def test_a_candidate_for_a_factory_may_import_the_packages_of_its_classes(tmp_path, monkeypatch):
    (tmp_path / "results_here.py").write_text(
        "import dataclasses, torch\n\n@dataclasses.dataclass\nclass Result:\n"
        "    value: torch.Tensor\n"
    )
    (tmp_path / "models_here.py").write_text(
        "import torch\nfrom results_here import Result\n\nclass Wrapped(torch.nn.Module):\n"
        "    def forward(self, x):\n        return Result(torch.relu(x))\n\n"
        "def make():\n    return Wrapped(), {'x': torch.randn(3, 4)}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task = load_task("models_here:make")  # the dict stands for keyword inputs
    assert task.text.splitlines() == ["import models_here", "import results_here"]


BAD = {
    "syntax_error": (MODEL.replace("def get_inputs():", "def get_inputs("), 13, "py_compile"),
    "neither_entry": ("import torch\nx = 1\n", None, "define Model"),
    "no_get_inputs": (MODEL.replace("get_inputs", "make_inputs"), None, "get_inputs"),
    "import_fails": ("import torch\nimport no_such_package\n", 2, "mend the file"),
    "get_inputs_raises": (MODEL.replace("torch.randn(4, 5)", "torch.randn(4, -5)"), 14, "mend"),
    "inputs_are_no_list": (
        MODEL.replace("return [torch.randn(4, 5), 2.0]", "return 3"),
        None,
        "list",
    ),
    "an_input_is_odd": (MODEL.replace("2.0]", "object()]"), None, "tensors and plain numbers"),
    "not_a_module": (
        "class Model:\n    pass\n\ndef get_inputs():\n    return []\n",
        None,
        "derive",
    ),
    "constructor_raises": (MODEL.replace("return [5]", "return [5, 6, 7]"), None, "mend"),
    "constructor_raises_inside": (MODEL.replace("features, 3", "features, 'x'"), 7, "mend"),
}


@pytest.mark.parametrize(("text", "line", "remedy"), BAD.values(), ids=BAD)
def test_a_bad_file_is_named_with_line_and_remedy(load, text, line, remedy):
    with pytest.raises(UsageError) as raised:
        load(text).inputs(0, "plain", CPU)
    assert raised.value.file.endswith("reference.py")
    assert raised.value.line == line
    assert remedy in raised.value.remedy


def test_a_tensor_too_big_for_the_machine_is_refused_before_it_is_made(load):
    elements = available_bytes(CPU) // 4
    with pytest.raises(UsageError, match=r"too big for this machine: input 0 \[\d+\]") as raised:
        load(MODEL.replace("torch.randn(4, 5)", f"torch.randn({elements})"))
    assert "GiB" in raised.value.message


def test_parameters_too_big_for_the_machine_are_named(load):
    features = available_bytes(CPU) // 4
    with pytest.raises(UsageError, match=r"too big for this machine: linear.weight"):
        load(MODEL.replace("return [5]", f"return [{features}]"))


def test_a_reference_that_fails_on_its_inputs_is_the_users_to_mend(load):
    task = load(MODEL.replace("torch.randn(4, 5)", "torch.randn(4, 6)"))
    with pytest.raises(UsageError, match="fails on its own inputs"):
        task.expected(task.inputs(0, "plain", CPU), 0, CPU)


def test_a_reference_that_returns_no_tensor_is_refused(load):
    task = load(MODEL.replace("self.linear(x) * scale", "float(x.sum())"))
    with pytest.raises(UsageError, match="returns float"):
        task.expected(task.inputs(0, "plain", CPU), 0, CPU)


def test_a_factory_that_raises_is_named_with_line_and_remedy(tmp_path, monkeypatch):
    (tmp_path / "raises_here.py").write_text("def make():\n    raise ValueError('no weights')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"ValueError: no weights") as raised:
        load_task("raises_here:make")
    assert (raised.value.file, raised.value.line) == (str(tmp_path / "raises_here.py"), 2)
    assert "mend the factory" in raised.value.remedy
    with pytest.raises(UsageError, match="raises_here has no function 'made'"):
        load_task("raises_here:made")


@pytest.mark.parametrize(
    "spec", ["missing.py", "no.such.module:factory", "math:pi", "torch:tensor"]
)
def test_a_name_that_leads_nowhere_is_refused(spec):
    with pytest.raises(UsageError):
        load_task(spec)


@pytest.mark.parametrize("training", [True, False, None])
def test_the_caller_may_choose_the_mode_of_a_module(tmp_path, training):
    path = tmp_path / "reference.py"
    path.write_text(MODEL)
    task = load_task(path, training=training)
    is_training = training is not False  # None: as the constructor leaves the module
    assert task.training is is_training
    assert task.with_arguments(([7], {})).training is is_training
    assert task.in_other_mode().training is not is_training
