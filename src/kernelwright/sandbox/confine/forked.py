"""Forks that run foreign code: the folders they write to, and the end of all they leave behind."""

import os
import signal
import tempfile
from collections.abc import Collection
from pathlib import Path

_ANY_CHILD = 0x40000000
"""Option `__WALL` of waitpid: children that end without a signal too."""


def children() -> set[int]:
    """Returns the ids of the server's child processes, those that forks left behind among them."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()} if path.exists() else set()


def end(pids: Collection[int]) -> None:
    """Kills child processes, and waits for their end."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, _ANY_CHILD)


def write_only_in(scratch: Path, cache: str = "") -> None:
    """Names `scratch` as the folder for all that libraries write in this process.

    Args:
        cache: the folder of Triton's compiled kernels; "": a folder in `scratch`.
    """
    for name in ("HOME", "TMPDIR", "TRITON_HOME", "CUDA_CACHE_PATH"):
        os.environ[name] = str(scratch)
    tempfile.tempdir = str(scratch)  # the server's answer is remembered otherwise
    os.environ["TRITON_CACHE_DIR"] = cache or str(scratch / "cache")
    # PyTorch's compiler names a folder when the server imports it. Forks cannot write there.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(scratch / "inductor")
