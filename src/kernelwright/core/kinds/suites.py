"""Lines of `eval`: benchmark cases, answers, the corpora, throughput."""

from typing import Any, Literal, TypedDict

from kernelwright.core.kinds.fields import (
    EnvironmentFields,
    ErrorFields,
    FormFields,
    GraphFields,
    PlanFields,
    Settings,
    TimingFields,
)


class SuiteRunLine(TypedDict, total=False):
    """The settings of all cases that follow."""

    record: Literal["run"]
    command: str
    policy: str
    options: Settings
    max_autotune: bool
    dtype: str | None
    environment: EnvironmentFields
    cases: int
    """Cases that the command was asked for."""
    left: int
    """Answers that have no verdict yet."""
    unusable: dict[str, str]
    """Answers whose program the judge cannot use, and why; they are among those left."""
    level: str
    note: str
    """A remark that was added by hand."""


class ContestFields(TypedDict, total=False):
    """The figures that decided a search."""

    right: bool
    moves_layouts: bool
    message: str
    failed: dict[str, str]
    median_ms: dict[str, float]


class CaseLine(TypedDict, total=False):
    """One task of a suite and one answer to the task."""

    record: Literal["benchmark_case"]
    suite: str
    level: str
    policy: str
    mode: str
    precision: str
    id: int
    """Number of the task within its level."""
    sample: int
    """Number of the answer among those to the same task."""
    name: str
    part: int | str
    correct: bool
    """The judge accepted a kernel, fast or not."""
    kept: bool
    """The user gets kernels of ours."""
    has_triton: bool
    code: str
    """Reason code; "usage", "infra" and "memory" where there is no verdict."""
    message: str
    errors: ErrorFields | None
    form: str | None
    eager: TimingFields | None
    compiled: TimingFields | None
    max_autotune: TimingFields | None
    optimized: TimingFields | None
    speedup_intervals: dict[str, list[float]] | None
    """Baseline -> ends of the 95% interval of the speed-up over the baseline."""
    floor_ms: float
    """The least time that the bytes and FLOPs of the task allow on this GPU."""
    graph: GraphFields | None
    layout: str
    algebra: list[str]
    """Algebraic rewrites that the result uses."""
    rewrites: list[str]
    forms: list[FormFields]
    contest: ContestFields
    candidates: int
    rejected: dict[str, str]
    """Reason code -> message of one candidate that was rejected so."""
    num_operators: int
    operators_triton: int
    baselines_failed: dict[str, str]
    tf32: dict[str, bool]
    seconds: float
    stages: dict[str, float]
    """Stage of the work -> seconds."""
    peak_bytes: int
    commit: str
    """The commit of kernelwright; where missing, that of the last environment before this line."""
    malformed: str | None
    """Why an answer of a policy holds no candidate."""
    schedule: str
    content: str
    """Digest of the judged texts: equal answers have equal digests."""
    modelled: float | None
    """Estimated speed-up over eager of a correct answer; never a measured time."""
    operators: list[str]
    num_calls: int


class AnswerFields(TypedDict, total=False):
    """An answer with a candidate, or the reason why the answer holds none."""

    source: str
    schedule: str
    plan: list[PlanFields]
    malformed: str
    message: str
    text: str


class AnswersLine(TypedDict):
    """The answers of a policy to one program."""

    record: Literal["answers"]
    problem: str
    digest: str
    """Digest of the program's text."""
    answers: list[AnswerFields]


class CorpusRunLine(TypedDict, total=False):
    """The settings of a run over the corpus."""

    record: Literal["run"]
    command: str
    device: str
    grade: str
    checks: str
    static_rules: bool
    """In older records: false where the static rules were left out."""
    note: str
    """A remark that was added by hand."""
    cases: int
    """Files that the device can judge."""
    environment: EnvironmentFields


class CorpusCaseLine(TypedDict, total=False):
    """One file of the corpus and its verdict."""

    record: Literal["corpus_case"]
    kind: str
    """"cheats" or "honest"."""
    name: str
    exploit: str
    """Number of the published exploit; empty for other files."""
    about: str
    mode: str
    contract: str
    device: str
    grade: str
    accepted: bool
    stage: str
    code: str
    cases: int
    seconds: float
    message: str
    commit: str
    """As in benchmark cases."""


class CorpusCheckerLine(TypedDict, total=False):
    """The verdict of KernelBench's static checker on one file of the corpus."""

    record: Literal["corpus_kernelbench"]
    kind: str
    name: str
    exploit: str
    about: str
    commit: str
    """Commit of KernelBench."""
    strict: bool
    """The checker refuses the file."""
    warned: bool
    """The checker refuses the file, or warns of it."""
    says: list[str]
    """The first error of the checker, if any."""


class SliceLine(TypedDict):
    """One call of a run of `eval all`."""

    record: Literal["slice"]
    run: str
    """The name of the run in the queue."""
    command: str
    """The command line as the queue has it, with names in braces."""
    code: int | None
    """The exit code; 143 where the run was interrupted, null when the run begins."""
    seconds: float
    environment: EnvironmentFields


class CrossCheckLine(TypedDict):
    """The verdict of KernelBench's evaluator on a kernel that the judge accepted."""

    record: Literal["cross_check"]
    level: str
    id: int
    sample: int
    name: str
    agrees: bool
    compiled: bool
    correct: bool
    issue: str
    """Messages of the evaluator; empty where it accepts the kernel."""


class ThroughputLine(TypedDict, total=False):
    """How many verdicts a second the judge gives."""

    record: Literal["throughput"]
    environment: EnvironmentFields
    plan: Settings
    broken_shares: dict[str, float]
    device: str
    operators: int
    verdicts: int
    seconds: float
    per_second: float | None
    """Null where nothing was judged."""
    steady_seconds: float
    """Without the start of the judges and the last candidates."""
    steady_per_second: float | None
    """Null where the run was too short."""
    surprises: dict[str, list[str]]
    """Kind of candidate and reason code -> ids of candidates whose verdict is a surprise."""
    profile_ms: dict[str, float]
    cpu_share: float
    steady_cpu_share: float | None
    gpu_share: float | None
    clock_share: float | None
    summary: dict[str, Any]
