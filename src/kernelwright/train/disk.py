"""A disk that is full is told as what it is, whichever library met it."""

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
    """Around what writes into a folder of a run.

    Raises:
        UsageError: it failed for want of room.
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
    """Whether it, or what it was raised from, says so."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    if any(mark in str(error) for mark in _SAYS_FULL):
        return True
    return error.__cause__ is not None and _is_full(error.__cause__)
