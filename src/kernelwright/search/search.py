"""The search of a program in its forms: fragments are proposed, and each is tuned on its own."""

import math
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

from kernelwright.core.seed import derive
from kernelwright.programs.combine import Option, combine
from kernelwright.programs.fragment import extract
from kernelwright.programs.parts import smaller_parts
from kernelwright.programs.program import Program
from kernelwright.programs.text import to_text
from kernelwright.search.describe import Spent
from kernelwright.search.forms import CHANNELS_LAST, Form, forms
from kernelwright.search.proposals import gaps, proposed
from kernelwright.search.siblings import kind, taken_over
from kernelwright.search.sources import FailedSource, Sources
from kernelwright.search.tune import Tuned, affordable, stays, tune
from kernelwright.search.variant import Variant
from kernelwright.search.wholes import Say
from kernelwright.timing.stages import worked_s
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import ProgramTask, program_task
from kernelwright.verify.task import Task

TUNING_SHARE = 0.6
"""Of the budget: until when fragments are tuned."""
MIN_TUNING_SHARE = 0.3
"""Of the budget: how long fragments are tuned however long a large model took to lower."""
PROPOSING_SHARE = 0.3
"""Of a form's time for tuning: until when a large program is looked through for fragments."""
MIN_PROPOSING_S = 2.0
"""However late it is: a form without proposals would have nothing to tune."""
MIN_CANDIDATES, MAX_CANDIDATES = 4, 8
"""A fragment: as many as its share of the time for tuning suffices for."""
ASKED_TOGETHER = 16
"""Fragments that models write for at once: together they take little longer than one."""
WRITING_SHARE, MIN_WRITING_S = 0.75, 5.0
"""Of the time that is left for a form: for models to write, at most, each time they are asked."""
CANDIDATE_S = 1.5
"""Of that time: compiling, two cases, times."""


@dataclass(frozen=True, slots=True)
class _Until:
    """Until when a form is tuned: on either of two clocks."""

    worked_s: float
    """Stands still while others are waited for."""
    clock_s: float

    def left_s(self) -> float:
        """Negative once it is over."""
        return min(self.worked_s - worked_s(), self.clock_s - time.monotonic())


