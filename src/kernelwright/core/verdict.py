"""The judge's findings about one candidate.

A `Verdict` is plain data: it goes into records as JSON and comes back unchanged, and everything
downstream of the judge (search, rewards, reports) reads it and nothing else.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

INTERPRETER = "cpu-interpreter"
"""The device of a verdict, where there was no GPU."""


class Precision(StrEnum):
    """The rule for errors (`verify.values.compare`)."""

    STRICT = "strict"
    TF32 = "tf32"
    KERNELBENCH = "kernelbench"


class Contract(StrEnum):
    """The promise of a verdict."""

    FIXED = "fixed"
    """Right at the task's own sizes, memory layout and mode. At other sizes a candidate may raise
    an exception, but may not return wrong values."""
    DROP_IN = "drop-in"
    """Right wherever the reference is: other sizes, strides and modes, copies, the container of the
    outputs."""


class Checks(StrEnum):
    """The checks that may refuse a candidate. All but `ALL` are for measurements of the judge."""

    ALL = "all"
    RUNS = "runs"
    """All but the static rules: what the judged calls alone refuse."""
    VALUES = "values"
    """Outputs for plain inputs of the task's own sizes, and nothing else: the check that published
    benchmarks make. Policies learn to cheat such a judge."""


class Stage(StrEnum):
    """How far a candidate came. An accepted one ends at `ACCEPTED`."""

    STATIC = "static"
    """The source alone: syntax, required names, the mode's rules."""
    COMPILE = "compile"
    """Loading the source and compiling its kernels."""
    RUN = "run"
    """Calling it on inputs."""
    COMPARE = "compare"
    """Its outputs against the fp64 oracle."""
    PROBE = "probe"
    """Poison, unchanged inputs, launches of own kernels."""
    TIMING = "timing"
    ACCEPTED = "accepted"


class Code(StrEnum):
    """Why judging ended; exactly one applies. `core.reasons` says what each means."""

    OK = "ok"
    SYNTAX_ERROR = "syntax_error"
    MISSING_ENTRY = "missing_entry"
    NO_KERNEL = "no_kernel"
    FORBIDDEN = "forbidden"
    LOAD_ERROR = "load_error"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_BOUNDS = "out_of_bounds"
    MALFORMED = "malformed"
    WRONG_STRUCTURE = "wrong_structure"
    WRONG_VALUES = "wrong_values"
    NOT_FINITE = "not_finite"
    UNWRITTEN = "unwritten"
    STATE_DIFFERS = "state_differs"
    INPUT_CHANGED = "input_changed"
    ALIASED = "aliased"
    NOT_LAUNCHED = "not_launched"
    DECOY = "decoy"
    LIBRARY_COMPUTE = "library_compute"
    TAMPERED = "tampered"
    SETTINGS_CHANGED = "settings_changed"
    LEFT_RUNNING = "left_running"
    IMPLAUSIBLE_TIME = "implausible_time"


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorFigures:
    """Errors against the fp64 oracle, the worst over all shapes, seeds and outputs."""

    max_candidate: float
    """max |y - oracle| / (|oracle| + rms(oracle)), over elements."""
    max_reference: float
    rms_candidate: float
    """rms(y - oracle) / rms(oracle)."""
    rms_reference: float
    max_allowed: float
    rms_allowed: float
    suite_share: float | None = None
    """Under `kernelbench`: max |reference - y| / (1 + |y|) as a share of its bound, which decides
    alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Times of one callable in ms, cold L2; the interval is a 95% bootstrap of the median."""

    median_ms: float
    low_ms: float
    high_ms: float
    num_samples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Everything that the judge found about one candidate.

    `accepted`, `stage` and `code` must agree, or the constructor raises ValueError.
    """

    accepted: bool
    stage: Stage
    code: Code
    message: str
    mode: str
    """"pure" or "hybrid"."""
    precision: str
    """"strict", "tf32" or "kernelbench"."""
    device: str
    """GPU name, or INTERPRETER."""
    line: int | None = None
    """Line of the candidate the message is about."""
    errors: ErrorFigures | None = None
    times: dict[str, Timing] = field(default_factory=dict)
    """"candidate" and "reference", as called; "candidate_graph" and "reference_graph", the GPU's
    part alone, where a CUDA graph can be captured. Empty on CPU, where speed is never measured."""
    speedup_interval: tuple[float, float] | None = None
    """95% bootstrap interval of the ratio of medians, reference / candidate."""
    noise: float | None = None
    """Noise floor of this machine now: how far two medians of the same calls lie apart, as a
    share of one."""
    launches: dict[str, int] = field(default_factory=dict)
    """Own kernels seen to launch in one judged call: name -> count."""
    library_share: float | None = None
    """Share of the candidate's GPU time outside its own kernels (CUDA only)."""
    cases: tuple[str, ...] = ()
    """The shape x input family x seed cases that were judged, in order."""
    checks: tuple[str, ...] = ()
    """Probes that passed, in order: what this acceptance rests on."""
    contract: str = "fixed"
    """"fixed" or "drop-in" (`Contract`)."""
    grade: str = "fresh"
    """"fresh": a guest of its own. "recycled": a guest that had run other candidates before."""
    isolation: str = ""
    """Guards in force in the guest, e.g. "rlimits+netns+landlock"."""
    advice: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Suspicions of an advisory stage (a language model); they never decide."""

    def __post_init__(self) -> None:
        if self.accepted != (self.code is Code.OK) or self.accepted != (
            self.stage is Stage.ACCEPTED
        ):
            raise ValueError(f"accepted, stage and code contradict each other: {self}")

    @property
    def speedup(self) -> float | None:
        """reference / candidate median time; None where time was not measured."""
        if "candidate" not in self.times or "reference" not in self.times:
            return None
        return self.times["reference"].median_ms / self.times["candidate"].median_ms

    @property
    def is_faster(self) -> bool:
        """Faster than the reference beyond chance: the interval excludes 1."""
        return self.speedup_interval is not None and self.speedup_interval[0] > 1.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "speedup": self.speedup}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The verdict of `to_json`. Fields that an older record lacks have their defaults.

        Raises:
            KeyError, TypeError, ValueError: the values are not of a verdict.
        """
        values = {k: v for k, v in values.items() if k != "speedup"}
        values["stage"], values["code"] = Stage(values["stage"]), Code(values["code"])
        if values.get("errors"):
            values["errors"] = ErrorFigures(**values["errors"])
        values["times"] = {k: Timing(**t) for k, t in values.get("times", {}).items()}
        for key in ("cases", "checks", "advice", "flags"):
            values[key] = tuple(values.get(key, ()))
        if values.get("speedup_interval"):
            values["speedup_interval"] = tuple(values["speedup_interval"])
        return cls(**values)
