"""The progress of a long job, reported to a callback that shows it: console, notebook or log."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a long job stands. A callback gets a new record at each step."""

    stage: str
    """The step in plain words: "loading", "lowering", "writing kernels", "judging", "timing"."""
    subject: str = ""
    """The thing in work, for example the operators of a fragment: "matmul+gelu"."""
    done: int = 0
    """Items of this stage that are finished."""
    total: int | None = None
    """Items of this stage; None while the number is unknown."""
    spent_s: float = 0.0
    """Seconds since the user's call began."""
    budget_s: float | None = None
    """Seconds the user allows for the whole job; None without a budget."""
    best: str = ""
    """The best result so far in plain words; empty before there is any."""


Say = Callable[[str], None]
"""A callback that shows a line of text, for jobs that have no more to tell."""

OnProgress = Callable[[Progress], None]
"""A callback for progress. Its errors are the caller's and end the job."""


def ignore(_: Progress) -> None:
    """The callback that shows nothing."""
