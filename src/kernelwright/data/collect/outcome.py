"""The outcome of collecting one module. A module without a program has exactly one reason."""

import re
from enum import StrEnum


class CollectOutcome(StrEnum):
    """How the collection of a module ended."""

    COLLECTED = "collected"
    """It was lowered and has programs, new or known."""
    IMPORT_FAILED = "import_failed"
    """Its file cannot be imported: not Python, a dependency is missing, it raises."""
    NO_FORWARD = "no_forward"
    """A base class: nothing to compute."""
    NOT_CONSTRUCTED = "not_constructed"
    """Its constructor refused all arguments that were tried."""
    NO_INPUTS = "no_inputs"
    """Its forward refused all inputs that were tried."""
    NOT_CAPTURED = "not_captured"
    """It runs, but torch.export cannot capture it, or what it returns holds no tensors."""
    NO_PROGRAMS = "no_programs"
    """Lowered, but nothing in it is a program for a kernel: extern calls and views only."""
    MEMORY = "memory"
    TIMEOUT = "timeout"
    CRASH = "crash"
    """Its process died."""
    UNEXPECTED = "unexpected"
    """Something raised where nothing should: a gap of ours."""


class Refused(Exception):
    """A module gives no program; `outcome` and `detail` say why."""

    def __init__(self, outcome: CollectOutcome, detail: object = "") -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome, self.detail = outcome, described(detail)


_MAX_DETAIL = 200


def described(detail: object) -> str:
    """The first line of an error, the same in every process and on every machine."""
    # Addresses and folders differ from run to run, and records must not.
    name = f"{type(detail).__name__}: " if isinstance(detail, BaseException) else ""
    lines = str(detail).strip().splitlines() or [""]
    text = re.sub(r"0x[0-9a-f]+", "0x...", name + lines[0])
    return re.sub(r"(/[\w.+-]+)+/", "", text)[:_MAX_DETAIL]
