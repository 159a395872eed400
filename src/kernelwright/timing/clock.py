"""One clock-owner per GPU: a lock between processes, held while times are taken."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def gpu_lock(index: int = 0) -> Iterator[None]:
    """Hold GPU `index` alone among this user's processes until the block is left; wait for it.

    The system frees the lock when its holder dies. Not reentrant.
    """
    path = Path(tempfile.gettempdir(), f"kernelwright-{os.getuid()}-gpu{index}.lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # releases the lock
