"""Turns the errors of a full disk, from any library, into a UsageError."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.core.errors import UsageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Writers in C++ and Rust have the system's error in their messages, or only say that they failed.
_SAYS_FULL = ("No space left", "quota exceeded", "File too large", "PytorchStreamWriter failed")


@contextmanager
def disk_may_be_full(folder: Path) -> Iterator[None]:
    """A context for code that writes into a run's folder.

    Raises:
        UsageError: writing failed because the disk or the quota is full. Other errors pass through.
    """
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        if not _is_full(error):
            raise
        free = shutil.disk_usage(folder).free
        raise UsageError(
            f"the disk takes no more ({free / 1e6:.0f} MB are free): {error}; "
            "checkpoints that were there before are whole",
            file=str(folder),
            remedy="make room, then run the same command with --resume",
        ) from error


def _is_full(error: BaseException) -> bool:
    """Whether the error, or an error that caused it, says that the disk is full."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    if any(mark in str(error) for mark in _SAYS_FULL):
        return True
    return error.__cause__ is not None and _is_full(error.__cause__)
