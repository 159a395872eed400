"""Recipes in TOML: plain data into dataclasses, which refuse what they do not know."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from kernelwright.core.errors import UsageError

T = TypeVar("T")


def load(path: Path, read: Callable[[Mapping[str, Any]], T]) -> T:
    """What `read` makes of the file's table.

    Raises:
        UsageError: the file is no TOML, or `read` refuses it; names the file.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(str(error), file=str(path), remedy="give a recipe in TOML") from error
    try:
        return read(values)
    except UsageError as error:
        raise UsageError(error.message, file=str(path), remedy=error.remedy) from error


def strictly(kind: Any, values: Mapping[str, Any], prefix: str, *, see: str) -> Any:
    """A dataclass of these fields; lists become tuples.

    Args:
        prefix: where in the file the table stands, e.g. "sizes.".
        see: the page that says what there is.

    Raises:
        UsageError: a field that it does not have, one that it lacks, or one of the wrong kind.
    """
    known = {f.name for f in fields(kind)}
    if unknown := sorted(values.keys() - known):
        remedy = f"choose from {', '.join(sorted(known))}"
        raise UsageError(f"no field {prefix}{unknown[0]!r}", remedy=remedy)
    try:
        return kind(**{name: _tuples(value) for name, value in values.items()})
    except TypeError as error:
        where = prefix.rstrip(".") or "recipe"
        raise UsageError(f"{where}: {error}", remedy=f"see {see}") from error


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return value
