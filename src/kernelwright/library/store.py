"""The library on disk: an SQLite file with an entry for each fragment, and a file for each source.

Writers may work at once, and a kill at any time loses the entry in progress alone: a source file is
complete before the row that names the file. A row or a source that was damaged or edited is skipped
with a message.
"""

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.library.entry import MODULE, Key, LibraryEntry, fingerprint
from kernelwright.programs.fragments.source_merge import unmergeable

VARIABLE = "KERNELWRIGHT_LIBRARY"
"""The environment variable that names the folder of the library."""
DATABASE, SOURCES = "library.sqlite", "sources"
PART = ".part"
"""How the name of a file ends that is not complete."""
STALE_S = 3600.0
"""A source file that no row names may be of a writer who is about to add the row, until then."""
BUSY_S = 30.0
"""Seconds that a writer waits for another writer."""
MOST_SIMILAR = 2
"""The most kernels of other machines or versions that are tried for a fragment."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    digest TEXT PRIMARY KEY,
    program TEXT NOT NULL,
    precision TEXT NOT NULL,
    mode TEXT NOT NULL,
    is_foreign INTEGER NOT NULL,
    created_s REAL NOT NULL,
    payload TEXT NOT NULL,
    fingerprint TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_program ON entries (program, precision, mode);
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as the library holds it."""

    digest: str
    """The digest of the entry's key, which is the name of the entry."""
    entry: LibraryEntry | None
    """None where the entry is damaged."""
    problem: str = ""
    """Why the entry is skipped."""


