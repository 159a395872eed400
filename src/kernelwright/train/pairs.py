"""Reads pairs to train on. Files are cut into parts, which several processes read. docs/data.md
describes the columns."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.policy.answer import PLAN_END, THINKING_BEGIN, THINKING_END, plans_apart

Message = dict[str, str]
SUFFIXES = (".jsonl", ".parquet")
COLUMNS = ("prompt", "completion", "level", "source", "split")
TRAIN, VALIDATION = "train", "validation"
PART_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPair:
    """A conversation, and the answer that the model learns."""

    prompt: list[Message]
    completion: list[Message]
    """One message of the assistant."""
    level: int
    source: str
    split: str
    number: int = 0
    """The number of the answer among the answers to the same program."""
    reasoning: str = ""
    """The text that a model wrote before its answer; "" for most pairs."""

    @property
    def messages(self) -> list[Message]:
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class FilePart:
    """A piece of a file that one process reads."""

    path: str
    begin: int
    """JSONL: the first byte. The part has all lines that begin in it. Parquet: the first row
    group."""
    end: int


def find_files(names: Sequence[str]) -> list[Path]:
    """The files of pairs that a recipe names, sorted. A folder stands for its files of pairs, as
    `data build` writes them.

    Raises:
        UsageError: there are no names, or a file or folder is missing or has no pairs.
    """
    if not names:
        raise UsageError("data.files names no pairs", remedy="give files or folders of pairs")
    files: set[Path] = set()
    for name in names:
        some = _in_folder(Path(name)) if Path(name).is_dir() else [Path(name)]
        if not some or not all(path.is_file() and path.suffix in SUFFIXES for path in some):
            remedy = f"name files ({', '.join(SUFFIXES)}) or a folder of `kernelwright data build`"
            raise UsageError("no pairs here", file=name, remedy=remedy)
        files.update(some)
    return sorted(files)


def _in_folder(folder: Path) -> list[Path]:
    """The JSONL files of a folder, or if there are none its Parquet files. `data build` may write
    the same pairs in both kinds."""
    for suffix in SUFFIXES:
        files = [folder / f"{split}{suffix}" for split in (TRAIN, VALIDATION)]
        if existing := [file for file in files if file.exists()]:
            return existing
    return []


def parts_of(files: Sequence[Path], part_bytes: int = PART_BYTES) -> list[FilePart]:
    """Cut files into parts, in order: JSONL by bytes, Parquet by row groups.

    Raises:
        UsageError: a Parquet file that is broken.
    """
    parts = []
    for file in files:
        if file.suffix == ".parquet":
            groups = _row_groups(file)
            parts += [FilePart(str(file), group, group + 1) for group in range(groups)]
        else:
            size = file.stat().st_size
            parts += [
                FilePart(str(file), begin, min(begin + part_bytes, size))
                for begin in range(0, size, part_bytes)
            ]
    return parts


def _row_groups(file: Path) -> int:
    import pyarrow.parquet

    try:
        groups: int = pyarrow.parquet.ParquetFile(file).num_row_groups
    except pyarrow.ArrowInvalid as error:
        remedy = "make it again: `kernelwright data build --parquet`"
        raise UsageError(f"no Parquet file: {error}", file=str(file), remedy=remedy) from error
    return groups


def read_part(part: FilePart) -> Iterator[TrainingPair]:
    """The pairs of a part.

    Raises:
        UsageError: a line is no pair. The error names the file, and the byte or row.
    """
    rows = _parquet_rows(part) if part.path.endswith(".parquet") else _json_rows(part)
    for where, row in rows:
        yield _pair(row, f"{part.path} ({where})")


def _json_rows(part: FilePart) -> Iterator[tuple[str, Any]]:
    with Path(part.path).open("rb") as file:
        if part.begin:
            # From one byte before: a line that begins exactly at `begin` must not be skipped.
            file.seek(part.begin - 1)
            file.readline()  # the line that begins before the part is its predecessor's
        while (begin := file.tell()) < part.end and (line := file.readline()):
            where = f"line at byte {begin}"
            try:
                yield where, json.loads(line)
            except ValueError as error:
                remedy = "make the file again: `kernelwright data build`"
                raise UsageError(f"{where} is not JSON", file=part.path, remedy=remedy) from error


def _parquet_rows(part: FilePart) -> Iterator[tuple[str, Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(part.path).read_row_group(part.begin)
    for number, row in enumerate(table.to_pylist()):
        yield f"row {number} of group {part.begin}", row


def _pair(row: Any, where: str) -> TrainingPair:
    remedy = "docs/data.md has the columns of pairs"
    if not isinstance(row, dict):
        raise UsageError("no pair: not an object", file=where, remedy=remedy)
    if missing := [name for name in COLUMNS if name not in row]:
        raise UsageError(f"no pair: {', '.join(missing)} missing", file=where, remedy=remedy)
    # An id is PART/PROGRAM/NUMBER; the number tells the answers to a program apart.
    try:
        pair = TrainingPair(
            prompt=[_message(message) for message in row["prompt"]],
            completion=[_message(message) for message in row["completion"]],
            level=int(row["level"]),
            source=str(row["source"]),
            split=row["split"],
            number=int(str(row.get("id", "0")).rpartition("/")[2]),
            reasoning=str(row.get("reasoning") or ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"no pair: {error!r}", file=where, remedy=remedy) from error
    if len(pair.completion) != 1 or pair.completion[0]["role"] != "assistant":
        raise UsageError("completion is not one answer", file=where, remedy=remedy)
    if pair.split not in (TRAIN, VALIDATION):
        raise UsageError(f"split {pair.split!r}", file=where, remedy=remedy)
    return pair


def without_plan(pair: TrainingPair) -> TrainingPair:
    """The pair without the plan in its answer."""
    (answer,) = pair.completion
    _, text = plans_apart(answer["content"])
    return replace(pair, completion=[{**answer, "content": text.lstrip("\n")}])


def has_plan(pair: TrainingPair) -> bool:
    """Whether the answer of a pair has a plan."""
    return bool(plans_apart(pair.completion[0]["content"])[0])


def up_to_plan(pair: TrainingPair) -> TrainingPair:
    """The pair with an answer that ends with its plan."""
    (answer,) = pair.completion
    before, mark, _ = answer["content"].partition(PLAN_END)
    return replace(pair, completion=[{**answer, "content": before + mark}])


def with_reasoning(pair: TrainingPair) -> TrainingPair:
    """The pair with the model's reasoning before the answer, between `<think>` and `</think>`.

    `policy.answer` later reads the text after the last mark as the answer. A pair without reasoning
    stays as it is.
    """
    if not pair.reasoning.strip():
        return pair
    (answer,) = pair.completion
    thought = f"{THINKING_BEGIN}\n{pair.reasoning.strip()}\n{THINKING_END}\n"
    return replace(pair, completion=[{**answer, "content": thought + answer["content"]}])


def _message(message: dict[str, str]) -> Message:
    return {"role": message["role"], "content": message["content"]}
