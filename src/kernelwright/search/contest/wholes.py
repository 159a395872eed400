"""Judges whole programs with their kernels, and decides which form and which kernels are kept."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import OutOfTime
from kernelwright.core.record import Record
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.traffic import eager_launches, launches_added
from kernelwright.search.contest.contest import Contest
from kernelwright.search.contest.entries import ContestEntry
from kernelwright.search.forms import CPU_LIMIT_BYTES, at_cpu_size
from kernelwright.search.target import Target
from kernelwright.search.telling.describe import form_record, traffic_record, whole_record
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.variant import ServedForm, Variant, Whole
from kernelwright.timing.deadline import NEVER, Deadline
from kernelwright.verify.judge import Judge
from kernelwright.verify.tasks.program_task import INTERPRETER_FLOPS, program_task
from kernelwright.verify.tasks.task import Task

SLOWER_TRIES = 3
"""Right kernels that are judged in the whole where none is worth keeping, until one is accepted."""
SCALED_DOWN = "judged on the program scaled down: there is no GPU for its real sizes"
NOT_JUDGED = "Other combinations of the kernels were not judged."
CUT = "The budget ended before the whole module was judged with its kernels, so none is used."
COMPARING_SHARE = 0.4
"""The largest share of the time after tuning that comparing the forms takes."""


class Wholes:
    """Judges wholes against the original, and remembers what it found."""

    def __init__(
        self, judge: Judge, steps: SearchSteps | None = None, *, deadline: Deadline = NEVER
    ) -> None:
        """
        Args:
            deadline: no judgement goes on after it, and no other whole is begun unless the time
                that the slowest one took is left.
        """
        self._judge, self._steps = judge, steps or SearchSteps()
        self.bar = 1.0
        """The speed-up over PyTorch that a whole must reach on a GPU: that of torch.compile, where
        a contest has shown that torch.compile is faster."""
        self.deadline = deadline
        self._slowest_s = 0.0
        self.judged: list[Record] = []
        """Every whole with kernels that was judged, those that were not kept too."""
        self.forms: list[Record] = []
        """Records of the forms that were compared, with their times."""
        self.left_out: list[str] = []
        """Sentences: what the deadline cut off."""
        self.refused: list[Whole] = []
        """Wholes with kernels that were judged and not kept."""
        self._right_but_slower: list[Whole] = []

    def ranked(self, variants: list[Variant]) -> list[Variant]:
        """The variants with kernels that are right, sorted by the time of the whole.

        All variants with kernels are returned, unsorted, in three cases: there is only one, nothing
        is timed, or none is right. If no variant has a kernel, the last variant is returned.
        """
        self.forms = [
            form_record(contender, None) for contender in variants if not contender.chosen
        ]
        variants = [contender for contender in variants if contender.chosen] or variants[-1:]
        if len(variants) == 1 or not self._judge.on_gpu:
            return variants
        self._steps("comparing forms", total=len(variants))
        whole = [variant.composed() for variant in variants]
        task = program_task(variants[0].original, name="forms")
        try:
            verdicts = self._judge.screen(
                task, whole, deadline=self.deadline.share(COMPARING_SHARE)
            )
        except OutOfTime:
            self.left_out.append("The forms of the program were not compared with each other.")
            return variants
        timed = []
        for variant, verdict in zip(variants, verdicts, strict=True):
            self._note(variant, verdict)
            self.forms.append(form_record(variant, verdict))
            times = verdict.times.get("candidate")
            if times:
                timed.append((times.median_ms, variant))
        return [variant for _, variant in sorted(timed, key=lambda pair: pair[0])] or variants

    def settle(self, variants: Sequence[Variant], target: Target) -> Whole:
        """The first variant that is accepted as a whole and wins against the original.

        A variant that does not win is put behind the others, without the fragment that saves least.
        Next time two more fragments are left out, then four, and so on. If no fragment or no time
        is left, the original module stays.
        """
        # The number doubles, because a judgement of the whole is slow: a form of n fragments then
        # takes about log2(n) judgements at most.
        variant = variants[-1]
        waiting = deque((contender, 1) for contender in variants if contender.chosen)
        while waiting:
            variant, num_back = waiting.popleft()
            # The first whole is judged in any case, or the search would have no verdict at all.
            if self.refused and self._is_late():
                self.left_out.append(NOT_JUDGED)
                break
            if not self._may_win(variant):
                continue
            try:
                whole = self._judged(variant, target)
            except OutOfTime:
                self.left_out.append(CUT)
                break
            if self.wins(whole):
                return whole
            self.refused.append(whole)
            if whole.verdict.accepted:
                self._right_but_slower.append(whole)
            self._steps("going on with fewer kernels", f"{variant.name}: {whole.verdict.message}")
            variant = variant.without_least(whole.verdict, num_back)
            if variant.chosen:
                waiting.append((variant, 2 * num_back))
        return self.unchanged(variant, target)

    def settle_contest(
        self, contest: Contest, wholes: Sequence[ContestEntry], target: Target
    ) -> Whole:
        """The fastest accepted entry of the contest that neither PyTorch nor torch.compile beats.

        If all such entries are rejected, they are tried with fewer fragments, as in `settle`.

        Args:
            wholes: the entries that took part.
        """
        by_name = {entry.name: entry for entry in wholes}
        self.bar = contest.bar
        rejected: list[Variant] = []
        for name in contest.ranked:
            entry = by_name.get(name)
            if entry is None or contest.is_beaten(name):
                continue
            if self.refused and self._is_late():
                self.left_out.append(NOT_JUDGED)
                break
            try:
                whole = self._judged_entry(entry, contest, target)
            except OutOfTime:
                self.left_out.append(CUT)
                break
            if whole.verdict.accepted:
                return whole
            self.refused.append(whole)
            fewer = entry.variant.without_least(whole.verdict)
            # The same kernels without a graph are an entry of their own, so they are not tried
            # twice.
            if fewer.chosen and not entry.is_graph:
                rejected.append(fewer)
        if rejected and not self._is_late():
            return self.settle(rejected, target)
        return self.unchanged(wholes[0].variant, target)

    def unchanged(self, variant: Variant, target: Target) -> Whole:
        """The original module, with none of the variant's kernels."""
        reason = "stays PyTorch: the whole with it was not kept"
        kept = variant.giving_back(len(variant.chosen), reason) if variant.chosen else variant
        rules = self._judge.rules
        verdict = Verdict(
            accepted=False,
            stage=Stage.STATIC,
            code=Code.NO_KERNEL,
            message="no kernel is kept: optimized.py holds the original module",
            mode=rules.mode,
            precision=rules.precision,
            device=rules.device_name,
        )
        return Whole(kept, target.original, verdict, ServedForm.ORIGINAL)

    def slower(self, variants: Sequence[Variant], target: Target) -> Whole | None:
        """The fastest accepted whole that is slower than the original; None if none was accepted.

        This is a whole that was judged before, or a new one with a single right kernel, if time is
        left.
        """
        right = list(self._right_but_slower)
        # If the whole refuses one schedule of a kernel, it mostly refuses the others, so the best
        # kernel of each fragment is tried first. Most refusals come from the library calls of a
        # form, so the next try is in the form with the fewest refusals.
        left, refused = _right(variants), Counter[str]()
        for _ in range(min(SLOWER_TRIES, len(left))):
            if self._is_late():
                break
            at = min(range(len(left)), key=lambda n: refused[left[n][0].name])
            variant, i, j = left.pop(at)
            tuned = list(variant.tuned)
            tuned[i] = replace(tuned[i], winner=j)
            with_one = replace(variant, tuned=tuple(tuned), chosen=(i,))
            try:
                whole = self._judged(with_one, target)
            except OutOfTime:
                break
            if whole.verdict.accepted:
                right.append(whole)
                break
            refused[variant.name] += 1
        return max(right, key=lambda whole: whole.verdict.speedup or 0.0, default=None)

    def _is_late(self) -> bool:
        return self.deadline.left_s() <= self._slowest_s

    def _may_win(self, variant: Variant) -> bool:
        """Whether judging the whole can lead to a result: without a GPU the estimate decides."""
        is_estimated = not self._judge.on_gpu and self._judge.rules.mode != "pure"
        return not is_estimated or saves(variant)

    def wins(self, whole: Whole) -> bool:
        """Whether a whole is accepted and better than the original.

        With a GPU, the whole must be as fast as PyTorch and torch.compile. Without a GPU, the
        estimate must show fewer launches or fewer bytes, and no more of the other. In pure mode
        speed decides nothing.
        """
        verdict = whole.verdict
        if not verdict.accepted or self._judge.rules.mode == "pure":
            return verdict.accepted
        if self._judge.on_gpu:
            return verdict.speedup is None or verdict.speedup >= self.bar
        return self._may_win(whole.variant)

    def _judged(self, variant: Variant, target: Target) -> Whole:
        """The variant's whole, with eager calls around its kernels."""
        composed = variant.composed().source
        num = len(variant.chosen)
        subject = f"{num} fragment{'s' if num > 1 else ''} in Triton"
        self._steps("judging the whole against the original", subject)
        return self._judged_as(target.write(composed), variant, target)

    def _judged_entry(self, entry: ContestEntry, contest: Contest, target: Target) -> Whole:
        """The judged record of a contender. Where Inductor's layouts make a library compute less
        exactly, the whole is judged once more without them."""
        self._steps("judging the whole against the original", entry.name)
        judged = partial(
            self._judged_as,
            variant=entry.variant,
            target=target,
            served=entry.served,
            is_graph=entry.is_graph,
        )
        whole = judged(entry.source)
        if entry.exact is not None and whole.verdict.code is Code.WRONG_VALUES:
            exact = judged(entry.exact)
            return exact if self.wins(exact) else whole  # it took no part in the contest
        launched_ms = contest.median_ms(entry.launched_name) if entry.is_graph else None
        return replace(whole, contender=entry.name, launched_ms=launched_ms)

    def _judged_as(
        self,
        source: str,
        variant: Variant,
        target: Target,
        *,
        served: ServedForm = ServedForm.KERNELS,
        is_graph: bool = False,
    ) -> Whole:
        candidate = Candidate(source=source, origin="search")
        begin_s = time.monotonic()
        verdict = self._judge_at_all_sizes(variant, target, candidate)
        self._slowest_s = max(self._slowest_s, time.monotonic() - begin_s)
        self._note(variant, verdict, served=served, is_graph=is_graph)
        return Whole(variant, source, verdict, served)

    def _note(
        self,
        variant: Variant,
        verdict: Verdict,
        *,
        served: ServedForm = ServedForm.KERNELS,
        is_graph: bool = False,
    ) -> None:
        if variant.chosen:
            self.judged.append(whole_record(variant, verdict, served=served, is_graph=is_graph))

    def _judge_at_all_sizes(
        self, variant: Variant, target: Target, candidate: Candidate
    ) -> Verdict:
        """The verdict at the sizes of the example; where that accepts, the first rejection at other
        sizes."""
        verdict = self._judge_whole(variant, target.task, candidate)
        if not verdict.accepted or _is_scaled_down(verdict):
            return verdict
        for sizes, task in target.elsewhere.items():
            self._steps("judging the whole at other sizes", sizes)
            other = self._judge.verify(task, candidate, deadline=self.deadline)
            if not other.accepted:
                return replace(other, message=f"with {sizes}: {other.message}")
        if target.elsewhere:
            note = f"judged with {'; '.join(target.elsewhere)} too"
            verdict = replace(verdict, advice=(*verdict.advice, note))
        return verdict

    def _judge_whole(self, variant: Variant, task: Task, candidate: Candidate) -> Verdict:
        if self._judge.on_gpu:
            self._judge.warm(task, [candidate], deadline=self.deadline)
            return self._judge.verify(task, candidate, deadline=self.deadline)
        kept = [variant.tuned[i] for i in variant.chosen]
        # Triton's interpreter is far slower than a GPU: large programs are judged scaled down.
        is_light = sum(r.fragment.program.flops() for r in kept) <= INTERPRETER_FLOPS
        if is_light and variant.program.bytes_unfused() <= CPU_LIMIT_BYTES:
            return self._judge.verify(task, candidate, deadline=self.deadline)
        small = at_cpu_size(variant)
        assert small is not None  # `forms` leaves out those for which it is
        original, program = small
        whole = compose(program, variant.replacements(program))
        small_task = program_task(original, name="scaled down")
        verdict = self._judge.verify(small_task, whole, deadline=self.deadline)
        return replace(verdict, advice=(*verdict.advice, SCALED_DOWN))


