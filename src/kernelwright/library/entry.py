"""The library's record of a fragment, and the key under which a search looks it up."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict

FRAGMENT, PROGRAM, MODULE = "fragment", "fragment of all calls", "module"
"""The kinds of subject of an entry. A fragment of all calls of a program may win by less: see
`search.tune`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """Two searches with equal keys would judge the same candidates on the same machine."""

    program: str
    """The canonical text (`programs.text`): operators, shapes, dtypes, draws. Of a module, after
    the text of its file."""
    device: str
    """The name of the GPU, or "cpu"."""
    versions: str
    """The versions of PyTorch and Triton, and a digest of our code."""
    precision: str
    mode: str
    writers: str
    """The names of the policies that wrote candidates, separated by commas."""
    scope: str = FRAGMENT

    @property
    def digest(self) -> str:
        """64 hexadecimal digits."""
        return _hash(json.dumps(asdict(self), sort_keys=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryEntry:
    """A search's result for a fragment: the kernel that won, or that PyTorch stays. Of a module:
    what was delivered."""

    key: Key
    wins: bool
    """The candidate is used. False where PyTorch stays."""
    candidate: Candidate
    """The winner, or the best that lost; of a module, the text of optimized.py."""
    verdict: Verdict
    """On the candidate."""
    family: str
    reason: str
    """Why the winner won, or why PyTorch stays."""
    saving: float
    """Milliseconds where measured, else bytes."""
    limit: float
    """The number of candidates of each writer that the search would have tried. A search that would
    try more does not accept that PyTorch stays. Of a module: the budget in seconds."""
    created_s: float
    """Seconds since 1970."""
    is_imported: bool = False
    """The entry came from another machine: its kernel is a candidate, and is judged again."""
    is_foreign: bool = False
    """The kernel may be somebody else's: only a judge that trusts no candidate may judge it."""
    records: tuple[Record, ...] = ()
    """The records of a module's search, the result last; none where the entry is of a fragment."""

    def payload(self) -> Record:
        """All but the source, for JSON."""
        candidate = self.candidate.to_json()
        del candidate["source"]
        return {
            "key": asdict(self.key),
            "wins": self.wins,
            "candidate": candidate,
            "verdict": self.verdict.to_json(),
            "family": self.family,
            "reason": self.reason,
            "saving": self.saving,
            "limit": self.limit,
            "created_s": self.created_s,
            "is_imported": self.is_imported,
            "is_foreign": self.is_foreign,
            "records": list(self.records),
        }

    @property
    def source(self) -> str:
        """The candidate's source text."""
        return self.candidate.source

    @classmethod
    def of(cls, payload: Record, source: str) -> Self:
        """The entry with this `payload` and source.

        Raises:
            ValueError: the payload is not of an entry.
        """
        try:
            return cls._of(payload, source)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the payload is not of an entry: {error!r}") from error

    @classmethod
    def _of(cls, payload: Record, source: str) -> Self:
        values: dict[str, Any] = dict(payload)
        values["key"] = Key(**values["key"])
        values["candidate"] = Candidate.from_json(values["candidate"] | {"source": source})
        values["verdict"] = Verdict.from_json(values["verdict"])
        values["records"] = tuple(values["records"])
        entry = cls(**values)
        texts = (source, entry.family, entry.reason, *asdict(entry.key).values())
        numbers = (entry.saving, entry.limit, entry.created_s)
        if not (all(type(text) is str for text in texts) and all(map(_is_number, numbers))):
            raise TypeError("a value has another type")
        return entry


def fingerprint(payload: str, source: str) -> str:
    """The hash that shows whether an entry was damaged or edited.

    Args:
        payload: JSON text, as it is stored.
    """
    return _hash(f"{_hash(payload)}{_hash(source)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
