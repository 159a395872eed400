"""The errors of the package. A fault of a candidate is a verdict, not an error.

KernelwrightError
  UsageError       what the user gave is wrong: bad file, bad option, unsupported input  exit code 2
  InfraError       our side broke: the sandbox, the driver, a limit of ours              exit code 3
    GuestLost      a guest died for a reason that is not the candidate's
  OutOfTime        the user's budget ended before the step did: nothing is known of its outcome
SearchInterrupted  the user pressed Ctrl-C; the exception holds the best module so far

A candidate that fails to compile, crashes, hangs or cheats raises nothing here: it becomes a
`Verdict` (core/verdict.py).
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


class KernelwrightError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(KernelwrightError, ValueError):
    """The user's input is wrong. The message says what, where (file:line) and what to do."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, remedy: str = ""
    ) -> None:
        where = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(f"{where}{message}" + (f"\n  remedy: {remedy}" if remedy else ""))
        self.message, self.file, self.line, self.remedy = message, file, line, remedy

    def to_json(self) -> dict[str, str | int | None]:
        """The arguments of the error, to raise the error again in another process."""
        return {name: getattr(self, name) for name in ("message", "file", "line", "remedy")}


class InfraError(KernelwrightError, RuntimeError):
    """Our side broke. Never turn this into a verdict or a reward."""


class GuestLost(InfraError):
    """A guest process died for a reason that is not the candidate's."""


class OutOfTime(KernelwrightError):
    """The budget ended before a step did. Nothing is concluded about a candidate."""


class SearchInterrupted(KeyboardInterrupt):
    """Ctrl-C ended `kernelwright.optimize`; `module` is the best module that was verified."""

    def __init__(self, module: object) -> None:
        super().__init__("the search was interrupted; the best module so far is in .module")
        self.module = module


@contextmanager
def infra(what: str) -> Iterator[None]:
    """A context that turns any exception into an InfraError that names the step.

    Errors of this package pass through unchanged.

    Args:
        what: the step in words, the beginning of the message.

    Raises:
        InfraError: the block raised an exception that is not a KernelwrightError.
    """
    try:
        yield
    except KernelwrightError:
        raise
    except Exception as error:
        raise InfraError(f"{what}: {type(error).__name__}: {error}") from error


FILE_FAULTS = {
    errno.ENOENT: ("there is no such file or folder", "check the path"),
    errno.ENOTDIR: ("a part of the path is a file", "check the path"),
    errno.EISDIR: ("this is a folder", "give a file"),
    errno.EEXIST: ("the file is already there", "give another path"),
    errno.ENAMETOOLONG: ("the name is too long", "give a shorter path"),
    errno.ELOOP: ("its links lead in a circle", "give another path"),
    errno.EACCES: ("permission denied", "change its permissions, or give another path"),
    errno.EPERM: ("permission denied", "change its permissions, or give another path"),
    errno.EROFS: ("the file system is read-only", "give a path that can be written"),
}
"""Error numbers of paths that a user mends: number -> (what is wrong, remedy)."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FULL_DISK_REMEDY = "free space, or give a folder on another disk"


def file_error(error: OSError) -> UsageError | None:
    """The user's error behind a failed call on a file; None where no user could mend it.

    A full disk counts wherever it occurs. Other errors count where they name a path.
    """
    path = None if error.filename is None else os.fsdecode(error.filename)
    if error.errno in FULL_DISK:
        return UsageError("no space is left on the disk", file=path, remedy=FULL_DISK_REMEDY)
    if path is None or error.errno not in FILE_FAULTS:
        return None
    message, remedy = FILE_FAULTS[error.errno]
    return UsageError(message, file=path, remedy=remedy)
