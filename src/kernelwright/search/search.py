"""The search of a program in its forms: fragments are proposed, and each is tuned on its own."""

from collections.abc import Hashable, Sequence
from concurrent.futures import Executor as Threads
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.library.entry import FRAGMENT, PROGRAM
from kernelwright.programs.fragments.combine import Option, combine
from kernelwright.programs.fragments.fragment import Fragment, extract
from kernelwright.programs.fragments.partition import has_ready_factors
from kernelwright.programs.fragments.parts import smaller_parts
from kernelwright.programs.program import Program
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.programs.text import to_text
from kernelwright.programs.traffic import kernel_launches
from kernelwright.sandbox.workers.executor import Executor
from kernelwright.search.fleet import tuned_elsewhere
from kernelwright.search.form_work import MAX_CANDIDATES, MIN_WRITING_S, FormWork, candidates_each
from kernelwright.search.forms import CHANNELS_LAST, CONTIGUOUS, ProgramForm, forms, sized_forms
from kernelwright.search.proposals import gaps, proposed
from kernelwright.search.refining import refined
from kernelwright.search.shelf import Shelf
from kernelwright.search.siblings import kind, taken_over
from kernelwright.search.sources import FailedSource, Sources, Writers, Writing
from kernelwright.search.telling.describe import Spent
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.tune import (
    Tuned,
    affordable,
    other_sizes,
    serving,
    stays,
    tune,
)
from kernelwright.search.variant import Variant
from kernelwright.teacher.writer import family
from kernelwright.timing.deadline import Budget
from kernelwright.verify.judge import Judge
from kernelwright.verify.tasks.program_task import ProgramTask, program_task
from kernelwright.verify.tasks.task import Task

TUNING_SHARE, LAST_SHARE = 0.5, 0.7
"""Shares of the time after lowering: the end of tuning, and the end of tuning while no kernel is
right. The rest is for judging the whole and for writing the result."""
PROPOSING_SHARE = 0.3
"""The share of a form's tuning time in which fragments of a large program are proposed."""
ASKED_TOGETHER = 16
"""Fragments that models write for at once: together they take little longer than one."""
SEED = 0
"""The seed of the schedules that a search tries: equal searches try the same."""
WRITING_SHARE = 0.75
"""Share of the time left for a form that models may write, each time they are asked."""


