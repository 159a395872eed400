"""Tunes one fragment: writes candidates, judges them, and finds what the best one saves."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import OutOfTime
from kernelwright.core.verdict import Timing, Verdict
from kernelwright.programs.draws.positions import stay_in_range
from kernelwright.programs.fragments.fragment import Fragment, extract
from kernelwright.programs.program import Program
from kernelwright.programs.traffic import eager_bytes, launches_added, moved_bytes
from kernelwright.search.sizes.arguments import with_size_arguments
from kernelwright.search.sources import Sources, Unread, Writing
from kernelwright.teacher.writer import family
from kernelwright.timing.deadline import Deadline
from kernelwright.timing.stages import stage
from kernelwright.verify.judge import Judge
from kernelwright.verify.tasks.program_task import program_task, shape_text

CANDIDATES_CPU = 2
"""Candidates of each writer without a GPU, where speed is not measured: the one that moves least,
and one in reserve that is judged where the first is wrong."""

MIN_SAVING = 0.02
"""Share of the time of torch.compile (of PyTorch, where torch.compile fails) that a winner must
save: below it, a difference is noise. A fragment that is the whole program may lose as much: it
launches less than torch.compile does, and the contest compares calls with their launches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuned:
    """A fragment with its candidates, their verdicts and the winner."""

    fragment: Fragment
    family: str
    candidates: tuple[Candidate, ...] = ()
    """The candidates that were judged."""
    verdicts: tuple[Verdict, ...] = ()
    winner: int | None = None
    rejected: tuple[int, ...] = ()
    """Candidates that are right at the sizes of the example, and not at all sizes."""
    reason: str
    """Why the winner won, or why the fragment stays PyTorch."""
    saving: float = 0.0
    """Milliseconds where measured, else bytes; 0 without a winner."""
    unread: tuple[Unread, ...] = ()
    num_cut_off: int = 0
    """Candidates whose judgement the deadline ended."""
    judged_s: float = 0.0
    """Seconds that judging took for each candidate."""

    @property
    def best(self) -> Candidate | None:
        return None if self.winner is None else self.candidates[self.winner]

    @property
    def eager(self) -> Timing | None:
        """The times of the fragment in PyTorch; None where nothing was timed."""
        return next((v.times["reference"] for v in self.verdicts if v.times), None)

    def beside(self, other: "Tuned") -> "Tuned":
        """The results of two writers for the same calls in one; the winner saves more."""
        number = len(other.candidates)
        better = self if self.saving > other.saving or other.winner is None else other
        winner = better.winner
        if better is self and winner is not None:
            winner += number  # the other's candidates come first
        return replace(
            self,
            candidates=other.candidates + self.candidates,
            verdicts=other.verdicts + self.verdicts,
            winner=winner,
            rejected=(*other.rejected, *(number + place for place in self.rejected)),
            reason=better.reason,
            saving=better.saving,
            unread=other.unread + self.unread,
            num_cut_off=other.num_cut_off + self.num_cut_off,
            judged_s=max(other.judged_s, self.judged_s),
        )


def affordable(judge: Judge, limit: int) -> int:
    """Candidates of each source for a fragment."""
    return limit if judge.on_gpu else CANDIDATES_CPU


def stays(program: Program, judge: Judge, *, tries_useless: bool = False) -> str:
    """Why PyTorch keeps a fragment without a look at candidates; "" where candidates are judged.

    Without a GPU nothing is timed, so a kernel must save memory traffic by its plan.

    Args:
        tries_useless: judge candidates for a fragment that saves no traffic all the same.
    """
    # On a GPU such a read ends the process of the judge.
    if not stay_in_range(program):
        return "on random inputs it may read outside of its tables"
    if judge.on_gpu or judge.rules.mode == "pure":
        return ""
    if any(not c.is_extern and c.operator.family == "convolution" for c in program.calls):
        return "a library convolution is hard to beat"
    if not tries_useless and program.bytes_fused() >= eager_bytes(program, program.calls):
        return "no kernel can save memory traffic here (estimate)"
    return ""