def _is_scaled_down(verdict: Verdict) -> bool:
    return SCALED_DOWN in verdict.advice


def saves(variant: Variant) -> bool:
    """Whether the variant, by the estimate, launches fewer kernels or moves fewer bytes than the
    original, and no more of the other."""
    moved = traffic_record(variant)["bytes"]
    chosen = [variant.tuned[i] for i in variant.chosen]
    launches = eager_launches(variant.program.calls) - eager_launches(variant.original.calls)
    launches += sum(launches_added(t.fragment.program.calls, t.best) for t in chosen if t.best)
    changes: tuple[int, int] = (launches, moved["after"] - moved["before"])
    return max(changes) <= 0 and min(changes) < 0


def _right(variants: Sequence[Variant]) -> list[tuple[Variant, int, int]]:
    """Right kernels as (variant, index of the fragment, index of the candidate).

    The best kernel of each fragment comes first, then the second of each, and so on. Within each
    rank, kernels that save most come first.
    """
    ranked_kernels = []
    for variant in variants:
        for i, tuned in enumerate(variant.tuned):
            savings = [(_saving_ms(v), j) for j, v in enumerate(tuned.verdicts) if v.accepted]
            ranked = enumerate(sorted(savings, reverse=True))
            ranked_kernels += [((rank, -saving), (variant, i, j)) for rank, (saving, j) in ranked]
    return [kernel for _, kernel in sorted(ranked_kernels, key=lambda ranked: ranked[0])]


def _saving_ms(verdict: Verdict) -> float:
    """Negative where the candidate is slower; 0 where nothing was timed."""
    if verdict.speedup is None:
        return 0.0
    return verdict.times["reference"].median_ms - verdict.times["candidate"].median_ms
