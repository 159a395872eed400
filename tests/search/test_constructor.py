"""An optimized module refuses arguments of its constructor that its kernels were not made for."""

import math

import pytest
import torch

from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.module.constructor import literal
from kernelwright.search.module.emit import model_file
from kernelwright.search.module.guards import LoweredModule
from kernelwright.search.module.importing import import_file
from kernelwright.verify.static import findings

OWN = '''
    def __init__(self, scale, names=("a",), *more, limit=None, **rest):
        """With a docstring."""
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.relu(x) * self.scale
'''
SHORT = """
    def __init__(self, scale): super().__init__(); self.scale = scale

    def forward(self, x):
        return torch.relu(x) * self.scale
"""
INHERITED = """
    def forward(self, x):
        return torch.relu(x) * self.scale
"""
BASE = """
import torch


class Base(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale


class Model({}):
"""


@pytest.fixture
def written(tmp_path):
    """The class of the file that is written for a body of `Model`, and the file's text."""

    def write(body, arguments, base="torch.nn.Module"):
        source = BASE.format(base) + body
        path = tmp_path / "original.py"
        path.write_text(source)
        module = import_file(path).Model(*arguments[0], **arguments[1])
        lowered = lower(module, (torch.randn(3, 4),))
        composed = compose(lowered.program, []).source
        text = model_file(
            source,
            LoweredModule(module=module, lowered=lowered, is_for_one_mode=False),
            composed,
            arguments=arguments,
        )
        path = tmp_path / "optimized.py"
        path.write_text(text)
        return import_file(path).ModelNew, text

    return write


@pytest.mark.parametrize(
    ("body", "base"),
    [(OWN, "torch.nn.Module"), (SHORT, "torch.nn.Module"), (INHERITED, "Base")],
    ids=["own", "short", "inherited"],
)
def test_another_number_is_refused_and_the_same_is_not(written, body, base):
    kind, text = written(body, ([2.0], {}), base)
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert torch.equal(kind(2.0)(x), torch.relu(x) * 2.0)
    with pytest.raises(ValueError, match=r"3\.5.*optimized for .*2\.0.*kernelwright optimize"):
        kind(3.5)
    refused = {finding.rule for finding in findings(text, "hybrid", "ModelNew", hints=False)}
    assert refused == {"kernel"}, "there is none in it, and nothing else is wrong"


def test_arguments_are_compared_by_name_and_with_defaults(written):
    kind, _ = written(OWN, ([2.0], {"limit": math.inf, "kind": "x"}))
    assert kind(scale=2.0, names=("a",), kind="x", limit=math.inf).scale == 2.0
    assert kind.__init__.__doc__ == "With a docstring."
    for wrong in (
        {"limit": 1.0},
        {"names": ("b",)},
        {"kind": "y"},
        {"another": 1},
        {"limit": None},
    ):
        with pytest.raises(ValueError, match="optimized for"):
            kind(**{"scale": 2.0, "kind": "x", "limit": math.inf} | wrong)


def test_what_is_no_plain_value_is_not_compared(written):
    kind, text = written(OWN, ([2.0, torch.float32], {}))
    assert kind(2.0, torch.float16).scale == 2.0
    assert 'expect_value("names"' not in text.replace("'", '"')
    with pytest.raises(ValueError, match="scale is 1"):
        kind(1.0, torch.float32)


@pytest.mark.parametrize(
    "value", [None, True, 3, -0.5, "a'b", [1, (2,), ()], {"a": [1.5], 2: None}, (math.inf,)]
)
def test_literals_are_read_as_the_value(value):
    text = literal(value)
    assert eval(text) == value
    assert type(eval(text)) is type(value)


def test_other_values_have_no_literal():
    assert literal(torch.ones(1)) is None
    assert literal([1, torch.float32]) is None
    assert literal({"a": object()}) is None
    assert literal(math.nan) is None
