"""Settings read strictly from TOML: an unknown key or a wrong type is an error, never ignored."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from kernelwright.core import toml
from kernelwright.core.errors import UsageError

Settings = TypeVar("Settings")


def load(kind: type[Settings], path: Path) -> Settings:
    """A dataclass from a TOML file; tables are dataclasses within it.

    Raises:
        UsageError: the file cannot be read, or says what the dataclass does not know.
    """
    return toml.load(path, lambda values: read(kind, values))


def read(kind: type[Settings], values: Mapping[str, Any], where: str = "") -> Settings:
    """A dataclass from plain values, as TOML or JSON has them.

    Fields are of type bool, int, float, str, StrEnum, tuple[X, ...], Mapping[str, X], another such
    dataclass, or `X | None`.

    Raises:
        UsageError: an unknown key, one that is missing, or a value of another type.
    """
    types = get_type_hints(kind)
    if unknown := sorted(values.keys() - types.keys()):
        known = ", ".join(sorted(types))
        raise UsageError(f"no setting {_dotted(where, unknown[0])!r}", remedy=f"there are: {known}")
    needed = {
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    }
    if missing := sorted(needed - values.keys()):
        raise UsageError(f"{_dotted(where, missing[0])!r} is not given", remedy="add it")
    made = {
        name: _value(types[name], value, _dotted(where, name)) for name, value in values.items()
    }
    return kind(**made)


def _value(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        return read(kind, value, where)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_value(get_args(kind)[0], each, where) for each in value)
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        item = get_args(kind)[1]
        return {name: _value(item, each, _dotted(where, name)) for name, each in value.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value in list(kind):
            return kind(value)
        raise UsageError(f"{where} = {value!r}", remedy=f"choose from {', '.join(kind)}")
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind:
        return value
    wanted = kind.__name__ if isinstance(kind, type) else str(kind)
    raise UsageError(f"{where} = {value!r}", remedy=f"it is to be of type {wanted}")


def _dotted(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