class Search:
    """Tuning with one judge within a budget; equal fragments are tuned once.

    Args:
        end_s: on the monotonic clock, which goes on while others are waited for: tuning ends then
            at the latest.
    """

    def __init__(
        self,
        judge: Judge,
        sources: Sources | None = None,
        *,
        begin_s: float,
        budget_s: float,
        say: Say,
        end_s: float = math.inf,
        seed: int = 0,
    ) -> None:
        self._judge, self._say, self._seed = judge, say, seed
        self._end_s = end_s
        self._sources = sources or Sources()
        if self._sources.has_models and judge.trusted:
            raise ValueError("what models write is not for a judge that trusts it")
        self._begin_s, self._budget_s = begin_s, budget_s
        self._tuning_s = TUNING_SHARE * budget_s
        self._min_tuning_s = MIN_TUNING_SHARE * budget_s
        self._known: dict[str, Tuned] = {}
        self._winners: dict[Hashable, Tuned] = {}
        """By kind, one that won at some size."""

    def spent(self) -> Spent:
        """Until now."""
        num_candidates = sum(len(tuned.candidates) for tuned in self._known.values())
        return Spent(worked_s() - self._begin_s, num_candidates)

    def left_s(self) -> float:
        """Seconds of the budget that are left; negative once it is over."""
        return self._begin_s + self._budget_s - worked_s()

    @property
    def failed(self) -> Sequence[FailedSource]:
        """Models that failed, until now."""
        return self._sources.failed

    def variants(self, program: Program, task: Task) -> list[Variant]:
        """The program searched in its forms, each in an equal share of the time and in what those
        before it left.

        Args:
            task: what the whole is judged by.
        """
        is_moved = isinstance(task, ProgramTask)  # and so judged at other sizes
        every = forms(program, on_gpu=self._judge.on_gpu, at_other_sizes=is_moved)
        found = [form for form in every if self._can_be_right(form)]
        left_out = [Variant.of(form, (), ()) for form in every if form not in found]
        now_s = worked_s()
        end_s = max(self._begin_s + self._tuning_s, now_s + self._min_tuning_s)
        share_s = (end_s - now_s) / len(found)
        clock_s = time.monotonic()
        clock_share_s = (self._end_s - clock_s) / len(found)
        planned_s = self._tuning_s / len(found)
        with ThreadPoolExecutor(1, "ahead") as ahead:
            return left_out + [
                self._search(
                    form,
                    planned_s,
                    _Until(now_s + share_s * number, clock_s + clock_share_s * number),
                    ahead,
                )
                for number, form in enumerate(found, 1)
            ]

    def _can_be_right(self, form: Form) -> bool:
        """Not where a library that stays computes in another precision in the form's layout: for
        few channels cuDNN rounds to TF32 in channels-last alone. No whole would be accepted."""
        if form.layout != CHANNELS_LAST or self._judge.rules.mode == "pure":
            return True
        original, rewritten = (
            program_task(each, name="form") for each in (form.original, form.program)
        )
        agrees = self._judge.agrees(original, rewritten)
        if not agrees:
            self._say(f"{form.name}: PyTorch computes less exactly in it")
        return agrees

    def _search(self, form: Form, planned_s: float, until: _Until, ahead: Executor) -> Variant:
        program = form.program
        has_models = self._sources.has_models
        for_s = max(PROPOSING_SHARE * until.left_s(), MIN_PROPOSING_S)
        proposals = proposed(program, self._judge, has_models=has_models, for_s=for_s)
        limit = _candidates_each(planned_s, len(proposals))
        tuned: list[Tuned] = []
        for number, calls in enumerate(proposals, 1):  # which get more on the way
            if self._is_settled(program, calls, tuned):
                continue
            if self._is_late(until, tuned):
                tuned += self._without_time(program, calls)
                continue
            self._ask(program, proposals[number - 1 :], tuned, limit, until)
            names = "+".join(program.calls[i].op for i in sorted(calls))
            self._say(f"{form.name} {number}/{len(proposals)}: {names}")
            self._compile_next(ahead, program, proposals[number - 1 :], tuned, limit)
            tuned.append(self._tune(program, calls, limit))
            if has_models and not any(verdict.accepted for verdict in tuned[-1].verdicts):
                proposals[number:number] = smaller_parts(program, calls, proposals)
        chosen = self._chosen(program, tuned)
        while until.left_s() >= 0:
            tried = [each.fragment.calls for each in tuned]
            held = [tried[i] for i in chosen]
            rest = gaps(program, self._judge, tried, held, has_models=has_models)
            if not rest:
                break
            self._say(f"{form.name}: {len(rest)} fragments more of what the chosen ones leave")
            for number, calls in enumerate(rest):
                if not self._is_late(until, tuned):
                    self._ask(program, rest[number:], tuned, limit, until)
                    tuned.append(self._tune(program, calls, limit))
            chosen = self._chosen(program, tuned)
        return Variant.of(form, tuple(tuned), chosen)

    def _is_late(self, until: _Until, tuned: Sequence[Tuned]) -> bool:
        """A form has one fragment tuned at least; not where the search itself is at its end and
        another form has some."""
        has_some = bool(tuned) or (bool(self._known) and time.monotonic() > self._end_s)
        return has_some and until.left_s() < 0

    def _ask(
        self,
        program: Program,
        proposals: Sequence[frozenset[int]],
        tuned: list[Tuned],
        limit: int,
        until: _Until,
    ) -> None:
        """Have the models write for the first proposal, and for those after it along with it, in a
        share of the time that is left until then."""
        if not self._sources.has_models:
            return
        open_ = (calls for calls in proposals if not self._is_settled(program, calls, tuned))
        asked = [extract(program, calls).program for calls in islice(open_, ASKED_TOGETHER)]
        asked = [each for each in asked if not stays(each, self._judge)]
        limit = affordable(self._judge, limit)
        for_s = max(WRITING_SHARE * until.left_s(), MIN_WRITING_S)
        num_failed = len(self.failed)
        self._sources.ask(asked, self._judge.rules, limit=limit, seed=self._seed, for_s=for_s)
        for failed in self.failed[num_failed:]:
            self._say(str(failed))

    def _compile_next(
        self,
        ahead: Executor,
        program: Program,
        proposals: Sequence[frozenset[int]],
        tuned: list[Tuned],
        limit: int,
    ) -> None:
        """Have the candidates of the next new fragment compiled while the first is judged, which is
        waiting mostly."""
        if not self._judge.on_gpu or self._sources.has_models:
            return
        this, *others = proposals
        known = {*self._known, to_text(extract(program, this).program)}
        for calls in others:
            fragment = extract(program, calls).program
            text = to_text(fragment)
            if text in known or self._is_settled(program, calls, tuned):
                continue
            candidates, _ = self._sources.written(
                fragment, self._judge.rules, limit=limit, seed=derive(self._seed, text)
            )
            ahead.submit(self._judge.warm, program_task(fragment, name="fragment"), candidates)
            return

    def _chosen(self, program: Program, tuned: Sequence[Tuned]) -> tuple[int, ...]:
        options = [Option(t.fragment.calls, self._value(t)) for t in tuned]
        return tuple(combine(program, options))

    def _is_settled(self, program: Program, calls: frozenset[int], tuned: list[Tuned]) -> bool:
        """Whether a larger fragment has won that these calls need not be tried against.

        They are tried where they are what another winner leaves of it: both cannot be kept.
        Where speed is measured and the library may stay, they are tried if the larger one took a
        product from it that they leave there: its kernel and theirs may be faster than one.
        """
        may_stay = self._judge.on_gpu and self._judge.rules.mode != "pure"
        winners = [t.fragment.calls for t in tuned if t.winner is not None]
        for larger in winners:
            if not calls < larger or any(calls == larger - other for other in winners):
                continue
            left = (program.calls[i] for i in larger - calls)
            if not (may_stay and any(call.is_product for call in left)):
                return True
        return False

    def _tune(self, program: Program, calls: frozenset[int], limit: int) -> Tuned:
        fragment = extract(program, calls)
        text = to_text(fragment.program)
        if text not in self._known:
            self._known[text] = tune(
                fragment,
                self._judge,
                self._sources,
                limit=limit,
                seed=derive(self._seed, text),
            )
        found = self._known[text]
        if found.winner is not None:
            self._winners.setdefault(kind(fragment.program), found)
        return replace(found, fragment=fragment)

    def _without_time(self, program: Program, calls: frozenset[int]) -> list[Tuned]:
        """The fragment as an equal one was tuned, or with what won at other sizes; none where there
        is neither."""
        fragment = extract(program, calls)
        text = to_text(fragment.program)
        if text in self._known:
            return [replace(self._known[text], fragment=fragment)]
        like = self._winners.get(kind(fragment.program))
        if like is None:
            return []
        found = taken_over(
            fragment,
            like,
            self._sources,
            self._judge.rules,
            limit=affordable(self._judge, MAX_CANDIDATES),
            seed=derive(self._seed, text),
        )
        return [] if found is None else [found]

    def _value(self, tuned: Tuned) -> float:
        """What taking it is worth; in pure mode covering an operator outweighs any time."""
        if tuned.winner is None:
            return 0.0
        covered = len(tuned.fragment.calls) if self._judge.rules.mode == "pure" else 0
        return tuned.saving + covered * 1e12


def _candidates_each(planned_s: float, num_proposals: int) -> int:
    """By the time that a form was to have: what is written never depends on the clock."""
    affordable = planned_s / (CANDIDATE_S * max(num_proposals, 1))
    return min(max(int(affordable), MIN_CANDIDATES), MAX_CANDIDATES)
