"""The jobs of a run of many judgements: pairs of a reference and a candidate, as text."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.syntax import MAX_SOURCE
from kernelwright.core.text import printable

MAX_BATCH = 8
"""Candidates of one task that a worker takes at once: they share inputs and expected values."""
MAX_BATCH_CHARS = MAX_SOURCE + 1
"""Their texts together, where there are several: a message to a worker has at most 16 MiB, and
JSON writes a character in up to 12 bytes."""
MAX_PATH = 1_000
"""Characters: a longer line is no path, even where it ends in ".py"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One candidate to judge. It holds texts, not paths, so that any machine can do it."""

    id: str
    reference: str
    """Text of a reference file or of a program, or "package.module:factory"."""
    candidate: str
    """Source."""

    @property
    def sent(self) -> str:
        """The source as a worker gets it: the judge refuses a longer one unread."""
        return self.candidate[: MAX_SOURCE + 1]

    @property
    def content(self) -> str:
        """Digest of what is judged; jobs of equal content get the same verdict."""
        return content_of(self.reference, self.candidate)


def content_of(reference: str, candidate: str) -> str:
    """Returns a digest of 32 hexadecimal digits, the same for the same texts."""
    text = f"{len(reference)}:{reference}{candidate}"
    # JSON may hold lone surrogates: the judge refuses that one candidate for them.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def in_batches(jobs: Sequence[Job], size: int = MAX_BATCH) -> Iterator[list[Job]]:
    """Yields jobs of one reference in rows for workers, at most `size` in a row."""
    row, num_chars = list[Job](), 0
    for job in jobs:
        num_chars += len(job.sent)
        if row and (len(row) == size or num_chars > MAX_BATCH_CHARS):
            yield row
            row, num_chars = [], len(job.sent)
        row.append(job)
    if row:
        yield row


def read_jobs(path: Path) -> list[Job]:
    """Reads the jobs of a JSONL file or a folder.

    A line is {"id", "reference", "candidate"}; the latter two are paths (from the file's folder) or
    texts, the reference may be "package.module:factory". A folder holds pairs of NAME.reference.py
    and NAME.candidate.py, or folders NAME with reference.py and candidate*.py.

    Raises:
        UsageError: it cannot be read, has another form, or gives an id twice; names the line.
    """
    jobs = list(_of_folder(path) if path.is_dir() else _of_file(path))
    if not jobs:
        raise UsageError(
            "no jobs here",
            file=str(path),
            remedy="give JSON lines with id, reference and candidate, or a folder of pairs"
            " NAME.reference.py and NAME.candidate.py",
        )
    return jobs


def _of_file(path: Path) -> Iterator[Job]:
    if not path.is_file():
        raise UsageError("no such file", file=str(path), remedy="give a JSONL file or a folder")
    seen: set[str] = set()
    for line, values in enumerate(record.read(path), 1):
        try:
            job = _job(values, path.parent)
        except ValueError as error:
            raise UsageError(
                str(error),
                file=str(path),
                line=line,
                remedy='one object a line: {"id": ..., "reference": ..., "candidate": ...}',
            ) from error
        if job.id in seen:
            raise UsageError(f"the id {job.id!r} is there twice", file=str(path), line=line)
        seen.add(job.id)
        yield job


def _job(values: Record, folder: Path) -> Job:
    for key in ("id", "reference", "candidate"):
        may_be_empty = key == "candidate"  # a model may write nothing
        if not isinstance(values.get(key), str) or not (values[key] or may_be_empty):
            raise ValueError(f"{key!r} must be a text")
    return Job(
        id=values["id"],
        reference=_text(values["reference"], folder, _reference),
        candidate=_text(values["candidate"], folder, _candidate),
    )


def _text(value: str, folder: Path, read: Callable[[Path], str]) -> str:
    """A file's text where `value` is a path; else `value`."""
    if "\n" in value or not value.endswith(".py") or len(value) > MAX_PATH:
        return value
    path = folder / value
    if not path.is_file():
        raise ValueError(f"no such file: {printable(str(path), MAX_PATH)}")
    return read(path)


def _candidate(path: Path) -> str:
    """Bytes that are not UTF-8 become lone surrogates: the judge refuses that one text for them."""
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _reference(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _of_folder(path: Path) -> Iterator[Job]:
    def job(name: str, reference: Path, candidate: Path) -> Job:
        return Job(id=name, reference=_reference(reference), candidate=_candidate(candidate))

    for candidate in sorted(path.glob("*.candidate.py")):
        reference = path / f"{candidate.name.removesuffix('.candidate.py')}.reference.py"
        if not reference.is_file():
            remedy = "name the two files of a pair alike, or give a JSONL file: many to a reference"
            raise UsageError(f"there is no {reference.name}", file=str(candidate), remedy=remedy)
    for reference in sorted(path.glob("*.reference.py")):
        name = reference.name.removesuffix(".reference.py")
        candidate = path / f"{name}.candidate.py"
        if not candidate.is_file():
            raise UsageError(f"there is no {candidate.name}", file=str(reference))
        yield job(name, reference, candidate)
    for reference in sorted(path.glob("*/reference.py")):
        for candidate in sorted(reference.parent.glob("candidate*.py")):
            yield job(f"{reference.parent.name}/{candidate.stem}", reference, candidate)