def tune(
    fragment: Fragment,
    judge: Judge,
    sources: Sources,
    writing: Writing,
    *,
    deadline: Deadline,
    is_whole: bool = False,
    first: Sequence[Candidate] = (),
) -> Tuned:
    """Judges the candidates of the writers for a fragment, and takes the fastest accepted one.

    If the deadline ends the judging, the fragment stays in PyTorch.

    Args:
        writing: without a GPU, `affordable` lowers its limit.
        is_whole: the fragment has all calls of the program.
        first: further candidates, judged before those of the writers.
    """
    program = fragment.program
    kind = family(program) or ""
    with stage("write"):
        writing = replace(writing, limit=affordable(judge, writing.limit))
        candidates, unread = sources.written(program, judge.rules, writing)
    # Equal texts are judged once. Kernels of the library come first.
    candidates = list({candidate.source: candidate for candidate in (*first, *candidates)}.values())
    if not judge.on_gpu:
        candidates.sort(key=lambda candidate: moved_bytes(program, candidate))
    begin_s = time.monotonic()
    verdicts, num_cut_off = _screened(program, candidates, judge, deadline)
    # Without a GPU, judging ends at the first right candidate.
    judged = candidates[: len(verdicts)]
    tuned = Tuned(
        fragment=fragment,
        family=kind,
        candidates=tuple(judged),
        verdicts=tuple(verdicts),
        reason=f"stays PyTorch: {_why_none(verdicts, unread, num_cut_off)}",
        unread=tuple(unread),
        num_cut_off=num_cut_off,
        judged_s=(time.monotonic() - begin_s) / max(len(verdicts), 1),
    )
    return _decided(tuned, judge, is_whole=is_whole)


def _decided(
    tuned: Tuned, judge: Judge, *, is_whole: bool, excluded: Collection[int] = ()
) -> Tuned:
    """The fragment with the best of its accepted candidates, where that one wins.

    Args:
        excluded: candidates that may not win.
    """
    verdicts, program = tuned.verdicts, tuned.fragment.program
    accepted = [i for i, verdict in enumerate(verdicts) if verdict.accepted and i not in excluded]
    if not accepted:
        return tuned
    must_win = judge.rules.mode != "pure"
    if judge.on_gpu:
        least = (-MIN_SAVING if is_whole else MIN_SAVING) if must_win else -math.inf
        winner, reason, saving = _fastest(verdicts, accepted, least)
    else:
        winner, reason, saving = _lightest(program, tuned.candidates, accepted, must_win=must_win)
    return replace(tuned, winner=winner, reason=reason, saving=saving)


def other_sizes(programs: Sequence[Program], fragment: Fragment) -> list[Program]:
    """The fragment in the largest and the smallest of some programs, if it differs there.

    Args:
        programs: the whole program of the fragment, at other sizes.
    """
    parts = dict.fromkeys(extract(program, fragment.calls).program for program in programs)
    # At the size of the example the kernel has been judged already.
    parts.pop(fragment.program, None)
    by_size = sorted(parts, key=Program.bytes_fused)
    # A single part is both the largest and the smallest, and is returned once.
    return by_size[-1:] + by_size[:-1][:1]


def _fails_at(
    programs: Sequence[Program], candidate: Candidate, judge: Judge, deadline: Deadline
) -> str | None:
    """Why a candidate for a fragment cannot serve the fragment at other sizes; None where it can.

    Args:
        programs: the fragment at other sizes.
    """
    for program in programs:
        task = program_task(program, name="fragment at another size")
        try:
            (verdict,) = judge.screen(task, [candidate], repeats=1, deadline=deadline)
        except OutOfTime:
            return "the budget ended while its kernel was judged at other sizes"
        if not verdict.accepted:
            sizes = shape_text(program)
            return f"no kernel serves all sizes (with inputs {sizes}: {verdict.message})"
    return None


def serving(
    tuned: Tuned, programs: Sequence[Program], judge: Judge, deadline: Deadline, *, is_whole: bool
) -> Tuned:
    """The fragment with its fastest candidate that is right at other sizes too, if any.

    A winner whose kernels have sizes as constants is replaced: sizes become arguments, and the
    candidate is judged and timed anew.

    Args:
        programs: the fragment at other sizes; none where sizes do not vary.
        is_whole: as of `tune`.
    """
    replaced: set[int] = set()
    while (place := tuned.winner) is not None and programs:
        best = tuned.candidates[place]
        flexible = with_size_arguments(best)
        if flexible is not best and place not in replaced:
            replaced.add(place)
            tuned = _replaced(tuned, place, flexible, judge, deadline, is_whole=is_whole)
        elif failure := _fails_at(programs, best, judge, deadline):
            tuned = _without_winner(tuned, judge, failure, is_whole=is_whole)
        else:
            break
    return tuned


