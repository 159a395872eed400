"""Settings read strictly from TOML: an unknown key or a wrong type is an error, never ignored."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.text import read_text

Settings = TypeVar("Settings")
_WORD = re.compile(r"[\w./~][\w./~:#@+-]*")
"""A name, a path or an address."""


def load(path: Path, make: Callable[[Mapping[str, Any]], Settings]) -> Settings:
    """The value that `make` returns for a TOML file's table.

    Raises:
        UsageError: the file cannot be read or is no TOML, or `make` refuses it; names the file.
    """
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = "give a file in TOML"
        raise UsageError(f"not TOML: {error}", file=str(path), remedy=remedy) from error
    try:
        return make(values)
    except UsageError as error:
        raise UsageError(error.message, file=str(path), remedy=error.remedy) from error


def changed(values: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The values after some changes. Tables are merged; other values are replaced.

    Args:
        values: as TOML is read. They are not changed themselves.
        changes: "table.key = value" each, in TOML. A word without quotes is a text, because a shell
            removes the quotes.

    Raises:
        UsageError: a change is not TOML.
    """
    merged = dict(values)
    for change in changes:
        try:
            merged = _merged(merged, _table(change))
        except tomllib.TOMLDecodeError as error:
            remedy = "write table.key=5, table.key=word or 'table.key=[\"text\"]'"
            raise UsageError(f"{change!r}: {error}", remedy=remedy) from error
    return merged


def _table(change: str) -> dict[str, Any]:
    """The table of one line of TOML, whose value may be a word without quotes."""
    try:
        return tomllib.loads(change)
    except tomllib.TOMLDecodeError:
        key, _, value = change.partition("=")
        if not _WORD.fullmatch(value.strip()):
            raise
        return tomllib.loads(f"{key} = {json.dumps(value.strip())}")


def _merged(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, other in others.items():
        own = merged.get(name)
        both = isinstance(own, Mapping) and isinstance(other, Mapping)
        merged[name] = _merged(own, other) if both else other  # type: ignore[arg-type]
    return merged


def read(kind: type[Settings], values: Any, where: str = "") -> Settings:
    """Make a dataclass of plain values, as TOML or JSON has them. Tables become dataclasses.

    Fields are of type bool, int, float, str, StrEnum, tuple[X, ...], tuple[X, Y], Mapping[str, X],
    another such dataclass, Any, or several of these with `|`. A value that has its field's type
    already stays as it is.

    Args:
        where: the values' place in the file, for messages, such as "objective".

    Raises:
        UsageError: an unknown key, one that is missing, or a value of another type.
    """
    if not isinstance(values, Mapping):
        raise UsageError(f"{where or 'the file'} = {values!r}", remedy="it is to be a table")
    types = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - types.keys()):
        known = ", ".join(sorted(types)) or "none"
        raise UsageError(f"no setting {_dotted(where, unknown[0])!r}", remedy=f"there are: {known}")
    needed = {
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    }
    if missing := sorted(needed - values.keys()):
        raise UsageError(f"{_dotted(where, missing[0])!r} is not given", remedy="add it")
    fields_read = {
        name: _value(types[name], value, _dotted(where, name)) for name, value in values.items()
    }
    return kind(**fields_read)


def _value(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, UnionType):
        kind = _one_of(kind, value)
    if kind is Any:
        return _frozen(value)
    # By the exact type: in Python a bool is an int, and `true` must not pass for a number.
    if type(value) is kind:
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return read(kind, value, where)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return _tuple(get_args(kind), value, where)
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        item = get_args(kind)[1]
        return {
            name: _value(item, element, _dotted(where, name)) for name, element in value.items()
        }
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(value)
        raise UsageError(f"{where} = {value!r}", remedy=f"choose from {', '.join(kind)}")
    if kind is float and type(value) is int:
        return float(value)
    wanted = kind.__name__ if isinstance(kind, type) else str(kind)
    raise UsageError(f"{where} = {value!r}", remedy=f"give a value of type {wanted}")


def _one_of(kinds: UnionType, value: Any) -> Any:
    """The type of a union that the value has, or else the first, which the error then names."""
    known = get_args(kinds)
    return next((option for option in known if type(value) is option), known[0])


def _tuple(kinds: tuple[Any, ...], values: list[Any] | tuple[Any, ...], where: str) -> Any:
    """A tuple of converted items. Messages name an item by its number, from 1."""
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(values)
    elif len(kinds) != len(values):
        raise UsageError(f"{where} = {list(values)!r}", remedy=f"give {len(kinds)} values")
    pairs = enumerate(zip(kinds, values, strict=True), 1)
    return tuple(_value(kind, value, f"{where} {number}") for number, (kind, value) in pairs)


def _frozen(value: Any) -> Any:
    """The value with tuples for lists, at any depth."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, Mapping):
        return {key: _frozen(item) for key, item in value.items()}
    return value


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings that are read from a file."""

    @classmethod
    def load(cls, path: Path, changes: Sequence[str] = ()) -> Self:
        """Read a recipe from a TOML file. File names in the recipe are relative to the current
        folder.

        Args:
            changes: settings that replace those of the file, each as "optimizer.clip = 0.5".

        Raises:
            UsageError: the file cannot be read, or has a setting that the recipe does not have.
        """
        return load(path, lambda values: read(cls, changed(values, changes)))

    def to_json(self) -> Record:
        """The settings as a nested dictionary, for a record."""
        return asdict(self)
