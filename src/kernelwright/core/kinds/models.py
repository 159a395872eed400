"""Lines of `eval models`: whole models and their blocks behind `torch.compile`."""

from typing import Literal, TypedDict

from kernelwright.core.kinds.fields import (
    EnvironmentFields,
    ErrorFields,
    Settings,
    TimingFields,
)


class ModelsRunLine(TypedDict, total=False):
    """The settings of all models that follow."""

    record: Literal["run"]
    command: str
    options: Settings
    cases: int
    """Cases of the whole run; missing until the blocks of all models are listed."""
    environment: EnvironmentFields


class BlockFields(TypedDict):
    """A distinct block of a model: blocks of one class and one size are counted together."""

    name: str
    """Path of the first such block in the model."""
    kind: str
    """Name of the class."""
    count: int
    """Blocks of this class and size in the model."""
    calls: int
    """Calls that these blocks receive in one call of the model."""


class ModelBlocksLine(TypedDict, total=False):
    """The distinct blocks of a model in one phase."""

    record: Literal["model_blocks"]
    model: str
    dtype: str
    phase: str
    batch: int
    blocks: list[BlockFields]
    failed: str
    """Why the blocks could not be listed; missing where they are."""
    code: str
    """As in the record of a case."""


class LeftFields(TypedDict):
    """A fragment that Inductor's code computes."""

    operators: list[str]
    why: str


class ModelGraphFields(TypedDict):
    """The outcome of one graph of Dynamo."""

    calls: int
    """Calls in Dynamo's graph."""
    runs: str
    """The code that runs."""
    why: str
    graph_break: str
    """Why Dynamo ended the graph; empty where the function ends."""
    kernels: list[str]
    """Names of our kernels that run."""
    left: list[LeftFields]
    outside: list[str]
    """Operators that no kernel of ours computes."""


class ModelCaseLine(TypedDict, total=False):
    """A model, or a distinct block of it, in one phase and dtype. Dictionaries by side have the
    keys "compiled" (torch.compile) and "optimized" (the backend), and "eager" where stated."""

    record: Literal["model_case"]
    model: str
    dtype: str
    phase: str
    """"prefill", "decode" or "batch"."""
    batch: int
    block: BlockFields | None
    """The block that was measured; null: the whole model."""
    failed: str
    """Why there are no figures; missing where there are."""
    code: str
    """With `failed`: "usage": the model raised; "memory" and "infra": the case is run again."""
    sides_failed: dict[str, str]
    """Side -> why this side cannot run the model."""
    correct: dict[str, bool]
    """By side: the values pass the judge's comparison with a float64 reference."""
    mismatch: dict[str, str]
    """By side: the difference, where the values do not pass."""
    errors: dict[str, ErrorFields | None]
    """By side, against the float64 reference."""
    eager: TimingFields | None
    """Null without a GPU, as all times are."""
    compiled: TimingFields | None
    optimized: TimingFields | None
    speedup_intervals: dict[str, list[float]]
    """"eager" and "compiled" -> ends of the 95% interval of the speed-up over this side."""
    search_s: float
    """Seconds of the process that filled the library, from the first call to the result."""
    searches_failed: list[str]
    """Why searches of graphs came to no result."""
    compile_s: dict[str, float]
    """By side: seconds of the first call, without any cache of Inductor's."""
    peak_bytes: dict[str, int] | None
    """By side, "eager" included: GPU memory of a call at most, weights included."""
    share: float | None
    """Share of the device time of a call that our kernels take; null without a GPU."""
    graphs: list[ModelGraphFields]