class Library:
    """Entries in a folder, which is made where there is none.

    Args:
        warn: gets a message for each entry that is skipped.

    Raises:
        UsageError: the folder cannot be used, or its database is damaged. Every method may raise
            that.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None] = lambda _: None) -> None:
        self.folder, self._warn = folder, warn
        try:
            (folder / SOURCES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the library {folder} cannot be made: {error.strerror}",
                remedy="give another folder with --library",
            ) from error
        with self._database() as database:
            database.executescript(_SCHEMA)

    def get(self, key: Key) -> LibraryEntry | None:
        """The entry of this key. None where there is none, where it is damaged, and where it was
        imported and not judged here yet."""
        entry = next(self._entries("WHERE digest = ?", (key.digest,)), None)
        is_usable = entry is not None and entry.key == key and not entry.is_imported
        return entry if is_usable else None

    def has_foreign(self) -> bool:
        """Whether `similar` may give a kernel that somebody else wrote."""
        return bool(self._rows("WHERE is_foreign LIMIT 1", ()))

    def similar(self, key: Key, *, with_foreign: bool) -> list[Candidate]:
        """Kernels for the same program that were accepted on another GPU or with other versions:
        candidates that are worth judging. The newest come first.

        Args:
            with_foreign: imported kernels too, and what was judged beside them.
        """
        where = "WHERE program = ? AND precision = ? AND mode = ? ORDER BY created_s DESC"
        of_program = self._entries(where, (key.program, key.precision, key.mode))
        kernels: dict[str, Candidate] = {}
        for entry in of_program:
            is_other = entry.key != key or entry.is_imported
            may_be_judged = with_foreign or not entry.is_foreign
            if entry.wins and is_other and may_be_judged and _can_be_merged(entry.source):
                kernels.setdefault(entry.source, entry.candidate)
        return list(kernels.values())[:MOST_SIMILAR]

    def put(self, entry: LibraryEntry) -> None:
        """Add an entry, in place of one with the same key."""
        self._add([entry], "REPLACE")

    def _add(self, entries: Sequence[LibraryEntry], on_conflict: str) -> None:
        rows = []
        for entry in entries:
            payload, key = json.dumps(entry.payload(), sort_keys=True), entry.key
            mark = fingerprint(payload, entry.source)
            self._write_source(mark, entry.source)
            may_be_given = entry.wins and entry.key.scope != MODULE
            rows.append(
                (key.digest, key.program, key.precision, key.mode,
                 may_be_given and entry.is_foreign, entry.created_s, payload, mark)
            )  # fmt: skip
        with self._database() as database:
            database.executemany(
                f"INSERT OR {on_conflict} INTO entries (digest, program, precision, mode,"
                " is_foreign, created_s, payload, fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def stored(self, prefix: str = "") -> list[Stored]:
        """All entries whose name begins with this text, the newest first; damaged ones too."""
        rows = self._rows("WHERE substr(digest, 1, ?) = ? ORDER BY created_s DESC, digest",
                          (len(prefix), prefix))  # fmt: skip
        return [self._read(*row) for row in rows]

    def remove(self, digests: Collection[str]) -> None:
        """Delete entries, and source files that no entry names."""
        with self._database() as database:
            database.executemany("DELETE FROM entries WHERE digest = ?", [(d,) for d in digests])
            named = {name for (name,) in database.execute("SELECT fingerprint FROM entries")}
        stale_s = time.time() - STALE_S
        for path in (self.folder / SOURCES).iterdir():
            with suppress(OSError):
                if path.stem not in named and path.stat().st_mtime < stale_s:
                    path.unlink()

    def export_to(self, path: Path) -> int:
        """Write all whole entries to a JSONL file; returns their number."""
        entries = [stored.entry for stored in self.stored() if stored.entry is not None]
        lines = [entry.payload() | {"source": entry.source} for entry in entries]
        with _complete(path) as text:
            text.write("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines))
        return len(lines)

    def import_from(self, path: Path) -> tuple[int, int]:
        """Add the entries of an exported file whose keys are new here. Their kernels are judged
        again before they are used.

        Returns:
            The number of entries that were added, and of entries that were known.

        Raises:
            UsageError: the file cannot be read, or a line is not an entry; then nothing is added.
        """
        try:
            lines = list(record.read(path))
            entries = [
                LibraryEntry.of({k: v for k, v in line.items() if k != "source"}, line["source"])
                for line in lines
            ]
        except OSError as error:
            raise UsageError(
                f"cannot be read: {error.strerror}",
                file=str(path),
                remedy="give a file that kernelwright library export wrote",
            ) from error
        except (KeyError, ValueError) as error:
            reason = error.message if isinstance(error, UsageError) else error
            raise UsageError(
                f"this is no exported library: {reason}",
                file=str(path),
                line=error.line if isinstance(error, UsageError) else None,
                remedy="export it again with kernelwright library export",
            ) from error
        known = {stored.digest for stored in self.stored()}
        new = [entry for entry in entries if entry.key.digest not in known]
        imported = [replace(entry, is_imported=True, is_foreign=True) for entry in new]
        self._add(imported, "IGNORE")  # what a search judges meanwhile stays
        return len(new), len(entries) - len(new)

    def _entries(self, where: str, values: tuple[object, ...]) -> Iterator[LibraryEntry]:
        for row in self._rows(where, values):
            stored = self._read(*row)
            if stored.entry is None:
                self._warn(f"the library's entry {stored.digest[:12]} is skipped: {stored.problem}")
            else:
                yield stored.entry

    def _rows(self, where: str, values: tuple[object, ...]) -> list[tuple[str, str, str]]:
        with self._database() as database:
            fields = "digest, payload, fingerprint"
            return database.execute(f"SELECT {fields} FROM entries {where}", values).fetchall()

    def _read(self, digest: str, payload: str, mark: str) -> Stored:
        try:
            source = self._source(mark).read_bytes().decode()
        except (OSError, ValueError):
            return Stored(digest, None, "its source file is missing")
        if fingerprint(payload, source) != mark:
            return Stored(digest, None, "it was damaged or edited")
        try:
            entry = LibraryEntry.of(json.loads(payload), source)
        except ValueError:
            return Stored(digest, None, "another version of kernelwright wrote it")
        return Stored(digest, entry)

    def _source(self, mark: str) -> Path:
        return self.folder / SOURCES / f"{mark}.py"

    def _write_source(self, mark: str, source: str) -> None:
        try:
            with _complete(self._source(mark)) as file:
                file.write(source)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"cannot write to the library {self.folder}: {error}") from error

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A transaction of its own: threads and processes share no connection."""
        path = self.folder / DATABASE
        try:
            with closing(sqlite3.connect(path, timeout=BUSY_S)) as database, database:
                yield database
        except sqlite3.Error as error:
            raise UsageError(
                f"the library {path} cannot be used: {error}",
                remedy="move the file away; the next search begins a new library",
            ) from error


def _can_be_merged(source: str) -> bool:
    """Whether a module can take the kernel over. Foreign text may be no Python."""
    with suppress(SyntaxError, ValueError, RecursionError):
        return not unmergeable(source)
    return False


@contextmanager
def _complete(path: Path) -> Iterator[TextIO]:
    """A file that has its name when it is complete."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=PART)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:  # as it is
            yield file
            file.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
