"""The reasons why judging a candidate ends, on the way to its verdict."""

from collections.abc import Iterator
from contextlib import contextmanager

from kernelwright.core.verdict import Code, ErrorFigures, Stage
from kernelwright.sandbox.shared.contract import GuestFault

FAULTS: dict[str, tuple[Stage, Code]] = {
    "load": (Stage.COMPILE, Code.LOAD_ERROR),
    "missing_entry": (Stage.COMPILE, Code.MISSING_ENTRY),
    "compile": (Stage.COMPILE, Code.COMPILE_ERROR),
    "runtime": (Stage.RUN, Code.RUNTIME_ERROR),
    "out_of_memory": (Stage.RUN, Code.OUT_OF_MEMORY),
    "out_of_bounds": (Stage.RUN, Code.OUT_OF_BOUNDS),
    "crashed": (Stage.RUN, Code.CRASHED),
    "timeout": (Stage.RUN, Code.TIMEOUT),
    "malformed": (Stage.RUN, Code.MALFORMED),
}
"""Kind of a guest's fault -> where judging ended and why."""


class Rejected(Exception):
    """Ends the judging of one candidate; never leaves `verify`."""

    def __init__(self, stage: Stage, code: Code, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.stage, self.code, self.message, self.line = stage, code, message, line


class WrongOutputs(Rejected):
    """A rejection with the error figures of wrong outputs."""

    def __init__(self, code: Code, message: str, errors: ErrorFigures | None) -> None:
        super().__init__(Stage.COMPARE, code, message)
        self.errors = errors


@contextmanager
def faults(stage: Stage | None = None) -> Iterator[None]:
    """Turns a guest's report of a candidate's fault into a rejection, at `stage` where given."""
    try:
        yield
    except GuestFault as fault:
        usual, code = FAULTS.get(fault.kind, (Stage.RUN, Code.MALFORMED))
        raise Rejected(stage or usual, code, fault.message, fault.line) from fault
