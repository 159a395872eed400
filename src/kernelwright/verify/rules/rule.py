"""Static rules: each a small function over a source, with its reason and its remedy."""

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from enum import StrEnum

from kernelwright.verify.rules.source import CandidateSource

Find = Callable[[CandidateSource], Iterator[tuple[int, str]]]
"""Yields (line, what is wrong there)."""


class RuleSeverity(StrEnum):
    REFUSE = "refuse"
    """Rejects: no honest kernel needs it, and no probe can decide at run time."""
    HINT = "hint"
    """Goes to the verdict's advice: honest kernels do it too, or a probe decides."""


@dataclass(frozen=True, slots=True)
class Rule:
    find: Find
    severity: RuleSeverity
    remedy: str
    exploits: tuple[str, ...]
    """Ids of the known ways to cheat that the rule is aimed at."""
    is_pure_only: bool = False

    @property
    def id(self) -> str:
        return self.find.__name__

    @property
    def reason(self) -> str:
        return " ".join((self.find.__doc__ or "").split())


def refuse(remedy: str, exploits: str, *, is_pure_only: bool = False) -> Callable[[Find], Rule]:
    """Make a function a rule that rejects; `is_pure_only` where `hybrid` mode allows it."""
    codes = tuple(exploits.split())
    return lambda find: Rule(find, RuleSeverity.REFUSE, remedy, codes, is_pure_only)


def hint(remedy: str, exploits: str, *, is_pure_only: bool = False) -> Callable[[Find], Rule]:
    """Make a function a rule that advises; `is_pure_only` where `hybrid` mode allows it anyway."""
    return lambda find: Rule(find, RuleSeverity.HINT, remedy, tuple(exploits.split()), is_pure_only)


def uses(source: CandidateSource, names: Set[str], verb: str = "uses") -> Iterator[tuple[int, str]]:
    """Every place where one of these is named, as a finding."""
    return ((use.line, f"{verb} {use.name}") for use in source.named(names))
