"""Objects inside of records."""

from typing import Any, TypedDict


class EnvironmentFields(TypedDict, total=False):
    """The machine and the versions of a run."""

    python: str
    versions: dict[str, str | None]
    """Distribution -> installed version; null where the distribution is not installed."""
    gpu: str | None
    """Name, driver and memory of the first GPU, as nvidia-smi prints them; null without a GPU."""
    commit: str | None
    """The first twelve digits of the commit of kernelwright; null outside of a checkout."""


class TimingFields(TypedDict):
    """Times of a call in ms, with a cold L2 cache."""

    median_ms: float
    low_ms: float
    """Lower end of the 95% bootstrap interval of the median."""
    high_ms: float
    num_samples: int


class ErrorFields(TypedDict, total=False):
    """Errors against the float64 reference, the worst over cases and outputs."""

    max_candidate: float
    """max |y - reference| / (|reference| + rms(reference)), over elements."""
    max_reference: float
    """The same of PyTorch's own result."""
    rms_candidate: float
    """rms(y - reference) / rms(reference)."""
    rms_reference: float
    max_allowed: float
    rms_allowed: float
    suite_share: float | None
    """Under `kernelbench`: max |PyTorch - y| / (1 + |y|) as a share of its bound, which decides
    alone."""


class VerdictFields(TypedDict, total=False):
    """A verdict of the judge; `core.verdict.Verdict` explains the fields."""

    accepted: bool
    stage: str
    code: str
    """One of the reason codes."""
    message: str
    mode: str
    precision: str
    device: str
    line: int | None
    errors: ErrorFields | None
    times: dict[str, TimingFields]
    """"reference", "candidate", "reference_graph", "candidate_graph" -> times."""
    speedup: float | None
    speedup_interval: list[float] | None
    noise: float | None
    launches: dict[str, int]
    library_share: float | None
    cases: list[str]
    checks: list[str]
    contract: str
    grade: str
    isolation: str
    advice: list[str]
    flags: list[str]


class PlanFields(TypedDict, total=False):
    """A kernel of a candidate's plan; `core.candidate.KernelPlan` explains the fields."""

    kernel: str
    fuses: list[str]
    loop: str
    tiles: dict[str, int]
    precision: str
    why: str
    part: list[str]
    reads: list[str]
    makes: list[str]


class GraphFields(TypedDict):
    """One call as a CUDA graph, and the same kernels launched one by one."""

    replayed_ms: float
    launched_ms: float


class FormFields(TypedDict):
    """One form of a program that a search tried as a whole."""

    layout: str
    algebra: list[str]
    rewrites: list[str]
    code: str
    """Reason code of the whole; "no_kernel" where no kernel won."""
    times: dict[str, TimingFields]
    """"eager" and "optimized" -> times; empty where the form is not right or was not timed."""


class LaunchCounts(TypedDict):
    """Kernel launches of a call, before and after, by the estimate."""

    before: int
    after: int


class TrafficBytes(TypedDict, total=False):
    """Bytes of memory traffic of a call, by the estimate."""

    before: int
    after: int
    least: int
    """Every input read once and every output written once."""


Settings = dict[str, Any]
"""A recipe or the options of a command; `docs/` explains them where the command is explained."""
