"""One fragment: what the writers offer for it, which of that is right, and what the best saves."""

from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Timing, Verdict
from kernelwright.programs.fragment import Fragment
from kernelwright.programs.program import Program
from kernelwright.search.sources import Sources, Unread
from kernelwright.search.traffic import eager_bytes, moved_bytes
from kernelwright.teacher.writer import family
from kernelwright.timing.stages import stage
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import program_task

CANDIDATES_CPU = 2
"""Without a GPU speed is not measured; what moves least is taken, in the writer's own order: one,
and one in reserve."""

MIN_SAVING = 0.02
"""Share of the fragment's PyTorch time a winner must save: below it, a difference is noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuned:
    """A fragment with its candidates, their verdicts and the winner."""

    fragment: Fragment
    family: str
    candidates: tuple[Candidate, ...]
    verdicts: tuple[Verdict, ...]
    winner: int | None
    reason: str
    """Why the winner won, or why the fragment stays PyTorch."""
    saving: float
    """Milliseconds where measured, else bytes; 0 without a winner."""
    unread: tuple[Unread, ...] = ()

    @property
    def best(self) -> Candidate | None:
        return None if self.winner is None else self.candidates[self.winner]

    @property
    def eager(self) -> Timing | None:
        """The fragment in PyTorch."""
        return next((v.times["reference"] for v in self.verdicts if v.times), None)


def affordable(judge: Judge, limit: int) -> int:
    """Candidates of each source for a fragment."""
    return limit if judge.on_gpu else CANDIDATES_CPU


def stays(program: Program, judge: Judge) -> bool:
    """Whether PyTorch keeps a fragment without a look at candidates."""
    return not judge.on_gpu and judge.rules.mode != "pure" and _is_convolution(program)


def tune(fragment: Fragment, judge: Judge, sources: Sources, *, limit: int, seed: int) -> Tuned:
    """Screen what was written, up to `limit` candidates of each source, and take the fastest
    accepted one."""
    program = fragment.program
    if stays(program, judge):
        return Tuned(
            fragment=fragment,
            family=family(program) or "",
            candidates=(),
            verdicts=(),
            winner=None,
            reason="stays PyTorch: a library convolution is hard to beat, and nothing was timed",
            saving=0.0,
        )
    with stage("write"):
        candidates, unread = sources.written(
            program, judge.rules, limit=affordable(judge, limit), seed=seed
        )
    verdicts = judge.screen(program_task(program, name="fragment"), candidates)
    winner, reason, saving = _choose(fragment, candidates, verdicts, unread, judge)
    return Tuned(
        fragment=fragment,
        family=family(program) or "",
        candidates=tuple(candidates),
        verdicts=tuple(verdicts),
        winner=winner,
        reason=reason,
        saving=saving,
        unread=tuple(unread),
    )


def _is_convolution(program: Program) -> bool:
    return any(not c.is_extern and c.operator.family == "convolution" for c in program.calls)


def _choose(
    fragment: Fragment,
    candidates: list[Candidate],
    verdicts: list[Verdict],
    unread: list[Unread],
    judge: Judge,
) -> tuple[int | None, str, float]:
    accepted = [i for i, verdict in enumerate(verdicts) if verdict.accepted]
    if not accepted:
        return None, f"stays PyTorch: {_why_none(verdicts, unread)}", 0.0
    if judge.on_gpu:
        return _fastest(verdicts, accepted, must_win=judge.rules.mode != "pure")
    moved = {i: moved_bytes(fragment.program, candidates[i]) for i in accepted}
    best = min(accepted, key=moved.__getitem__)
    saved = eager_bytes(fragment.program, fragment.program.calls) - moved[best]
    if saved <= 0 and judge.rules.mode != "pure":
        return None, "stays PyTorch: no traffic to save (estimate)", 0.0
    return best, f"saves {saved:,} bytes of traffic (estimate)", float(max(saved, 1))


def _why_none(verdicts: list[Verdict], unread: list[Unread]) -> str:
    if verdicts:
        return f"no candidate accepted ({verdicts[0].message})"
    if unread:
        return f"no candidate in what was written ({unread[0].reason}: {unread[0].message})"
    return "no candidate was written"


def _fastest(
    verdicts: list[Verdict], accepted: list[int], *, must_win: bool
) -> tuple[int | None, str, float]:
    best = min(accepted, key=lambda i: verdicts[i].times["candidate"].median_ms)
    times = verdicts[best].times
    before, after = times["reference"].median_ms, times["candidate"].median_ms
    if must_win and before - after < MIN_SAVING * before:
        return None, f"stays PyTorch: best {after:.4g} ms, PyTorch {before:.4g} ms", 0.0
    speed = f"{before / after:.2f}x: {before:.4g} -> {after:.4g} ms"
    return best, speed, max(before - after, 1e-6)
