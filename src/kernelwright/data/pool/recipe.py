"""A recipe of a pool: programs, the writer, which answers are judged, how. TOML (docs/pool.md)."""

from dataclasses import dataclass

from kernelwright.core import strict
from kernelwright.core.errors import UsageError
from kernelwright.policy.names import EMBEDDED
from kernelwright.verify.many.recipe import JudgeRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolPrograms:
    """The programs that answers are written to."""

    files: tuple[str, ...]
    """JSONL of `kernelwright synth` or `data collect`."""
    avoid: tuple[str, ...] = ()
    """Files of `kernelwright data fingerprints`, beside the benchmarks that are shipped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterSettings:
    """The model that writes, and how its answers are drawn."""

    path: str = EMBEDDED
    """Folder of a causal language model in Hugging Face's layout, or "embedded"."""
    samples: int = 16
    """Drawn answers to each program, beside the greedy answer."""
    temperature: float = 1.0
    max_tokens: int = 8192
    teacher: int = 1
    """The teacher's answers to each program: those with the least estimated time. All of them are
    judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which answers to a program are judged, beside the greedy answer."""

    best: int = 3
    """Drawn answers that the cost model takes to be the fastest."""
    random: int = 1
    """Further drawn answers, by chance: they show what the cost model misses."""
    compiled: int = 0
    """Drawn answers a program, the best first, that are compiled for sm_90 before the choice: those
    that spill registers or do not compile go behind the others. 0: none is compiled."""
    steps: bool = False
    """Judge the steps of wrong answers too, each alone and untimed (`data.pool.steps`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingSettings:
    """How answers are judged."""

    device: str = "auto"
    precision: str = "strict"
    mode: str = "pure"
    checks: str = "all"
    """The checks that may refuse an answer. "values" compares outputs alone, as published
    benchmarks do, and shows what a policy learns from such a judge."""
    timing: bool = True
    """Time correct answers; on a GPU only."""
    timing_s: float | None = None
    """The most seconds that all pairs of timed calls of a candidate take, though the first batch is
    always taken; None: the clock's own limit."""
    wall_s: float | None = None
    """Limit of each request to a guest; None: the judge's own. A guest that hangs keeps everybody
    waiting for as long, since times cannot be taken meanwhile."""
    workers: int | None = None
    """Judges at once; one a core where not given."""

    def recipe(self) -> JudgeRecipe:
        """The judge's recipe for these settings, with guests that judge many candidates each.

        Raises:
            UsageError: an option has a value that the judge does not know.
        """
        return JudgeRecipe(
            device=self.device,
            precision=self.precision,
            mode=self.mode,
            grade="recycled",
            checks=self.checks,
            timing=self.timing,
            timing_s=self.timing_s,
            wall_s=self.wall_s,
        ).resolved()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRecipe(strict.Recipe):
    """All settings of a pool. The constructor raises UsageError for values out of range."""

    programs: PoolPrograms
    title: str = ""
    seed: int = 0
    writer: WriterSettings = WriterSettings()
    choice: Choice = Choice()
    judging: JudgingSettings = JudgingSettings()

    def __post_init__(self) -> None:
        writer, choice = self.writer, self.choice
        if not self.programs.files:
            raise UsageError("programs.files is empty", remedy="draw some: kernelwright synth")
        if writer.temperature <= 0 or writer.samples < 1 or writer.max_tokens < 1:
            raise UsageError(
                f"writer: {writer.samples} samples at temperature {writer.temperature}",
                remedy="give numbers above 0; the greedy answer is always written too",
            )
        if min(choice.best, choice.random, choice.compiled, writer.teacher) < 0:
            raise UsageError(f"choice: {choice}", remedy="give numbers of 0 or more")