class Search:
    """Tunes the fragments of a program within a budget. Equal fragments are tuned once.

    Args:
        judge: judges what models write, and all candidates without a `teacher_judge`.
        teacher_judge: judges what the teacher writes; it is faster, because it trusts candidates.
        budget: of the whole job. Tuning ends early enough for the whole to be judged.
        tries_useless: without a GPU, also judge candidates that save no memory traffic.
        shelf: where fragments are looked up and kept.
        workers: tune fragments in parallel, for the shelf (`search.fleet`).
    """

    def __init__(
        self,
        judge: Judge,
        sources: Sources | None = None,
        *,
        budget: Budget,
        steps: SearchSteps | None = None,
        teacher_judge: Judge | None = None,
        tries_useless: bool = False,
        shelf: Shelf | None = None,
        workers: Executor | None = None,
    ) -> None:
        self.judge = judge
        self._judges = {Writers.TEACHER: teacher_judge or judge, Writers.MODELS: judge}
        self._sources = sources or Sources()
        if self._sources.has_models and judge.trusted:
            raise ValueError("what models write is not for a judge that trusts it")
        self.budget, self.steps = budget, steps or SearchSteps()
        self._tries_useless = tries_useless
        self._shelf = shelf or Shelf(None, judge.rules, self._sources, self.steps)
        self._workers = workers if self._shelf.is_used else None
        self._known: dict[tuple[str, Writers], Tuned] = {}
        self._winners: dict[Hashable, Tuned] = {}
        """Kind of fragment (`siblings.kind`) -> the first fragment of the kind that won."""
        self.interruption: KeyboardInterrupt | None = None
        """The Ctrl-C or SIGTERM that ended tuning."""

    def spent(self) -> Spent:
        """The costs of the search until now."""
        num_candidates = sum(len(tuned.candidates) for tuned in self._known.values())
        return Spent(self.budget.spent_s(), num_candidates, self._shelf.num_taken)

    @property
    def tuned(self) -> Sequence[Tuned]:
        """Distinct fragments, each once for each kind of writer."""
        return tuple(self._known.values())

    @property
    def failed(self) -> Sequence[FailedSource]:
        """Models that failed, until now."""
        return self._sources.failed

    def variants(
        self, program: Program, task: Task, sized: SizedProgram | None = None
    ) -> list[Variant]:
        """Searches the program in each of its forms. Ctrl-C ends the search with what is tuned.

        Each form gets an equal share of the time that is left.

        Args:
            task: judges the whole.
            sized: the program at several sizes, where sizes vary.
        """
        searched: list[Variant] = []
        try:
            self._search_forms(program, task, sized, searched)
        except KeyboardInterrupt as interruption:
            self.interruption = interruption
        # Teacher and models may share a judge, which rests once.
        for judge in {id(judge): judge for judge in self._judges.values()}.values():
            judge.rest()  # the whole is judged in a guest of its own
        plain = ProgramForm(original=program, program=program, layout=CONTIGUOUS)
        return searched or [Variant.of(plain, (), ())]

    def _search_forms(
        self, program: Program, task: Task, sized: SizedProgram | None, searched: list[Variant]
    ) -> None:
        is_moved = isinstance(task, ProgramTask)  # and so judged at other sizes
        self.steps("looking for rewrites")
        on_gpu = self.judge.on_gpu
        if sized is not None:
            every = sized_forms(sized, on_gpu=on_gpu)
        else:
            every = forms(program, on_gpu=on_gpu, at_other_sizes=is_moved)
        possible = [form for form in every if self._can_be_right(form)]
        searched += [Variant.of(form, (), ()) for form in every if form not in possible]
        # Time is planned from the whole budget, not from the time that is left: a slow start must
        # not change which candidates are tried.
        planned_s = TUNING_SHARE * self.budget.seconds / len(possible)
        tuning = self.budget.deadline.share(TUNING_SHARE)
        latest = self.budget.deadline.share(LAST_SHARE)
        with ThreadPoolExecutor(1, "ahead") as ahead:
            for number, form in enumerate(possible):
                # An equal share of what is left: time that one form does not use goes to the forms
                # after it.
                until = tuning.share(1 / (len(possible) - number))
                is_last = number == len(possible) - 1
                work = FormWork(form, until, latest if is_last else until, self._sources.passes[0])
                searched.append(self._search(work, planned_s, ahead))
                if self.interruption is not None:
                    return

    def _can_be_right(self, form: ProgramForm) -> bool:
        """Whether PyTorch is precise enough in the form's layout for a whole to be accepted.

        For few channels cuDNN rounds to TF32 in channels-last, but not in contiguous layout."""
        if form.layout != CHANNELS_LAST or self.judge.rules.mode == "pure":
            return True
        original, rewritten = (
            program_task(program, name="form") for program in (form.original, form.program)
        )
        agrees = self.judge.agrees(original, rewritten)
        if not agrees:
            self.steps("leaving a form out", f"{form.name}: PyTorch computes less exactly in it")
        return agrees

    def _search(self, work: FormWork, planned_s: float, ahead: Threads) -> Variant:
        """The form with its fragments tuned. The teacher writes candidates first. Then models, if
        there are any, write for the calls that no chosen fragment holds."""
        form, program, tuned = work.form, work.form.program, work.tuned
        try:
            self.steps("looking for fragments", form.name)
            proposals = proposed(
                program,
                self.judge,
                has_models=work.writers is Writers.MODELS,
                for_s=max(PROPOSING_SHARE * work.until.left_s(), 0.0),
            )
            work.is_unproposed = not proposals and work.until.is_over
            work.limit = candidates_each(planned_s, len(proposals))
            work.untried |= set(proposals)
            self._try_all(work, proposals, ahead)
            self._try_gaps(work, ahead)
            for writers in self._sources.passes[1:]:
                work.writers, work.by_writers = writers, set()
                self._try_gaps(work, ahead)
        except KeyboardInterrupt as interruption:
            self.interruption = interruption
        num_untried = sum(not self._is_settled(program, calls, tuned) for calls in work.untried)
        searched = Variant.of(form, tuple(tuned), self._chosen(program, tuned), num_untried)
        return replace(searched, is_unproposed=work.is_unproposed)

    def _try_all(self, work: FormWork, proposals: list[frozenset[int]], ahead: Threads) -> None:
        """Tunes the proposals in order. If all candidates of models are wrong, smaller parts of the
        fragment are tried next."""
        program, tuned = work.form.program, work.tuned
        by_models = work.writers is Writers.MODELS
        self._tune_elsewhere(work, proposals)
        # The list grows in the loop: parts of a failed fragment are put behind the fragment.
        for number, calls in enumerate(proposals, 1):  # which get more on the way
            if self._is_settled(program, calls, tuned):
                continue
            part = extract(program, calls).program
            if reason := stays(part, self.judge, tries_useless=self._tries_useless):
                self._note(work, calls, self._left_alone(program, calls, reason))
                continue
            # Before the clock is asked: a known fragment costs no time.
            if (known := self._from_shelf(work, calls)) is not None:
                self._note(work, calls, known)
                continue
            if work.deadline.is_over or not self._ask(work, proposals[number - 1 :]):
                for result in self._without_time(work, calls):
                    self._note(work, calls, result)
                continue
            names = "+".join(program.calls[i].op for i in sorted(calls))
            self.steps("writing and judging kernels", names, done=number - 1, total=len(proposals))
            self._compile_next(ahead, work, proposals[number - 1 :])
            result = self._tune(work, calls)
            self._note(work, calls, result)
            if by_models and not any(verdict.accepted for verdict in result.verdicts):
                proposals[number:number] = smaller_parts(program, calls, proposals)

    def _tune_elsewhere(self, work: FormWork, proposals: Sequence[frozenset[int]]) -> None:
        """Have workers tune the proposals that nobody has tuned, for the shelf."""
        if self._workers is None or work.writers is not Writers.TEACHER:
            return
        jobs: dict[str, Record] = {}
        for calls in proposals:
            part = extract(work.form.program, calls).program
            text, scope = to_text(part), self._scope(work, calls)
            is_known = (text, work.writers) in self._known
            if is_known or self._shelf.has(text, limit=work.limit, scope=scope):
                continue
            if not stays(part, self.judge, tries_useless=self._tries_useless):
                job = {"text": text, "scope": scope, "limit": work.limit, "seed": SEED}
                jobs.setdefault(text, job)
        # A single fragment is tuned here as fast as by a worker, and without its start.
        if len(jobs) < 2:
            return
        self.steps("workers tune fragments", work.form.name, total=len(jobs))
        try:
            answers = tuned_elsewhere(self._workers, jobs.values(), work.until)
            for number, answer in enumerate(answers, 1):
                if isinstance(answer, str):
                    self.steps("a fragment is left to this process", answer)
                else:
                    self._shelf.add(answer)
                self.steps("workers tune fragments", work.form.name, done=number, total=len(jobs))
        except InfraError as error:
            self._workers = None
            self.steps("going on without workers", str(error))

    def _try_gaps(self, work: FormWork, ahead: Threads) -> None:
        """Tune fragments of the calls that no chosen fragment holds, until there are none."""
        program, tuned = work.form.program, work.tuned
        by_models = work.writers is Writers.MODELS
        while not work.until.is_over:
            chosen = self._chosen(program, tuned)
            tried = [tuned[i].fragment.calls for i in range(len(tuned)) if i in work.by_writers]
            taken = [tuned[i].fragment.calls for i in chosen]
            rest = gaps(program, self.judge, tried, taken, has_models=by_models)
            if not rest:
                return
            work.untried |= set(rest)
            before = len(work.by_writers)
            self._try_all(work, rest, ahead)
            # No proposal was tuned: the time is over, and the next round would propose the same.
            if len(work.by_writers) == before:
                return

    def _note(self, work: FormWork, calls: frozenset[int], result: Tuned) -> None:
        """Records the result for a fragment, together with results of other writers."""
        program, tuned = work.form.program, work.tuned
        result = self._serving_all_sizes(work, calls, result)
        work.untried.discard(calls)
        at = next((i for i, outcome in enumerate(tuned) if outcome.fragment.calls == calls), None)
        if at is None:
            at = len(tuned)
            tuned.append(result)
        else:
            tuned[at] = result.beside(tuned[at])
        work.by_writers.add(at)
        if result.winner is not None:
            chosen = [tuned[i] for i in self._chosen(program, tuned)]
            self.steps.best = _best_so_far(chosen, on_gpu=self.judge.on_gpu)

    def _serving_all_sizes(self, work: FormWork, calls: frozenset[int], tuned: Tuned) -> Tuned:
        """The fragment with its fastest kernel that is right at the form's other sizes too."""
        others = other_sizes(work.form.elsewhere, tuned.fragment)
        is_whole = self._scope(work, calls) == PROGRAM
        return serving(tuned, others, self.judge, work.latest, is_whole=is_whole)

    def _left_alone(self, program: Program, calls: frozenset[int], reason: str) -> Tuned:
        fragment = extract(program, calls)
        kind_ = family(fragment.program) or ""
        return Tuned(fragment=fragment, family=kind_, reason=f"stays PyTorch: {reason}")

    def _ask(self, work: FormWork, proposals: Sequence[frozenset[int]]) -> bool:
        """Has the models write for the first proposals together, in a share of the time left.

        False if too little time is left for that."""
        if work.writers is not Writers.MODELS:
            return True
        program = work.form.program
        open_ = (c for c in proposals if not self._is_settled(program, c, work.tuned))
        parts = (extract(program, calls).program for calls in islice(open_, ASKED_TOGETHER))
        asked = [
            part for part in parts if not stays(part, self.judge, tries_useless=self._tries_useless)
        ]
        left_s = work.until.left_s()
        if left_s < MIN_WRITING_S and not self._sources.has_answers(asked[0]):
            return False
        num_failed = len(self.failed)
        self.steps("a model writes kernels", f"for {len(asked)} fragments")
        self._sources.ask(
            asked,
            self.judge.rules,
            limit=affordable(self.judge, work.limit),
            seed=SEED,
            for_s=WRITING_SHARE * left_s,
        )
        for failed in self.failed[num_failed:]:
            self.steps("going on without a model", str(failed))
        return True

    def _compile_next(
        self, ahead: Threads, work: FormWork, proposals: Sequence[frozenset[int]]
    ) -> None:
        """Have the candidates of the next new fragment compiled while the first is judged, which is
        waiting mostly."""
        if not self.judge.on_gpu or work.writers is Writers.MODELS:
            return
        this, *others = proposals
        program, judge = work.form.program, self._judges[work.writers]
        known = {text for text, _ in self._known}
        known.add(to_text(extract(program, this).program))
        for calls in others:
            fragment = extract(program, calls).program
            text = to_text(fragment)
            if text in known or self._is_settled(program, calls, work.tuned):
                continue
            if self._shelf.has(text, limit=work.limit):
                continue
            candidates, _ = self._sources.written(
                fragment, judge.rules, Writing(work.writers, work.limit, seed=derive(SEED, text))
            )
            # No result is wanted: kernels that are not compiled by then are compiled when judged.
            task = program_task(fragment, name="fragment")
            ahead.submit(judge.warm, task, candidates, deadline=work.until.for_other_threads())
            return

    def _chosen(self, program: Program, tuned: Sequence[Tuned]) -> tuple[int, ...]:
        options = [Option(t.fragment.calls, self._value(t)) for t in tuned]
        return tuple(combine(program, options))

    def _is_settled(self, program: Program, calls: frozenset[int], tuned: list[Tuned]) -> bool:
        """Whether a larger fragment has won, and a trial of these calls cannot improve the result.

        Three cases are tried all the same. First, the calls are the rest of the larger fragment
        without another winner: both winners cannot be kept. If nothing may stay in PyTorch, they
        may be the rest without several winners. Second, the larger fragment holds a product that
        the smaller one leaves to the library. Third, the smaller one is a product without the calls
        that compute its factors: two kernels may be faster than one. The last two need a GPU.
        """
        is_pure = self.judge.rules.mode == "pure"
        may_stay = self.judge.on_gpu and not is_pure
        winners = [t.fragment.calls for t in tuned if t.winner is not None]
        for larger in winners:
            if not calls < larger or any(calls == larger - other for other in winners):
                continue
            others = (other for other in winners if calls.isdisjoint(other))
            if is_pure and larger - calls <= frozenset().union(*others):
                continue
            left = (program.calls[i] for i in larger - calls)
            may_win = any(call.is_product for call in left) or (
                has_ready_factors(program, calls) and not has_ready_factors(program, larger)
            )
            if not (may_stay and may_win):
                return True
        return False

    def _tune(self, work: FormWork, calls: frozenset[int]) -> Tuned:
        fragment = extract(work.form.program, calls)
        text = to_text(fragment.program)
        if (text, work.writers) not in self._known:
            scope = self._scope(work, calls)
            self._known[text, work.writers] = self._tune_new(work, fragment, text, scope)
        known = self._known[text, work.writers]
        if known.winner is not None:
            self._winners.setdefault(kind(fragment.program), known)
        return replace(known, fragment=fragment)

    def _scope(self, work: FormWork, calls: frozenset[int]) -> str:
        return PROGRAM if len(calls) == len(work.form.program.calls) else FRAGMENT

    def _from_shelf(self, work: FormWork, calls: frozenset[int]) -> Tuned | None:
        """The fragment as an earlier search tuned it. The teacher's pass alone looks there."""
        if work.writers is not Writers.TEACHER or not self._shelf.is_used:
            return None
        fragment = extract(work.form.program, calls)
        text = to_text(fragment.program)
        if (text, work.writers) not in self._known:
            scope = self._scope(work, calls)
            known = self._shelf.known(fragment, text, scope=scope, limit=work.limit)
            if known is None:
                return None
            self._known[text, work.writers] = known
        return self._tune(work, calls)

    def _tune_new(self, work: FormWork, fragment: Fragment, text: str, scope: str) -> Tuned:
        """The fragment tuned, and added to the library where the teacher wrote."""
        judge, writers = self._judges[work.writers], work.writers
        uses_shelf = writers is Writers.TEACHER and self._shelf.is_used
        tuned = tune(
            fragment,
            judge,
            self._sources,
            Writing(writers, work.limit, seed=derive(SEED, text)),
            deadline=work.deadline,
            is_whole=scope == PROGRAM,
            first=self._shelf.similar(text, is_trusting=judge.trusted) if uses_shelf else (),
        )
        if writers is Writers.MODELS:
            num_failed = len(self.failed)
            tuned = refined(work, tuned, judge, self._sources, is_whole=scope == PROGRAM)
            for failed in self.failed[num_failed:]:
                self.steps("going on without a model", str(failed))
        if uses_shelf and not work.deadline.is_over:
            self._shelf.keep(tuned, text, scope=scope, limit=work.limit, is_trusting=judge.trusted)
        return tuned

    def _without_time(self, work: FormWork, calls: frozenset[int]) -> list[Tuned]:
        """The fragment with the result of an equal fragment, or with the winner at other sizes.

        Empty without either."""
        fragment = extract(work.form.program, calls)
        text = to_text(fragment.program)
        if (text, work.writers) in self._known:
            return [replace(self._known[text, work.writers], fragment=fragment)]
        like = self._winners.get(kind(fragment.program))
        if like is None:
            return []
        taken = taken_over(
            fragment,
            like,
            self._sources,
            self.judge.rules,
            Writing(work.writers, affordable(self.judge, MAX_CANDIDATES), seed=derive(SEED, text)),
        )
        return [] if taken is None else [taken]

    def _value(self, tuned: Tuned) -> float:
        """The value of taking a fragment; in pure mode covering an operator outweighs any time."""
        if tuned.winner is None:
            return 0.0
        # 1e12 is more than any saving, in milliseconds or in bytes.
        covered = len(tuned.fragment.calls) if self.judge.rules.mode == "pure" else 0
        return tuned.saving + covered * 1e12


def _best_so_far(chosen: Sequence[Tuned], *, on_gpu: bool) -> str:
    """For example "2 kernels save 0.12 ms"."""
    num = sum(kernel_launches(tuned.best) for tuned in chosen if tuned.best is not None)
    saving = sum(tuned.saving for tuned in chosen)
    amount = f"{saving:.3g} ms" if on_gpu else f"{saving / 1e3:,.0f} kB of traffic (estimate)"
    return f"{num} kernel{'s' if num > 1 else ''} save{'' if num > 1 else 's'} {amount}"
