"""The library as one search uses it: what is known of a fragment, and what the search adds."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Code, Verdict
from kernelwright.library.entry import FRAGMENT, MODULE, Key, LibraryEntry
from kernelwright.library.store import VARIABLE, Library
from kernelwright.policy.embedded import WEIGHTS
from kernelwright.policy.names import EMBEDDED, TEACHER
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.fragments.fragment import Fragment
from kernelwright.programs.text import to_text
from kernelwright.search.sources import Sources
from kernelwright.search.target import Target
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.tune import Tuned
from kernelwright.verify.judging import Rules

DECIDING = (
    "core", "library", "ops", "policy", "programs", "sandbox", "search", "teacher", "timing",
    "verify",
)  # fmt: skip
"""Our packages that decide which kernel wins."""
BY_CHANCE = frozenset({Code.OUT_OF_MEMORY, Code.TIMEOUT, Code.CRASHED})
"""Codes that other processes on the machine may cause: such a verdict decides nothing for later."""

T = TypeVar("T")


class Shelf:
    """Reads entries of the library for one search, and adds new entries.

    Only fragments of the teacher are kept: what a model writes depends on its weights and on
    chance. After a failure of the library the search goes on without the library.

    Args:
        library: None: nothing is known, and nothing is kept.
    """

    def __init__(
        self, library: Library | None, rules: Rules, sources: Sources, steps: SearchSteps
    ) -> None:
        self._library, self.rules = library, rules
        self._sources, self._steps = sources, steps
        self.num_taken = 0
        """Fragments that were taken from the library."""

    @property
    def is_used(self) -> bool:
        return self._library is not None

    def has_foreign(self) -> bool:
        """Whether `similar` may give a kernel that somebody else wrote."""
        return self._ask(Library.has_foreign, False)

    def known(self, fragment: Fragment, text: str, *, scope: str, limit: int) -> Tuned | None:
        """The result of an earlier search for this fragment on this kind of GPU.

        None if there was no search. None also if PyTorch stayed after fewer than `limit`
        candidates, because more candidates may find a winner.

        Args:
            text: the text of the fragment's program.
            scope: as of `Key`.
        """
        entry = self._entry(text, scope, limit)
        if entry is None:
            return None
        self.num_taken += 1
        return Tuned(
            fragment=fragment,
            family=entry.family,
            candidates=(entry.candidate,),
            verdicts=(entry.verdict,),
            winner=0 if entry.wins else None,
            reason=entry.reason,
            saving=entry.saving,
        )

    def has(self, text: str, *, limit: int, scope: str = FRAGMENT) -> bool:
        """Whether `known` gives a fragment."""
        return self._entry(text, scope, limit) is not None

    def similar(self, text: str, *, is_trusting: bool) -> Sequence[Candidate]:
        """Kernels for the fragment that another GPU or other versions accepted.

        Args:
            is_trusting: the judge trusts candidates, so none may be somebody else's.
        """

        def look(library: Library) -> Sequence[Candidate]:
            return library.similar(self._key(text, FRAGMENT), with_foreign=not is_trusting)

        return self._ask(look, ())

    def keep(self, tuned: Tuned, text: str, *, scope: str, limit: int, is_trusting: bool) -> None:
        """Add what became of a fragment, unless chance decided.

        Args:
            is_trusting: the judge trusts candidates. Else the winner may be somebody else's.
        """
        entry = self.entry_of(tuned, text, scope=scope, limit=limit, is_trusting=is_trusting)
        if entry is not None:
            self.add(entry)

    def add(self, entry: LibraryEntry) -> None:
        """Add an entry that another process made."""
        self._ask(lambda library: library.put(entry), None)

    def entry_of(
        self, tuned: Tuned, text: str, *, scope: str, limit: int, is_trusting: bool
    ) -> LibraryEntry | None:
        """The outcome of a fragment, for a library; None where chance decided.

        Args:
            is_trusting: as of `keep`.
        """
        # A trial that the clock cut off may have missed the winner.
        if not tuned.verdicts or tuned.num_cut_off:
            return None
        wins = tuned.winner is not None
        # A loss by chance must not be remembered: later searches would not try the fragment again.
        if not wins and any(verdict.code in BY_CHANCE for verdict in tuned.verdicts):
            return None
        accepted = (i for i, verdict in enumerate(tuned.verdicts) if verdict.accepted)
        # A loss is kept with the verdict that says most: on a right candidate, if there is one.
        best = tuned.winner if tuned.winner is not None else next(accepted, 0)
        has_rival = "compiled" in tuned.verdicts[best].times
        if wins and self.rules.device.type == "cuda" and not has_rival:
            return None  # time was too short for torch.compile, or torch.compile failed
        return LibraryEntry(
            key=self._key(text, scope),
            wins=wins,
            candidate=tuned.candidates[best],
            verdict=tuned.verdicts[best],
            family=tuned.family,
            reason=tuned.reason,
            saving=tuned.saving,
            limit=limit,
            created_s=time.time(),
            is_foreign=not is_trusting,
        )

    def known_module(self, target: Target, budget_s: float) -> LibraryEntry | None:
        """The result of an earlier search of the same module with as large a budget on this
        machine."""
        entry = self._ask(lambda library: library.get(self._module_key(target)), None)
        # A search with a larger budget may find more, so it is not answered from the library.
        return entry if entry is not None and entry.limit >= budget_s else None

    def keep_module(
        self, target: Target, source: str, verdict: Verdict, records: Sequence[Record]
    ) -> None:
        """Adds what a search delivered.

        Nothing is added if the search was interrupted, if a model failed, or if a model took part
        that does not ship with this package.

        Args:
            records: the records of the search, with the result last.
        """
        result = records[-1]
        is_ours = {TEACHER, EMBEDDED}.issuperset(self._names())
        if not is_ours or result["interrupted_by"] or result["failed_sources"]:
            return
        entry = LibraryEntry(
            key=self._module_key(target),
            wins=True,
            candidate=Candidate(source=source, origin="search"),
            verdict=verdict,
            family=MODULE,
            reason=result["outcome"]["message"],
            saving=0.0,
            limit=result["budget"]["budget_s"],
            created_s=time.time(),
            records=tuple(records),
        )
        self._ask(lambda library: library.put(entry), None)

    def _entry(self, text: str, scope: str, limit: int) -> LibraryEntry | None:
        entry = self._ask(lambda library: library.get(self._key(text, scope)), None)
        return entry if entry is not None and (entry.wins or entry.limit >= limit) else None

    def _module_key(self, target: Target) -> Key:
        """A module is the original text and all that optimized.py says of it: names, constants,
        the mode, checks of inputs, the structure of results."""
        program = target.program
        whole = target.write(compose(program, []).source)
        sized = target.sized.programs if target.sized is not None else (program,)
        text = "\n".join([target.original, whole, *map(to_text, sized)])
        names = self._names()
        if EMBEDDED in names:
            # The embedded model keeps its name when its weights change.
            names.append(_weights())
        return self._key(text, MODULE, ",".join(names))

    def _names(self) -> list[str]:
        return [name for writers in self._sources.passes for name in self._sources.names(writers)]

    def _ask(self, question: Callable[[Library], T], otherwise: T) -> T:
        """The library's answer; `otherwise` where there is no library, or it fails."""
        if self._library is None:
            return otherwise
        try:
            return question(self._library)
        except (UsageError, OSError, ValueError, TypeError) as error:
            # A full disk or a damaged library would fail again at every fragment.
            self._library = None
            self._steps("going on without the library", str(error))
            return otherwise

    def _key(self, text: str, scope: str, writers: str = TEACHER) -> Key:
        rules = self.rules
        on_gpu = rules.device.type == "cuda"
        return Key(
            program=text,
            device=torch.cuda.get_device_name(rules.device) if on_gpu else "cpu",
            versions=_versions(),
            precision=rules.precision.value,
            mode=rules.mode,
            writers=writers,
            scope=scope,
        )


@cache
def _versions() -> str:
    """Versions of packages, and the digest of what writes and judges kernels: a library of another
    teacher or judge only suggests kernels."""
    versions = [f"{name} {record.version_of(name)}" for name in ("torch", "triton")]
    return ", ".join([f"kernelwright {record.code_digest(DECIDING)}", *versions])


@cache
def _weights() -> str:
    """The digest of the weights of the model in the package."""
    digest = hashlib.sha256()
    for path in sorted(WEIGHTS.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def open_library(folder: str | os.PathLike[str] | None, steps: SearchSteps) -> Library | None:
    """The library in a folder, or in the folder that the environment variable names; None where
    neither names a folder.

    Raises:
        UsageError: the folder cannot be used.
    """
    folder = folder or os.environ.get(VARIABLE)
    if not folder:
        return None
    return Library(Path(folder), lambda message: steps("reading the library", message))
