"""Lines of `synth`, `data collect`, `data build` and `data pool`."""

from typing import Any, Literal, TypedDict

from kernelwright.core.kinds.fields import EnvironmentFields, Settings


class DrawFields(TypedDict, total=False):
    """How to draw a program again, and what the draw took."""

    group: str
    index: int
    attempt: int
    accepted: int
    drafts: int
    proposals: int
    skeletons: int
    refused: dict[str, int]
    """Reason -> attempts that were no tasks."""
    uniform: bool


class SynthLine(TypedDict, total=False):
    """The head of a file of drawn programs."""

    record: Literal["synth"]
    seed: int
    groups: list[dict[str, Any]]
    recipe: Settings
    digest: str
    avoided: dict[str, Any]
    code: str
    versions: dict[str, str | None]
    space: dict[str, Any]
    times: Any


class ProgramFields(TypedDict, total=False):
    """A program and its figures."""

    text: str
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    level: int
    fingerprint: str
    """Equal for programs that differ in names and in the order of independent calls alone."""
    flops: int
    bytes_fused: int
    """Bytes of memory traffic where one kernel computes all calls."""
    bytes_unfused: int
    intensity: float
    """FLOPs by bytes, fused."""


class DrawnProgramLine(ProgramFields, total=False):
    """A drawn program."""

    record: Literal["program"]
    drawn: DrawFields


class GivenUpLine(TypedDict):
    """In place of a program that many attempts did not give."""

    record: Literal["given_up"]
    drawn: DrawFields


class CollectRunLine(TypedDict, total=False):
    """The head of a file of collected programs."""

    record: Literal["run"]
    command: str
    target: str
    package: str | None
    """Null where the target is a file; so are `version` and `licence`."""
    version: str | None
    licence: str | None
    options: Settings
    versions: dict[str, str | None]


class CollectedFileLine(TypedDict, total=False):
    """A file that was read for modules."""

    record: Literal["source"]
    file: str
    classes: list[list[Any]]
    """[name, line] of each module class; the name is null where the file is a task."""
    outcome: str
    detail: str


class CollectedModuleLine(TypedDict, total=False):
    """A module, and how its collection ended."""

    record: Literal["module"]
    name: str
    outcome: str
    """"collected", or why the module gave no program."""
    detail: str
    arguments: str
    """The arguments that the constructor was called with, as text."""
    inputs: str
    calls: int
    parts: dict[str, int]
    new: int
    """Programs of the module that the file did not have."""


class CollectedProgramLine(ProgramFields, total=False):
    """A program of a module."""

    record: Literal["program"]
    provenance: dict[str, Any]
    """File, class and line of the module, and the numbers of the calls in the module."""


class YieldFields(TypedDict, total=False):
    """The yield of a collection."""

    target: str
    package: str | None
    version: str | None
    licence: str | None
    files: int
    found: int
    """Modules of the target."""
    lowered: int
    parts: dict[str, int]
    programs: int
    by_level: dict[str, int]
    refused: dict[str, int]
    """Reason -> modules that gave no program."""


class CollectSummaryLine(YieldFields, total=False):
    """The end of a collection."""

    record: Literal["summary"]


class CollectLine(YieldFields, total=False):
    """The yield of a target, as `data collect --summary` adds it to a file."""

    record: Literal["collect"]
    options: Settings
    workers: int
    seconds: float
    environment: EnvironmentFields


class FingerprintsLine(TypedDict):
    """The whole file of `data fingerprints`: programs that draws have to avoid."""

    record: Literal["fingerprints"]
    sources: list[dict[str, Any]]
    fingerprints: list[str]
    """Programs of two calls and more."""
    one_call: list[str]


class PairsLine(TypedDict):
    """The whole file `build.json` of `data build`."""

    record: Literal["pairs"]
    recipe: Settings
    files: dict[str, str]
    """File that the recipe names -> digest."""
    code: str
    versions: dict[str, str | None]


class TallyLine(TypedDict, total=False):
    """The end of a shard of pairs."""

    record: Literal["tally"]
    programs: int
    answers: int
    dropped: dict[str, int]
    failures: list[dict[str, Any]]
    index: list[list[str]]


class PoolLine(TypedDict, total=False):
    """The head of a pool."""

    record: Literal["pool"]
    recipe: Settings
    environment: EnvironmentFields


class PoolAnswerFields(TypedDict, total=False):
    """A distinct answer in a pool."""

    number: int
    writer: str
    """"policy" or "teacher"."""
    text: str
    tokens: str
    """int32 in base64: the tokens of the answer."""
    logps: str
    """float16 in base64: log-probabilities of the tokens, by the writer."""
    seed: int
    copies: int
    """Equal answers that were drawn."""
    chosen: str | None
    """Why the answer is judged: "greedy", "best", "random" or "teacher"; null: it is not."""
    is_cut_off: bool
    malformed: str
    """Why the answer holds no candidate; empty where it holds one."""
    planned_s: float | None
    """Estimated seconds."""
    spills: int | None
    """Bytes of registers that spill on sm_90."""


class PoolProgramLine(TypedDict):
    """A program of a pool, and the answers to the program."""

    record: Literal["pool_program"]
    name: str
    level: int
    text: str
    fingerprint: str
    eager_s: float
    """Estimated time of PyTorch."""
    answers: list[PoolAnswerFields]


class ShareFields(TypedDict):
    """A share of judged answers; null where none was judged."""

    of: int
    share: float | None


class PoolFigures(TypedDict, total=False):
    """Figures of a pool, or of one level of the pool. Keys of `correct`, `faster`, `speedup` and
    `planned` are the reasons for which answers were judged."""

    programs: int
    written: int
    distinct: int
    malformed: dict[str, int]
    judged: int
    codes: dict[str, int]
    correct: dict[str, ShareFields]
    faster: dict[str, ShareFields | None]
    speedup: dict[str, float | None]
    """Geometric mean over PyTorch, measured."""
    planned: dict[str, float | None]
    """Geometric mean over PyTorch, estimated."""
    best_over_greedy: dict[str, Any]
    rank_correlation: dict[str, Any] | None


class PoolSummaryLine(TypedDict):
    """The figures of a pool."""

    record: Literal["pool_summary"]
    all: PoolFigures
    levels: dict[str, PoolFigures]
