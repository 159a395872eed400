"""A form of a program while it is searched."""

from dataclasses import dataclass, field

from kernelwright.search.forms import ProgramForm
from kernelwright.search.sources import Writers
from kernelwright.search.tune import Tuned
from kernelwright.timing.deadline import Deadline

MIN_CANDIDATES, MAX_CANDIDATES = 4, 8
"""The fewest and the most candidates of each source for a fragment. The share of the tuning time
that the fragment has decides between them."""
CANDIDATE_S = 1.5
"""Tuning time of one candidate: compiling, two cases, times."""
MIN_WRITING_S = 5.0
"""With less time left for a form, models are not asked."""


@dataclass(slots=True)
class FormWork:
    """A form while it is searched."""

    form: ProgramForm
    until: Deadline
    """The end of tuning."""
    latest: Deadline
    """The end of tuning while no kernel is right."""
    writers: Writers
    """The writers of the current pass."""
    tuned: list[Tuned] = field(default_factory=list)
    limit: int = MIN_CANDIDATES
    """Candidates of each source for a fragment."""
    is_unproposed: bool = False
    """The deadline was over before a fragment was proposed. The program may have fragments."""
    untried: set[frozenset[int]] = field(default_factory=set)
    """Fragments that were proposed and not yet decided."""
    by_writers: set[int] = field(default_factory=set)
    """Indices into `tuned` of the fragments for which the writers of this pass were tried."""

    @property
    def deadline(self) -> Deadline:
        """The deadline of the fragment that is tuned now."""
        has_kernel = any(fragment.winner is not None for fragment in self.tuned)
        return self.until if has_kernel else self.latest


def candidates_each(planned_s: float, num_proposals: int) -> int:
    """The candidates of each source for a fragment, from the planned seconds of a form.

    The plan counts and not the clock, so equal searches write equal candidates.
    """
    affordable = planned_s / (CANDIDATE_S * max(num_proposals, 1))
    return min(max(int(affordable), MIN_CANDIDATES), MAX_CANDIDATES)
