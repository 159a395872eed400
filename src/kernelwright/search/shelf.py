"""The library as one search uses it: what is known of a fragment, and what the search adds."""

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.library.entry import FRAGMENT, MODULE, Entry, Key
from kernelwright.library.store import VARIABLE, Library
from kernelwright.programs.fragment import Fragment
from kernelwright.programs.text import to_text
from kernelwright.search.sources import Sources, Writers
from kernelwright.search.steps import Steps
from kernelwright.search.target import Target
from kernelwright.search.tune import Tuned
from kernelwright.verify.judging import Rules

DECIDING = ("ops", "programs", "teacher", "sandbox", "verify", "timing", "search")
"""Our packages that decide which kernel wins."""


class Shelf:
    """What a search takes from the library and adds to it. A library that fails is left alone from
    then on: the search goes on without it.

    Args:
        library: None: nothing is known, and nothing is kept.
    """

    def __init__(
        self, library: Library | None, rules: Rules, sources: Sources, steps: Steps
    ) -> None:
        self._library, self.rules = library, rules
        self._sources, self._steps = sources, steps
        self._versions = _versions() if library else ""
        self.num_taken = 0
        """Fragments that were taken from the library."""

    def known(
        self, fragment: Fragment, text: str, writers: Writers, *, scope: str, limit: int
    ) -> Tuned | None:
        """The fragment as an earlier search on this machine left it; None where no search did, or
        where PyTorch stayed after fewer than `limit` candidates of each writer.

        Args:
            text: of the fragment's program.
        """
        entry = self._entry(text, writers, scope=scope, limit=limit)
        if entry is None:
            return None
        self.num_taken += 1
        has_winner = entry.candidate is not None
        return Tuned(
            fragment=fragment,
            family=entry.family,
            candidates=(entry.candidate,) if entry.candidate else (),
            verdicts=(entry.verdict,) if entry.verdict else (),
            winner=0 if has_winner else None,
            reason=entry.reason,
            saving=entry.saving,
        )

    def has(self, text: str, writers: Writers, *, limit: int) -> bool:
        """Whether `known` gives a fragment that is not the whole program."""
        return self._entry(text, writers, scope=FRAGMENT, limit=limit) is not None

    def similar(self, text: str, writers: Writers, *, is_trusting: bool) -> Sequence[Candidate]:
        """Kernels for the fragment that another GPU or other versions accepted."""
        if self._library is None:
            return ()
        key = self._key(text, self._sources.names(writers), FRAGMENT)
        try:
            return self._library.similar(key, with_foreign=not is_trusting)
        except UsageError as error:
            self._give_up(error)
            return ()

    def keep(self, tuned: Tuned, text: str, writers: Writers, *, scope: str, limit: int) -> None:
        """Add what became of a fragment, unless the deadline decided."""
        is_decided = tuned.winner is not None or (tuned.verdicts and not tuned.num_cut_off)
        if self._library is None or not is_decided:
            return
        entry = Entry(
            key=self._key(text, self._sources.names(writers), scope),
            candidate=tuned.best,
            verdict=None if tuned.winner is None else tuned.verdicts[tuned.winner],
            family=tuned.family,
            reason=tuned.reason,
            saving=tuned.saving,
            limit=limit,
            created_s=time.time(),
        )
        self._put(entry)

    def known_module(self, target: Target, budget_s: float) -> Entry | None:
        """What an earlier search of the same module delivered on this machine. None where the
        deadline left something out of that search and the budget is larger now."""
        entry = self._get(self._module_key(target))
        if entry is None or not entry.records:
            return None
        has_all = not entry.records[-1]["outcome"]["left_out"]
        return entry if has_all or entry.limit >= budget_s else None

    def keep_module(
        self, target: Target, source: str, verdict: Verdict, records: Sequence[Record]
    ) -> None:
        """Add what a search delivered, unless an interruption or a failed model decided.

        Args:
            records: of the search, the result last.
        """
        result = records[-1]
        if self._library is None or result["interrupted_by"] or result["failed_sources"]:
            return
        entry = Entry(
            key=self._module_key(target),
            candidate=Candidate(source=source, origin="search"),
            verdict=verdict,
            family=MODULE,
            reason=result["outcome"]["message"],
            saving=0.0,
            limit=int(result["budget"]["budget_s"]),
            created_s=time.time(),
            records=tuple(records),
        )
        self._put(entry)

    def _module_key(self, target: Target) -> Key:
        text = f"{target.original}\n{to_text(target.program)}"
        names = [name for writers in self._sources.passes for name in self._sources.names(writers)]
        return self._key(text, names, MODULE)

    def _put(self, entry: Entry) -> None:
        try:
            assert self._library is not None
            self._library.put(entry)
        except UsageError as error:
            self._give_up(error)

    def _get(self, key: Key) -> Entry | None:
        if self._library is None:
            return None
        try:
            return self._library.get(key)
        except UsageError as error:
            self._give_up(error)
            return None

    def _entry(self, text: str, writers: Writers, *, scope: str, limit: int) -> Entry | None:
        if self._library is None:
            return None
        entry = self._get(self._key(text, self._sources.names(writers), scope))
        is_enough = entry is not None and (entry.candidate is not None or entry.limit >= limit)
        return entry if is_enough else None

    def _give_up(self, error: UsageError) -> None:
        self._library = None
        self._steps("going on without the library", str(error))

    def _key(self, text: str, names: Sequence[str], scope: str) -> Key:
        rules = self.rules
        on_gpu = rules.device.type == "cuda"
        return Key(
            program=text,
            device=torch.cuda.get_device_name(rules.device) if on_gpu else "cpu",
            versions=self._versions,
            precision=rules.precision.value,
            mode=rules.mode,
            writers=",".join(names),
            scope=scope,
        )


@cache
def _versions() -> str:
    """Versions of packages, and the digest of what writes and judges kernels: a library of another
    teacher or judge only suggests kernels."""
    versions = [f"{name} {record.version_of(name)}" for name in ("torch", "triton")]
    return ", ".join([f"kernelwright {record.code_digest(DECIDING)}", *versions])


def open_library(folder: str | os.PathLike[str] | None, steps: Steps) -> Library | None:
    """The library in a folder, or in the folder that the environment variable names; None where
    neither names a folder.

    Raises:
        UsageError: the folder cannot be used.
    """
    folder = folder or os.environ.get(VARIABLE)
    if not folder:
        return None
    return Library(Path(folder), lambda message: steps("reading the library", message))
