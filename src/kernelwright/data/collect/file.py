"""The file of a collection. A later run with the same target and options continues it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

_SETTLED = ("run", "source", "module")
"""Kinds of records after which a resumed run goes on."""
_COMMAND = "data collect"


class CollectionFile:
    """Writes records in order. A program with a known fingerprint is not written again.

    Raises:
        UsageError: the file holds something else, or a collection of another target or with other
            options or versions.
    """

    def __init__(self, path: Path, facts: Record, options: Record) -> None:
        self.path = path
        self.sources: dict[str, Record] = {}
        self.modules: dict[str, Record] = {}
        self.num_programs = 0
        self.by_level: Counter[int] = Counter()
        self._known: set[str] = set()
        head = {
            "record": "run",
            "command": _COMMAND,
            **facts,
            "options": options,
            "versions": {name: record.version_of(name) for name in ("kernelwright", "torch")},
        }
        lines = self._resumed()
        if not lines:
            record.append(path, [head])
            return
        record.check_same(lines[0], head, str(path))
        for line in lines[1:]:
            self._note(line)

    def _resumed(self) -> list[Record]:
        """The records up to the last settled one. Programs after it belong to a module that is
        taken apart again, so they are cut off.

        Raises:
            UsageError: the file is not of `data collect`.
        """
        if not self.path.exists():
            return []
        if next(record.read(self.path), {}).get("command") != _COMMAND:
            raise UsageError(
                "these are not records of data collect",
                file=str(self.path),
                remedy="give another --out file",
            )
        lines = record.resumed(self.path)
        num_kept = 1 + max(i for i, line in enumerate(lines) if line["record"] in _SETTLED)
        texts = self.path.read_bytes().splitlines(keepends=True)[:num_kept]
        with self.path.open("r+b") as file:
            file.truncate(sum(map(len, texts)))
        return lines[:num_kept]

    def write_source(self, name: str, facts: Record) -> None:
        self._write([{"record": "source", "file": name, **facts}])

    def write_module(
        self,
        name: str,
        where: Record,
        answer: Record,
        programs: Iterable[Record],
        limit: int | None,
    ) -> None:
        """Write a module's new programs, then the record that ends the module.

        If the limit is reached among its programs, the ending record is left out: a later run
        without the limit then takes the module apart again.

        Args:
            where: file, class and line of the module.
            answer: the worker's.
            programs: records with "calls_in_module".
            limit: the most programs of the file.
        """
        lines: list[Record] = []
        call_texts = {key: answer[key] for key in ("arguments", "inputs") if answer.get(key)}
        for program in programs:
            if limit is not None and self.num_programs + len(lines) >= limit:
                self._write(lines)
                return
            key = program["fingerprint"]
            if key not in self._known:
                self._known.add(key)
                calls = program.pop("calls_in_module")
                provenance = {**where, "calls": calls, **call_texts}
                lines.append({"record": "program", **program, "provenance": provenance})
        end = {"record": "module", "name": name, **answer, "new": len(lines)}
        self._write([*lines, end])

    def end(self, summary: Record) -> None:
        record.append(self.path, [{"record": "summary", **summary}])

    def _write(self, lines: list[Record]) -> None:
        record.append(self.path, lines)
        for line in lines:
            self._note(line)

    def _note(self, line: Record) -> None:
        if line["record"] == "source":
            self.sources[line["file"]] = line
        elif line["record"] == "module":
            self.modules[line["name"]] = line
        elif line["record"] == "program":
            self._known.add(line["fingerprint"])
            self.num_programs += 1
            self.by_level[line["level"]] += 1
