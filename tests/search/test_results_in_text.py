"""Files that `optimize` writes for modules that return caches, dataclasses and other objects."""

import sys

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.fragments.compose import compose
from kernelwright.search.target import load_target

FACTORIES = """
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

TABLE = torch.arange(5000.0)
Point = namedtuple("Point", "x y")


@dataclass
class Out:
    value: torch.Tensor
    extra: Any = None


class State:
    def __init__(self):
        self.kept, self.steps, self.dtype = None, 0, torch.float32


class Objects(nn.Module):
    def forward(self, x, state, flag=True):
        state.kept = x if state.kept is None else torch.cat([state.kept, x])
        state.steps += 1
        named = OrderedDict(a=x + 1)
        return Out(state.kept * 2, extra=(Point(x, [None, 3, "text"]), named)), state


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {"bias": torch.arange(5000.0)}

    def forward(self, x):
        return (x.to(torch.complex64) * 2j + self.tables["bias"],)


class Elsewhere(nn.Module):
    def forward(self, x):
        return x + TABLE


def objects():
    return Objects(), (torch.randn(2, 3), State()), {"flag": True}


def holds():
    return Holds(), (torch.randn(5000),)


def elsewhere():
    return Elsewhere(), (torch.randn(5000),)


def local():
    @dataclass
    class Inside:
        value: torch.Tensor

    class Returns(nn.Module):
        def forward(self, x):
            return Inside(x + 1)

    return Returns(), (torch.randn(3),)
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "object_factories.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "object_factories", raising=False)
    import object_factories

    return object_factories


def written(name: str):
    """The functions of the file that is written where nothing becomes Triton."""
    target = load_target(f"object_factories:{name}", torch.device("cpu"))
    names: dict[str, object] = {}
    exec(target.write(compose(target.program, []).source), names)
    return names


def test_a_file_rebuilds_objects_and_changes_those_it_is_given(factories):
    names = written("objects")
    x, ours, theirs = torch.randn(2, 3), factories.State(), factories.State()
    module = factories.Objects()
    expected, _ = module(x, theirs, flag=True)
    result, state = names["attach"](factories.Objects())(x, ours, flag=True)
    assert state is ours
    assert vars(ours).keys() == vars(theirs).keys()
    assert (ours.steps, ours.dtype) == (1, torch.float32)
    assert isinstance(result, factories.Out)
    torch.testing.assert_close((result.value, ours.kept), (expected.value, theirs.kept))
    assert type(result.extra[0]) is factories.Point
    assert result.extra[0].y == [None, 3, "text"]
    torch.testing.assert_close(result.extra[1]["a"], x + 1)
    ours, theirs = factories.State(), factories.State()
    expected, _ = module(x, theirs, flag=False)
    result, _ = names["attach"](factories.Objects())(x, ours, flag=False)
    torch.testing.assert_close((result.value, ours.kept), (expected.value, theirs.kept))


def test_a_file_reads_tables_where_the_module_holds_them(factories):
    module, x = factories.Holds(), torch.randn(5000)
    expected = module(x)
    torch.testing.assert_close(written("holds")["attach"](module)(x), expected)


@pytest.mark.parametrize(
    ("name", "words"),
    [("elsewhere", "constant tensor of 5000 elements"), ("local", "no file can import")],
)
def test_what_cannot_be_written_is_refused_before_the_search(factories, name, words):
    with pytest.raises(UsageError, match=words) as caught:
        load_target(f"object_factories:{name}", torch.device("cpu"))
    assert caught.value.remedy