def _replaced(
    tuned: Tuned,
    place: int,
    candidate: Candidate,
    judge: Judge,
    deadline: Deadline,
    *,
    is_whole: bool,
) -> Tuned:
    """The fragment with another candidate in this place, decided anew. The fragment as it was,
    where the other candidate is not accepted."""
    judged, _ = _screened(tuned.fragment.program, [candidate], judge, deadline)
    if not judged or not judged[0].accepted:
        return tuned
    candidates, verdicts = list(tuned.candidates), list(tuned.verdicts)
    candidates[place], verdicts[place] = candidate, judged[0]
    bare = replace(
        tuned,
        candidates=tuple(candidates),
        verdicts=tuple(verdicts),
        winner=None,
        saving=0.0,
        reason="stays PyTorch: no kernel with sizes as arguments is faster",
    )
    return _decided(bare, judge, is_whole=is_whole, excluded=tuned.rejected)


def _without_winner(tuned: Tuned, judge: Judge, reason: str, *, is_whole: bool) -> Tuned:
    """The fragment with its next best candidate, or with none.

    Args:
        reason: why the winner cannot be kept.
        is_whole: as of `tune`.
    """
    assert tuned.winner is not None
    rejected = (*tuned.rejected, tuned.winner)
    bare = replace(
        tuned, winner=None, saving=0.0, reason=f"stays PyTorch: {reason}", rejected=rejected
    )
    return _decided(bare, judge, is_whole=is_whole, excluded=rejected)


def _screened(
    program: Program, candidates: Sequence[Candidate], judge: Judge, deadline: Deadline
) -> tuple[list[Verdict], int]:
    """Verdicts, and the number of candidates whose judgement the deadline ended.

    Without a GPU the candidates, of which the first moves least, are judged one by one until one
    is right: no other can be better by the estimate.
    """
    task = program_task(program, name="fragment")
    verdicts: list[Verdict] = []
    try:
        if judge.on_gpu:
            return judge.screen(task, candidates, deadline=deadline, beside_compile=True), 0
        for candidate in candidates:
            verdicts += judge.screen(task, [candidate], deadline=deadline)
            if verdicts[-1].accepted:
                break
    except OutOfTime:
        return verdicts, len(candidates) - len(verdicts)
    return verdicts, 0


def _why_none(verdicts: list[Verdict], unread: list[Unread], num_cut_off: int) -> str:
    if num_cut_off:
        return "the budget ended while its candidates were judged"
    if verdicts:
        return f"no candidate accepted ({verdicts[0].message})"
    if unread:
        return f"no candidate in what was written ({unread[0].reason}: {unread[0].message})"
    return "no candidate was written"


def rival_of(times: Mapping[str, Timing]) -> tuple[str, Timing]:
    """The rival of a fragment's kernels, and its time: torch.compile, or PyTorch where
    torch.compile fails."""
    if "compiled" in times:
        return "torch.compile", times["compiled"]
    return "PyTorch", times["reference"]


def _fastest(
    verdicts: Sequence[Verdict], accepted: Sequence[int], least_share: float
) -> tuple[int | None, str, float]:
    """(The winner or None, the reason, the milliseconds saved), by measured times.

    Args:
        least_share: the least share of the rival's time that a winner must save.
    """
    best = min(accepted, key=lambda i: verdicts[i].times["candidate"].median_ms)
    times = verdicts[best].times
    after = times["candidate"].median_ms
    rival, timing = rival_of(times)
    before = timing.median_ms
    if before - after < least_share * before:
        return None, f"stays PyTorch: best {after:.4g} ms, {rival} {before:.4g} ms", 0.0
    speed = f"{before / after:.2f}x of {rival}: {before:.4g} -> {after:.4g} ms"
    # `combine` leaves out fragments without a saving, but in pure mode a slower kernel may win.
    return best, speed, max(before - after, 1e-6)


def _lightest(
    program: Program, candidates: Sequence[Candidate], accepted: Sequence[int], *, must_win: bool
) -> tuple[int | None, str, float]:
    """(The winner or None, the reason, the bytes saved), by the estimate.

    The winner moves the fewest bytes of all, fewer than PyTorch, and launches no more kernels.
    """
    best = min(accepted, key=lambda i: moved_bytes(program, candidates[i]))
    saved = eager_bytes(program, program.calls) - moved_bytes(program, candidates[best])
    if must_win and saved <= 0:
        return None, "stays PyTorch: no memory traffic to save (estimate)", 0.0
    if must_win and launches_added(program.calls, candidates[best]) > 0:
        return None, "stays PyTorch: PyTorch launches fewer kernels (estimate)", 0.0
    return best, f"saves {saved:,} bytes of memory traffic (estimate)", float(max(saved, 1))
