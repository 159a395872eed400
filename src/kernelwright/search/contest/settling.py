"""Which whole a search keeps: by a contest with torch.compile, or by the judge's times alone."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.search.contest.contest import Contest, hold_contest
from kernelwright.search.contest.entries import ContestEntry, entries
from kernelwright.search.contest.process import ContestProcess
from kernelwright.search.contest.wholes import Wholes
from kernelwright.search.search import Search
from kernelwright.search.target import Target
from kernelwright.search.variant import Variant, Whole
from kernelwright.timing.deadline import Deadline

CONTEST_SHARE = 0.6
"""A contest takes at most this share of the time that is left after tuning."""
SETTLING_S = 10.0
"""After Ctrl-C: seconds in which the whole is judged with the kernels that are right so far."""


@dataclass(frozen=True, slots=True)
class Settling:
    """The measurements that the decision rests on. Ctrl-C sets the interruption of the search."""

    target: Target
    search: Search
    wholes: Wholes
    process: ContestProcess

    def beside_compile(self, searched: Sequence[Variant]) -> tuple[Whole, Contest]:
        """(The whole that is kept, the contest that it took part in).

        A whole that the first contest did not time enters a second contest. If the whole loses
        there, the original replaces it. If the second contest cannot time the whole, it is kept,
        because the judge accepted it. In pure mode speed decides nothing.
        """
        is_pure = self.search.judge.rules.mode == "pure"
        contenders = [] if is_pure else entries(searched, self.target)
        contest = self._contest(contenders)
        if any(entry.name in contest.samples for entry in contenders):
            whole = self._after(contest, contenders)
        else:
            # No whole was timed, but the originals were: the judge's times must reach the faster of
            # them.
            self.wholes.bar = contest.bar
            whole = self.alone(searched)
        is_untimed = bool(whole.variant.chosen) and whole.contender is None
        if not is_untimed or self.search.interruption is not None:
            return whole, contest
        entry = ContestEntry(variant=whole.variant, source=whole.source, served=whole.served)
        second = self._contest([entry])
        if entry.name not in second.samples:
            return whole, contest
        if second.is_beaten(entry.name) and not is_pure:
            return self.wholes.unchanged(whole.variant, self.target), second
        return replace(whole, contender=entry.name), second

    def alone(self, searched: Sequence[Variant]) -> Whole:
        """The whole that is kept by the judge's times or estimates.

        After a first Ctrl-C, the whole with the kernels that are right so far is judged in a few
        seconds. After a second Ctrl-C the original is kept.
        """
        while True:
            if self.search.interruption is not None:
                self.wholes.deadline = Deadline(clock_s=time.monotonic() + SETTLING_S)
            try:
                variants = list(searched)
                # Ranking screens all forms on the GPU, for which there is no time after Ctrl-C.
                if self.search.interruption is None:
                    variants = self.wholes.ranked(variants)
                return self.wholes.settle(variants, self.target)
            except KeyboardInterrupt as interruption:
                if self.search.interruption is not None:
                    return self.wholes.unchanged(searched[-1], self.target)
                self.search.interruption = interruption

    def _contest(self, contenders: Sequence[ContestEntry]) -> Contest:
        """PyTorch, torch.compile and the entries, timed in turn."""
        self.search.steps("timing wholes beside torch.compile", self.target.name)
        try:
            self.search.judge.rest()  # its guest has memory on the GPU
            if any(entry.exact for entry in contenders):
                self.search.judge.start_ahead(compiles=True)
            with self.search.judge.hold():
                return hold_contest(
                    self.target.task,
                    {entry.name: entry.source for entry in contenders},
                    precision=self.search.judge.rules.precision.value,
                    deadline=self.search.budget.deadline.share(CONTEST_SHARE),
                    process=self.process,
                    is_sized=self.target.sized is not None,
                )
        except KeyboardInterrupt as interruption:
            self.search.interruption = interruption
            return Contest(message="torch.compile was not timed: the search was interrupted.")

    def _after(self, contest: Contest, contenders: Sequence[ContestEntry]) -> Whole:
        try:
            return self.wholes.settle_contest(contest, contenders, self.target)
        except KeyboardInterrupt as interruption:
            self.search.interruption = interruption
            return self.alone([entry.variant for entry in contenders])
