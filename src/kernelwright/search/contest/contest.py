"""The original, torch.compile and our wholes timed in turn, by a process with a deadline.

torch.compile runs the user's code and compiles for seconds or minutes, which nothing in its own
process can stop. So `search.contest.child` does that in a process of its own, and a share of what
is left of the user's budget is its deadline. Kernels run in guests there, as they do for the judge.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from kernelwright.core.record import Record
from kernelwright.programs.text import to_text
from kernelwright.search.contest.process import ContestProcess, short
from kernelwright.timing.deadline import Deadline
from kernelwright.timing.turns import OURS, compared
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import Task

LEAST_S = 12.0
"""The least seconds for a contest: loading torch, compiling one small kernel, taking times."""
EAGER, COMPILED, COMPILED_GRAPHS = "eager", "compiled", "compiled_graphs"
"""Contenders beside our wholes: PyTorch, torch.compile of the original, and torch.compile that
replays CUDA graphs (`search.contest.graph_trees`), where launches are what takes the time."""
ORIGINALS = (EAGER, COMPILED, COMPILED_GRAPHS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """How the original, torch.compile and our wholes did beside each other."""

    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Milliseconds of calls by contender, turn by turn; empty where no contest took place."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Contenders that could not take part, and why."""
    right: Collection[str] = ()
    """Forms of torch.compile of the original whose values pass the judge's comparison."""
    moves_layouts: bool = True
    """False: torch.compile passes only without layout optimization, and its contenders use that
    option. True in all other cases."""
    message: str = ""
    """Why there is no contest, or no torch.compile in it, as a sentence."""
    seconds: float = 0.0

    @property
    def failed_wholes(self) -> dict[str, str]:
        """Wholes of ours that could not take part, and why."""
        return {name: why for name, why in self.failed.items() if name not in ORIGINALS}

    @property
    def ranked(self) -> list[str]:
        """Contenders, the fastest by its median first."""
        return sorted(self.samples, key=lambda name: median(self.samples[name]))

    @property
    def _rivals(self) -> list[str]:
        """PyTorch and each right torch.compile, the fastest first."""
        # A torch.compile with wrong values is no rival, however fast.
        return [name for name in self.ranked if name == EAGER or name in self.right]

    @property
    def best_original(self) -> str:
        """The fastest contender among PyTorch and the forms of torch.compile that are right."""
        return next(iter(self._rivals), EAGER)

    @property
    def bar(self) -> float:
        """The speed-up over PyTorch that kernels must reach: that of a right torch.compile where
        that is faster, else 1."""
        if self.best_original == EAGER:
            return 1.0
        return median(self.samples[EAGER]) / median(self.samples[self.best_original])

    def median_ms(self, name: str) -> float | None:
        """The median of a contender; None where the contender did not take part."""
        return median(self.samples[name]) if name in self.samples else None

    @property
    def beaten_ms(self) -> float | None:
        """A call of the fastest whole of ours that is beaten; None where there is none."""
        ours = [name for name in self.ranked if name not in ORIGINALS]
        beaten = [name for name in ours if self.is_beaten(name)]
        return self.median_ms(beaten[0]) if beaten else None

    def is_beaten(self, name: str) -> bool:
        """Whether PyTorch or a right torch.compile is faster than this contender."""
        rank = self.ranked.index(name)
        return any(rival in self.ranked[:rank] for rival in self._rivals)

    def fields(self, name: str | None) -> Record:
        """The fields of the result record about speed.

        Args:
            name: the contender that is delivered; None where that is PyTorch or torch.compile in
                its default mode.

        Returns:
            "torch_compile": {"timed", "message", "seconds", "right", "moves_layouts", "failed"},
            where "failed" has the reason of each contender that failed. After a contest also
            "times" by contender, as `Timing`, and "speedups": "over_eager" and "over_compile", each
            [ratio, low, high] with its 95% interval.
        """
        has_compiled = COMPILED in self.samples
        own: Record = {
            "torch_compile": {
                "timed": has_compiled,
                "message": self.message,
                "seconds": self.seconds,
                "right": COMPILED in self.right,
                "moves_layouts": self.moves_layouts,
                "failed": dict(self.failed),
            }
        }
        if not self.samples:
            return own
        shown = {rival: self.samples[rival] for rival in ORIGINALS if rival in self.samples}
        if name is not None:
            shown[OURS] = self.samples[name]
        result = compared(shown)
        times = {rival: asdict(timing) for rival, timing in result.times.items()}
        speedups = {
            key: [times[rival]["median_ms"] / times[OURS]["median_ms"], *intervals]
            for key, rival in (("over_eager", EAGER), ("over_compile", COMPILED))
            if (intervals := result.speedup_intervals.get(rival))
        }
        return own | {"times": times, "speedups": speedups}


def hold_contest(
    task: Task,
    wholes: Mapping[str, str],
    *,
    precision: str,
    deadline: Deadline,
    process: ContestProcess,
    is_sized: bool = False,
) -> Contest:
    """Time PyTorch, torch.compile and wholes of ours in turn on the GPU.

    Args:
        task: the original.
        wholes: texts of optimized.py by name, the most promising first: where time is short, the
            last ones take no part.
        precision: "strict", "tf32" or "kernelbench".
        deadline: when the contest ends. Time in which its process waits for other users of the GPU
            counts as waiting of this thread.
        process: takes the times.
        is_sized: sizes vary from call to call: torch.compile compiles for all sizes, and no CUDA
            graphs take part.

    Raises:
        KeyboardInterrupt: after the process was killed.
    """
    text = _text(task)
    if text is None:
        return Contest(message="torch.compile was not timed: the original has no source text.")
    left_s = deadline.left_s()
    # A contest that cannot answer would only use up the rest of the budget.
    if left_s < LEAST_S:
        return Contest(
            message=f"torch.compile was not timed: {max(left_s, 0):.0f} s of the budget were left,"
            f" and it needs at least {LEAST_S:.0f} s."
        )
    begin_s = time.monotonic()
    training = task.training if isinstance(task, ModuleTask) else None
    job = {
        "text": text,
        "training": training,
        "wholes": wholes,
        "precision": precision,
        "is_sized": is_sized,
    }
    answer = process.answer(job, deadline)
    seconds = time.monotonic() - begin_s
    if isinstance(answer, str):
        return Contest(message=answer, seconds=seconds)
    failed = answer["failed"].get(COMPILED)
    return Contest(
        samples=answer["samples"],
        failed=answer["failed"],
        # A form that was right in two cases may still have failed in a timed call.
        right=[name for name in answer["right"] if name not in answer["failed"]],
        moves_layouts=answer["moves_layouts"],
        message=f"torch.compile fails on this program: {short(failed)}" if failed else "",
        seconds=seconds,
    )


def _text(task: Task) -> str | None:
    """Source that a process elsewhere can load the task from."""
    if isinstance(task, ModuleTask):
        return task.text
    return to_text(task.program) if isinstance(task, ProgramTask) else None
