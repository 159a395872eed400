"""Whole programs with their kernels: which form is fastest, and what of it is kept."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.programs.compose import compose
from kernelwright.search.describe import form_record, whole_record
from kernelwright.search.forms import CPU_LIMIT_BYTES, at_cpu_size
from kernelwright.search.graphed import waits_for_launches
from kernelwright.search.target import Target
from kernelwright.search.variant import Variant, Whole
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import INTERPRETER_FLOPS, program_task
from kernelwright.verify.task import Task

Say = Callable[[str], None]

SLOWER_TRIES = 3
"""Right kernels that are judged in the whole where none is worth keeping, until one is accepted."""


class Wholes:
    """Judges wholes against the original, and remembers what it found."""

    def __init__(self, judge: Judge, say: Say, *, end_s: float = math.inf) -> None:
        """
        Args:
            end_s: on the monotonic clock; no whole is begun after it but the first. One that was
                begun is judged as a graph all the same.
        """
        self._judge, self._say, self._end_s = judge, say, end_s
        self.judged: list[Record] = []
        """Every whole with kernels that was judged, those that were not kept too."""
        self.forms: list[Record] = []
        """Of the forms that were compared, with their times."""
        self._right_but_slower: list[Whole] = []

    def ranked(self, variants: list[Variant]) -> list[Variant]:
        """Those with kernels that are right, by their time as a whole. All of these as they come
        where none is right, there is but one, or nothing is timed; the last one where no kernel was
        chosen in any."""
        self.forms = [form_record(each, None) for each in variants if not each.chosen]
        variants = [each for each in variants if each.chosen] or variants[-1:]
        if len(variants) == 1 or not self._judge.on_gpu:
            return variants
        self._say("comparing forms")
        whole = [compose(v.program, v.replacements()) for v in variants]
        verdicts = self._judge.screen(program_task(variants[0].original, name="forms"), whole)
        found = []
        for variant, verdict in zip(variants, verdicts, strict=True):
            self._note(variant, verdict)
            self.forms.append(form_record(variant, verdict))
            times = verdict.times.get("candidate")
            text = f"{times.median_ms:.4g} ms" if times else verdict.message
            self._say(f"{variant.name}: {text}")
            if times:
                found.append((times.median_ms, variant))
        return [variant for _, variant in sorted(found, key=lambda pair: pair[0])] or variants

    def settle(self, variants: Sequence[Variant], target: Target) -> Whole:
        """The first variant that is accepted as a whole and not slower than the original.

        A variant that is neither comes again when the others had their turn, without the fragment
        that saves least, then without the next two, the next four and so on. Where nothing of any
        is left, or no time, it is PyTorch alone: then the source is the original, since no
        rewriting of it was found right.
        """
        self._judge.rest()  # each whole has a guest of its own
        variant = variants[-1]
        waiting = deque((each, 1) for each in variants if each.chosen)
        while waiting:
            variant, num_back = waiting.popleft()
            whole = self._judged(variant, target)
            if self.wins(whole.verdict):
                return whole
            if whole.verdict.accepted:
                self._right_but_slower.append(whole)
            self._say(f"{variant.name} does not win: {whole.verdict.message}")
            if self._is_over():
                num_back = len(variant.chosen)
                waiting.clear()
            variant = variant.without_least(whole.verdict, num_back)
            if variant.chosen:
                waiting.append((variant, 2 * num_back))
        source = target.write(compose(variant.original, []).source)
        verdict = self._judge.verify(target.task, Candidate(source=source, origin="search"))
        message = "no fragment won: optimized.py computes with PyTorch alone"
        return Whole(variant, source, replace(verdict, message=message))

    def slower(self, variants: Sequence[Variant], target: Target) -> Whole | None:
        """The fastest right whole, for when none is worth keeping: one with a single right kernel,
        where time is left, or one that was judged before; None where none was accepted.

        The best kernel of each fragment comes first, the one that costs least before the others:
        what the whole refuses of one schedule it refuses of the next, mostly. It refuses most of
        all whatever a form's library calls do: the next kernel is of the form that was refused
        least.
        """
        right = list(self._right_but_slower)
        left, refused = _right(variants), Counter[str]()
        for _ in range(min(SLOWER_TRIES, len(left))):
            if self._is_over():
                break
            at = min(range(len(left)), key=lambda n: refused[left[n][0].name])
            variant, i, j = left.pop(at)
            tuned = list(variant.tuned)
            tuned[i] = replace(tuned[i], winner=j)
            with_one = replace(variant, tuned=tuple(tuned), chosen=(i,))
            whole = self._judged(with_one, target)
            if whole.verdict.accepted:
                right.append(whole)
                break
            refused[variant.name] += 1
            self._say(f"a right kernel alone is not accepted in the whole: {whole.verdict.message}")
        return max(right, key=lambda whole: whole.verdict.speedup or 0.0, default=None)

    def _is_over(self) -> bool:
        return time.monotonic() > self._end_s

    def wins(self, verdict: Verdict) -> bool:
        """Accepted, and faster where time was measured; in pure mode speed decides nothing."""
        is_slower = verdict.speedup is not None and verdict.speedup < 1.0
        return verdict.accepted and (self._judge.rules.mode == "pure" or not is_slower)

    def _judged(self, variant: Variant, target: Target) -> Whole:
        """The variant's whole; as a CUDA graph where it waits for launches and the graph helps."""
        composed = compose(variant.program, variant.replacements()).source
        whole = self._judged_as(target.write(composed), variant, target)
        write_graphed = target.write_graphed
        if write_graphed is None or not waits_for_launches(whole.verdict):
            return whole
        self._say("it waits for launches: judging it as a CUDA graph")
        graphed = self._judged_as(write_graphed(composed), variant, target, is_graph=True)
        if graphed.verdict.accepted and _median_ms(graphed.verdict) < _median_ms(whole.verdict):
            return replace(graphed, launched=whole.verdict)
        self._say(f"the graph does not win: {graphed.verdict.message}")
        return whole

    def _judged_as(
        self, source: str, variant: Variant, target: Target, *, is_graph: bool = False
    ) -> Whole:
        candidate = Candidate(source=source, origin="search")
        verdict = self._judge_whole(variant, target.task, candidate)
        self._note(variant, verdict, is_graph=is_graph)
        return Whole(variant, source, verdict)

    def _note(self, variant: Variant, verdict: Verdict, *, is_graph: bool = False) -> None:
        if variant.chosen:
            self.judged.append(whole_record(variant, verdict, is_graph=is_graph))

    def _judge_whole(self, variant: Variant, task: Task, candidate: Candidate) -> Verdict:
        if self._judge.on_gpu:
            self._judge.warm(task, [candidate])
            return self._judge.verify(task, candidate)
        kept = [variant.tuned[i] for i in variant.chosen]
        is_light = sum(r.fragment.program.flops() for r in kept) <= INTERPRETER_FLOPS
        if is_light and variant.program.bytes_unfused() <= CPU_LIMIT_BYTES:
            return self._judge.verify(task, candidate)
        small = at_cpu_size(variant)
        assert small is not None  # `forms` leaves out those for which it is
        original, program = small
        whole = compose(program, variant.replacements(program))
        verdict = self._judge.verify(program_task(original, name="scaled down"), whole)
        note = "judged on the program scaled down: there is no GPU for its real sizes"
        return replace(verdict, advice=(*verdict.advice, note))


def _right(variants: Sequence[Variant]) -> list[tuple[Variant, int, int]]:
    """Right kernels as (variant, fragment, candidate): the best of each fragment, then the second
    of each, and so on; those that save most, or cost least, first."""
    found = []
    for variant in variants:
        for i, tuned in enumerate(variant.tuned):
            savings = [(_saving_ms(v), j) for j, v in enumerate(tuned.verdicts) if v.accepted]
            ranked = enumerate(sorted(savings, reverse=True))
            found += [((rank, -saving), (variant, i, j)) for rank, (saving, j) in ranked]
    return [kernel for _, kernel in sorted(found, key=lambda each: each[0])]


def _median_ms(verdict: Verdict) -> float:
    return verdict.times["candidate"].median_ms


def _saving_ms(verdict: Verdict) -> float:
    """Negative where the candidate is slower; 0 where nothing was timed."""
    if verdict.speedup is None:
        return 0.0
    return verdict.times["reference"].median_ms - verdict.times["candidate"].median_ms
