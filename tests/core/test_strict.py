"""Settings are read strictly: what is unknown, missing or of another type is named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from kernelwright.core import strict
from kernelwright.core.errors import UsageError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    rate: float = 0.5
    colour: Colour = Colour.RED
    files: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    inner: Inner = Inner()
    maybe: Inner | None = None
    limit: int | None = None
    inners: tuple[Inner, ...] = ()
    range: tuple[int | float, int | float] = (0, 1)
    options: Mapping[str, Any] = field(default_factory=dict)


def of(values):
    return strict.read(Outer, values)


def test_toml_of_every_type_is_read(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(
        'name = "n"\nrate = 2\ncolour = "blue"\nfiles = ["a", "b"]\nlimit = 3\n'
        "range = [1, 2.5]\n[weights]\none = 1\n[inner]\nsize = 5\n[maybe]\n"
        "[options]\ndeep = [[1], 2]\n[[inners]]\n[[inners]]\nsize = 2\n"
    )
    read = strict.load(path, of)
    assert read == Outer(
        name="n", rate=2.0, colour=Colour.BLUE, files=("a", "b"), limit=3,
        weights={"one": 1.0}, inner=Inner(size=5), maybe=Inner(), inners=(Inner(), Inner(size=2)),
        range=(1, 2.5), options={"deep": ((1,), 2)},
    )  # fmt: skip
    assert isinstance(read.rate, float)
    assert type(read.range[0]) is int


def test_what_is_made_already_stays():
    inner = Inner(size=7)
    assert strict.read(Outer, {"name": "n", "inner": inner, "maybe": None}).inner is inner


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"name": "n", "nmae": 1}, "nmae"),
        ({}, "'name' is not given"),
        ({"name": 1}, "name = 1"),
        ({"name": "n", "rate": "fast"}, "rate = 'fast'"),
        ({"name": "n", "limit": True}, "limit = True"),
        ({"name": "n", "limit": 1.5}, "limit = 1.5"),
        ({"name": "n", "colour": "green"}, "colour = 'green'"),
        ({"name": "n", "files": "a"}, "files = 'a'"),
        ({"name": "n", "inner": {"siez": 1}}, "inner.siez"),
        ({"name": "n", "weights": {"a": "b"}}, "weights.a"),
        ({"name": "n", "inner": 3}, "inner = 3"),
        ({"name": "n", "files": ["a", 2]}, "files 2 = 2"),
        ({"name": "n", "inners": [{}, {"siez": 1}]}, "inners 2.siez"),
        ({"name": "n", "range": [1]}, "range = [1]"),
        ({"name": "n", "range": [1, "2"]}, "range 2 = '2'"),
        ({"name": "n", "options": 1}, "options = 1"),
        ([], "[]"),
    ],
)
def test_what_does_not_fit_is_named(values, named):
    with pytest.raises(UsageError) as caught:
        strict.read(Outer, values)
    assert named in caught.value.message
    assert caught.value.remedy


def test_a_file_that_is_no_toml_is_named(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text("name =")
    with pytest.raises(UsageError, match=r"x\.toml"):
        strict.load(path, of)


def test_changes_are_toml_and_replace_what_they_name_alone():
    values = {"a": {"x": 1, "y": {"z": 2.0}}, "b": "text"}
    found = strict.changed(values, ["a.y.z = 3", 'c="new"', "a.w=[1, 2]"])
    assert found == {"a": {"x": 1, "y": {"z": 3}, "w": [1, 2]}, "b": "text", "c": "new"}
    assert values == {"a": {"x": 1, "y": {"z": 2.0}}, "b": "text"}
    assert strict.changed(values, []) == values


def test_a_changed_text_needs_no_quotes():
    words = ["model.path=models/a-1.5b", "writer.policy=openai:http://h:1/v1#m", "model.layers=5"]
    model = {"path": "models/a-1.5b", "layers": 5}
    assert strict.changed({}, words) == {
        "model": model,
        "writer": {"policy": "openai:http://h:1/v1#m"},
    }


@pytest.mark.parametrize("text", ["colour=dark red", "light colour=red", "colour=", "colour"])
def test_a_change_that_is_no_toml_is_named(text):
    with pytest.raises(UsageError, match=text) as caught:
        strict.changed({}, [text])
    assert "text" in caught.value.remedy
