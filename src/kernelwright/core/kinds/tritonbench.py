"""Lines of `eval tritonbench`: tasks as they are posed, scripts that were run, and cases."""

from typing import Literal, TypedDict

from kernelwright.core.kinds.fields import EnvironmentFields, Settings


class TritonBenchRunLine(TypedDict, total=False):
    """The settings of all tasks that follow."""

    record: Literal["run"]
    command: str
    policy: str
    """The writer of the code: a policy, or the name of a folder of predictions."""
    options: Settings
    environment: EnvironmentFields
    cases: int
    """Tasks that the command was asked for."""
    left: int
    """Tasks without a case, because our side failed."""
    note: str
    """A remark that was added by hand."""


class PosedCallFields(TypedDict, total=False):
    """A call that the tests of a task make."""

    function: str
    program: str | None
    """The call as a program; null where it cannot be lowered, or need not be."""
    not_lowered: str | None
    reference: str
    """The text that the judge compares with."""
    adapter: str
    """The text below a prediction, which makes the call."""
    posed_as: str
    """"program"; "function": the golden code on fresh inputs; "scaled": on scaled inputs."""
    refused: str
    """Why the judge cannot pose the call."""


class TritonBenchTaskLine(TypedDict, total=False):
    """A task's calls, as they are posed to the judge."""

    record: Literal["tritonbench_task"]
    name: str
    digest: str
    """Digest of the task's file."""
    calls: list[PosedCallFields]
    refused: str | None
    """Why there are no calls."""


class TritonBenchScriptLine(TypedDict, total=False):
    """Code with the tests of its task, run as a script."""

    record: Literal["tritonbench_script"]
    name: str
    digest: str
    """Digest of the script."""
    code: int | None
    """Exit code; negative: a signal; null: its time was over."""
    output: str
    """Digest of what the script printed."""
    message: str
    """The last line of its errors."""
    seconds: float


class TritonBenchCaseLine(TypedDict, total=False):
    """One task and the code of one writer."""

    record: Literal["tritonbench_case"]
    channel: str
    id: int
    """Number in the order of the channel's names."""
    name: str
    policy: str
    mode: str
    precision: str
    answered: bool
    """There is code for the task."""
    golden_code: int | None
    """Exit code of the golden file's own script."""
    called: bool | None
    """The code with the task's tests exits with 0; null where this was not run."""
    executed: bool | None
    """As `called`, and the script prints what the golden file prints."""
    calls: int
    """Distinct calls that the tests make."""
    posed: int
    """Calls that the judge can pose."""
    refused: dict[str, int]
    """Why others cannot be posed -> number of calls."""
    right: int
    """Posed calls whose code the judge accepts."""
    posable: bool
    """The judge can pose some call."""
    correct: bool
    """All posed calls are right, and there are some."""
    code: str
    """"ok", "not_posable", "unanswered", or the first other reason code."""
    codes: dict[str, int]
    """Reason code -> number of calls."""
    message: str
    speedups: list[float]
    """Speed-ups of right calls over the reference; empty where nothing was timed."""
    commit: str
    """The commit at which the calls were judged; several are joined by "+"."""
