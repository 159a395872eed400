"""Lines of `verify-many` and `lint`."""

from typing import Literal, NotRequired, TypedDict

from kernelwright.core.kinds.fields import EnvironmentFields, Settings, VerdictFields


class JudgingRunLine(TypedDict):
    """The recipe of all verdicts of a folder."""

    record: Literal["run"]
    command: str
    recipe: Settings
    environment: EnvironmentFields


class JobFields(TypedDict, total=False):
    """A job of `verify-many`, and who did the job when."""

    id: str
    content: str
    """Digest of reference and candidate."""
    begin_s: float
    end_s: float
    worker: str
    same_as: str
    """Id of an equal job whose outcome this is."""


class VerdictLine(JobFields, total=False):
    """A candidate and its verdict."""

    record: Literal["verdict"]
    verdict: VerdictFields
    guest: str
    audited: bool
    """The verdict is of a second, `fresh` judgement."""


class UsageLine(JobFields, total=False):
    """A reference that the judge cannot use: a fault of the caller."""

    record: Literal["usage"]
    usage: str


class InfraLine(JobFields, total=False):
    """A failure of ours: the same command judges the candidate again."""

    record: Literal["infra"]
    infra: str


class ClockFields(TypedDict):
    """The work of the processes that own a GPU's clock."""

    timed: int
    window_s: float
    utilisation: float
    stages_s: dict[str, float]


class JudgingSummaryLine(TypedDict, total=False):
    """The end of a call of `verify-many`."""

    record: Literal["summary"]
    jobs: int
    codes: dict[str, int]
    usage: int
    infra: int
    """Jobs without a verdict because of failures of ours."""
    judged_now: int
    seconds: float
    num_workers: int
    stages_s: dict[str, float]
    clock: ClockFields


class FindingFields(TypedDict, total=False):
    """A finding of the task linter."""

    id: str
    severity: str
    message: str
    remedy: str
    measure: float | None
    tolerances: list[str]
    """Tolerances under which the finding holds; empty: under all of them."""
    output: int | None
    """Number of the output."""
    input: int | None
    """Number of the input; parameters follow inputs."""
    operator: int | None
    """Number of the call in the program."""


class LintRunLine(TypedDict, total=False):
    """The settings of a run of the linter."""

    record: Literal["run"]
    command: str
    options: Settings
    cases: int
    """Tasks that the command was asked for."""
    environment: EnvironmentFields


class LintLine(TypedDict, total=False):
    """A task and the findings of the linter."""

    record: Literal["lint"]
    task: str
    device: str
    findings: list[FindingFields]
    not_checked: list[str]
    notes: list[str]
    scaled: bool
    """The task was judged at smaller sizes."""
    num_draws: int
    seconds: float


class LintErrorLine(TypedDict):
    """A task that could not be linted."""

    record: Literal["lint_error"]
    task: str
    kind: str
    message: str
    remedy: NotRequired[str | None]
    """How to mend the task, where a user can."""
