"""Records: one JSON object a line, and the environment every run's first record carries."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from kernelwright.core.errors import UsageError
from kernelwright.core.text import decoded

Record = dict[str, Any]
"""A line whose kind is not known; `core.kinds` has the fields of each kind."""

Kind = TypeVar("Kind")

_PACKAGE = Path(__file__).parents[1]

REMEDY = "mend or delete the line: a file of records holds one JSON object a line"
RESUME = "continue with the settings that it was begun with, or give another --out"
DAMAGED = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError)
"""Errors of code that reads fields which are missing, or which have values of another type."""
PACKAGES = ("kernelwright", "torch", "triton", "numpy")
"""The packages whose versions every environment names."""


def append(path: Path, records: Iterable[Record]) -> None:
    """Add records to a JSONL file, creating it and its folder; keys keep their order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, allow_nan=False) + "\n")


def begin(path: Path, head: Record, packages: Iterable[str] = PACKAGES) -> None:
    """Append the head of a run with the environment, unless the last head of the file is the same.

    So a run that continues at another commit, or on another machine, has a new head before its next
    cases.

    Args:
        head: the record without its field `environment`.

    Raises:
        UsageError: a line of the file is not a record.
    """
    head = {**head, "environment": environment(packages)}
    lines = read(path) if path.exists() else iter(())
    last_head = None
    for line in lines:
        last_head = line if line.get("record") == head["record"] else last_head
    if last_head != json.loads(json.dumps(head)):  # as the file would return the head
        append(path, [head])


def rewrite(path: Path, records: Iterable[Record]) -> None:
    """Replace a file by these records.

    The records are written beside the file, and the new file is renamed. So a reader sees the old
    file or the new file, and never a part.
    """
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    append(beside, records)
    beside.replace(path)


def read(path: Path, *, whole: bool = False) -> Iterator[Record]:
    """Yield the records of a JSONL file.

    Args:
        whole: leave out a last line without its end: its writer is still writing, or was killed.

    Raises:
        UsageError: there is no such file, or a line is not a JSON object in UTF-8; names file and
            line.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        remedy = "give a JSONL file"
        raise UsageError("there is no such file", file=str(path), remedy=remedy) from error
    with file:
        for number, content in enumerate(file, 1):
            if whole and not content.endswith(b"\n"):
                return
            line = decoded(content, path, line=number).rstrip("\r\n")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                message = f"this line is not JSON: {getattr(error, 'msg', error)}"
                raise UsageError(message, file=str(path), line=number, remedy=REMEDY) from error
            if not isinstance(record, dict):
                message = "a record must be a JSON object"
                raise UsageError(message, file=str(path), line=number, remedy=REMEDY)
            yield record


def whole_lines(path: Path) -> list[Record]:
    """The records of a file that another process may still write; [] if there is no file."""
    return list(read(path, whole=True)) if path.is_file() else []


def resumed(path: Path, head: Record | None = None) -> list[Record]:
    """The records of a file that a run continues; [] if there is no file. A last line without its
    end is cut off.

    Args:
        head: the settings of the run. The first record must have the same settings.

    Raises:
        UsageError: the file was begun with other settings, or a line is not a record.
    """
    cut_torn_line(path)
    lines = whole_lines(path)
    if lines and head is not None:
        check_same(lines[0], head, str(path))
    return lines


@contextmanager
def damage_in(path: Path) -> Iterator[None]:
    """A context for code that reads the fields of a file's records.

    Raises:
        UsageError: a field is missing or has a value of another type; names the file.
    """
    try:
        yield
    except UsageError:
        raise
    except DAMAGED as error:
        message = f"the records are damaged or of another version: {type(error).__name__}: {error}"
        remedy = "make them again with the command that wrote them"
        raise UsageError(message, file=str(path), remedy=remedy) from error


def command_of(path: Path) -> str:
    """The command that wrote a file, by the first record that names a command; "" for others."""
    lines = read(path, whole=True) if path.is_file() else iter(())
    return next((str(line["command"]) for line in lines if "command" in line), "")


def of_kind(records: Iterable[Record], kind: type[Kind]) -> Iterator[Kind]:
    """Yield the records of one kind.

    Args:
        kind: a class of `core.kinds`, whose field `record` names the kind.
    """
    read = (as_kind(record, kind) for record in records)
    return (record for record in read if record is not None)


def as_kind(record: Record, kind: type[Kind]) -> Kind | None:
    """The record as one of a kind; None where the record is of another kind."""
    return cast(Kind, record) if record.get("record") == word_of(kind) else None


def word_of(kind: type[object]) -> str:
    """The word in the field `record` of a kind."""
    (word,) = get_args(kind.__annotations__["record"])
    return str(word)


def cut_torn_line(path: Path) -> bool:
    """Cut off a last line without its end, which a crash while writing leaves behind.

    Returns:
        Whether the file had such a line.
    """
    if not path.exists():
        return False
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole == len(text):
        return False
    with path.open("r+b") as file:
        file.truncate(whole)
    return True


def check_same(recorded: Record, wanted: Record, path: str, *, remedy: str = RESUME) -> None:
    """Check that a file was begun with the settings that it is to be continued with.

    Fields that only `recorded` has are not compared.

    Raises:
        UsageError: names the first field of `wanted` that differs, at any depth.
    """
    wanted = json.loads(json.dumps(wanted))  # as `recorded` was read: with lists for tuples
    for key, value in wanted.items():
        if recorded.get(key) != value:
            message = f"this file was begun with {_difference(key, recorded.get(key), value)}"
            raise UsageError(message, file=path, line=1, remedy=remedy)


def _difference(name: str, recorded: object, wanted: object) -> str:
    """The first field that differs: `recipe.width = 3, not 2`."""
    if isinstance(recorded, dict) and isinstance(wanted, dict):
        for key in {**recorded, **wanted}:
            if recorded.get(key) != wanted.get(key):
                return _difference(f"{name}.{key}", recorded.get(key), wanted.get(key))
    return f"{name} = {json.dumps(recorded)}, not {json.dumps(wanted)}"


def version_of(package: str) -> str | None:
    """Installed version of a distribution, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def code_digest(packages: Iterable[str]) -> str:
    """A digest of the source of some of our packages, 16 hex digits. Results of different code must
    not be mixed in one file."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((_PACKAGE / package).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def environment(packages: Iterable[str] = PACKAGES) -> Record:
    """Versions, GPU, driver and commit, gathered without importing torch.

    The commit ends in "-dirty" if files of the checkout have changed since.
    """
    return {
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in packages},
        "gpu": _first_line(
            ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        ),
        "commit": _first_line(
            [
                *("git", "-C", str(Path(__file__).parent), "describe"),
                *("--always", "--exclude=*", "--abbrev=12", "--dirty"),
            ]
        ),
    }


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None
