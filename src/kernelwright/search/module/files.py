"""The files of a result, written after the search."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record


def write_result(out: Path, files: Mapping[str, str], lines: Sequence[Record]) -> None:
    """Write the files of a result; the records of an earlier result go.

    Raises:
        UsageError: the folder cannot be written any more. The result is then in a temporary
            folder, which the message names, unless that cannot be written either.
    """
    try:
        _write(out, files, lines)
    except OSError as error:
        message = f"cannot write to {out}: {error.strerror}"
        try:
            fallback = Path(tempfile.mkdtemp(prefix="kernelwright-result-"))
            _write(fallback, files, lines)
        except OSError as second:
            remedy = (
                f"free space on the disk; {tempfile.gettempdir()} failed too: {second.strerror}"
            )
        else:
            remedy = f"the result is in {fallback}: copy it from there"
        raise UsageError(message, remedy=remedy) from error


def _write(out: Path, files: Mapping[str, str], lines: Sequence[Record]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        (out / name).write_text(source, encoding="utf-8")
    (out / "records.jsonl").unlink(missing_ok=True)
    record.append(out / "records.jsonl", lines)
