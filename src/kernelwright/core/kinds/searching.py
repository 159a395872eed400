"""Lines of `optimize`: run, program, fragments, candidates, wholes, result."""

from typing import Literal, TypedDict

from kernelwright.core.kinds.fields import (
    EnvironmentFields,
    FormFields,
    GraphFields,
    LaunchCounts,
    PlanFields,
    Settings,
    TimingFields,
    TrafficBytes,
    VerdictFields,
)


class SearchRunLine(TypedDict):
    """The settings of a search. A folder that was used twice holds two runs."""

    record: Literal["run"]
    command: str
    target: str
    options: Settings
    environment: EnvironmentFields
    device: str
    """Name of the GPU, or "cpu-interpreter"."""
    seconds: float


class CallFields(TypedDict):
    """One call of the program that was searched."""

    op: str
    family: str
    """Family of the operator, or "extern"."""
    extern: bool
    """The operator has no record of ours and stays PyTorch."""
    inputs: list[str]
    outputs: list[str]
    shapes: list[list[int]]
    """Shapes of the outputs."""
    flops: int
    bytes: int
    fragment: int | None
    """`id` of the fragment whose kernels compute the call; null: PyTorch computes the call."""


class SearchedProgramLine(TypedDict):
    """The program as it was searched."""

    record: Literal["program"]
    text: str
    calls: list[CallFields]
    flops: int
    bytes_unfused: int


class FragmentLine(TypedDict, total=False):
    """A fragment that was tuned."""

    record: Literal["fragment"]
    id: int
    calls: list[int]
    """Numbers of the fragment's calls in the program."""
    ops: list[str]
    family: str
    winner: str | None
    """Schedule of the kernel that is used; null where none is."""
    reason: str
    origin: str | None
    """The writer of the winner."""
    source: str | None
    plan: list[PlanFields]
    eager: TimingFields | None
    best: TimingFields | None
    bytes: int
    flops: int
    num_candidates: int
    num_from_library: int


class CandidateLine(TypedDict):
    """A candidate for a fragment, and its verdict."""

    record: Literal["candidate"]
    fragment: int
    schedule: str
    origin: str
    verdict: VerdictFields


class UnreadLine(TypedDict, total=False):
    """An answer of a model that holds no candidate."""

    record: Literal["unread"]
    fragment: int
    origin: str
    reason: str
    message: str


class WholeLine(TypedDict, total=False):
    """A whole module that was judged, kept or not."""

    record: Literal["whole"]
    layout: str
    algebra: list[str]
    schedules: list[str]
    form: str
    is_graph: bool
    verdict: VerdictFields


class TorchCompileFields(TypedDict, total=False):
    """torch.compile beside the search."""

    timed: bool
    message: str
    seconds: float
    right: bool
    """The judge accepts the values."""
    moves_layouts: bool
    failed: dict[str, str]
    """Contender -> the reason why the contender has no time."""


class TriedFields(TypedDict, total=False):
    """The candidates of a search."""

    tried: int
    right: int
    wrong: int
    cut_off: int
    """Not judged: the clock ended before."""
    reasons: dict[str, int]
    """Reason code -> wrong candidates."""


class OutcomeFields(TypedDict, total=False):
    """The result in words."""

    status: str
    cause: str | None
    message: str
    kept_in_pytorch: list[str]
    left_out: list[str]
    fragments: dict[str, int]
    """"proposed" and "tried" -> fragments."""
    candidates: TriedFields


class SlowerFields(TypedDict):
    """A right whole that was too slow to be kept."""

    verdict: VerdictFields
    graph: GraphFields | None


class BudgetFields(TypedDict):
    """Seconds of a search."""

    budget_s: float
    spent_s: float


class FailedSourceFields(TypedDict):
    """A writer of candidates that failed."""

    origin: str
    message: str


class ResultLine(TypedDict, total=False):
    """The end of a search: what the user gets."""

    record: Literal["result"]
    target: str
    form: str
    """"kernels", "compiled_kernels", "compiled" or "original"."""
    verdict: VerdictFields
    graph: GraphFields | None
    launches: LaunchCounts
    bytes: TrafficBytes
    flops: int
    dtypes: list[str]
    times: dict[str, TimingFields]
    """"eager", "compiled", "optimized" -> times."""
    speedups: dict[str, list[float]]
    """"over_eager" and "over_compile" -> ratio of medians and the ends of its 95% interval."""
    torch_compile: TorchCompileFields
    measured: bool
    outcome: OutcomeFields
    layout: str
    algebra: list[str]
    rewrites: list[str]
    num_operators: int
    num_fragments: int
    num_triton: int
    """Fragments whose kernels are used."""
    origins: dict[str, int]
    """Writer -> number of fragments whose kernels the writer wrote."""
    operators_triton: int
    unknown_operators: list[str]
    source: str
    num_candidates: int
    num_from_library: int
    seconds: float
    searched_s: float
    """Unix time of the search, where the library knew the whole module."""
    forms: list[FormFields]
    failed_sources: list[FailedSourceFields]
    budget: BudgetFields
    interrupted_by: str | None
    slower: SlowerFields
