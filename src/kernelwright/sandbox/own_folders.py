"""Temporary folders of this process. No folder stays, also where the process is killed.

A folder `kernelwright-...` holds the folder `files` and the file `owner`. The process that made the
folder keeps a lock on `owner`, and the kernel drops the lock with the process. So every process can
tell which folders are stale, and the next one that makes a folder removes them.
"""

import atexit
import fcntl
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from kernelwright.sandbox.removal import remove as remove_files

_PREFIX, _FILES, _OWNER = "kernelwright-", "files", "owner"
_MAX_NAME_BYTES = 1_024

_locks: dict[Path, int] = {}
"""Descriptors of locked files, by the folder that `make` gave."""


def make(purpose: str) -> Path:
    """A new empty folder. It is there until `remove`, or the end of this process.

    Args:
        purpose: a word in the folder's name.

    Raises:
        OSError: the folder cannot be made.
    """
    _remove_stale_once(os.getpid())
    outer = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-"))
    folder = outer / _FILES
    folder.mkdir()
    _locks[folder] = _locked(outer / _OWNER)
    return folder


def remove(folder: Path) -> None:
    """Remove a folder of `make`. Never raises: a folder that cannot be removed stays, is stale, and
    is tried again later."""
    _remove_outer(folder.parent)
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


@contextmanager
def own_folder(purpose: str) -> Iterator[Path]:
    """A folder of `make` that is removed in the end.

    Raises:
        OSError: the folder cannot be made.
    """
    folder = make(purpose)
    try:
        yield folder
    finally:
        remove(folder)


def remove_all() -> None:
    """Remove all folders of this process, then those of processes that have ended. Never raises."""
    for folder in list(_locks):
        remove(folder)
    remove_stale()


def remove_stale(place: Path | None = None) -> None:
    """Remove the folders of processes that have ended. Never raises.

    Args:
        place: where the folders lie; None: where this process makes its own.
    """
    with suppress(OSError), os.scandir(place or tempfile.gettempdir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(_PREFIX) and _is_ours(entry):
                    _remove_if_stale(Path(entry.path))


@cache
def _remove_stale_once(_process_id: int) -> None:
    remove_stale()


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    is_folder = entry.is_dir(follow_symlinks=False)
    return is_folder and entry.stat(follow_symlinks=False).st_uid == os.getuid()


def _locked(path: Path) -> int:
    """Make the file `owner` and lock it; its descriptor, which children do not inherit."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with suppress(OSError):  # file systems without locks: nobody takes the folder for stale
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _machine())  # after the lock: others look at no file without this text
    return handle


def _machine() -> bytes:
    """Some network file systems keep locks from other machines."""
    return platform.node().encode()[:_MAX_NAME_BYTES] or b"-"


def _remove_if_stale(outer: Path) -> None:
    """Remove a folder whose owner has ended. The lock is held meanwhile: only one process removes.

    Raises:
        OSError: the owner lives, or the folder has no file `owner`.
    """
    handle = os.open(outer / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if os.read(handle, _MAX_NAME_BYTES) == _machine():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_outer(outer)
    finally:
        os.close(handle)


def _remove_outer(outer: Path) -> None:
    """The file `owner` goes last: what remains is found again by it."""
    remove_files(outer / _FILES)
    if not os.path.lexists(outer / _FILES):
        remove_files(outer)


def _forget() -> None:
    """In a fork of the owner, which owns nothing. Else the fork would keep the locks."""
    for lock in _locks.values():
        with suppress(OSError):
            os.close(lock)
    _locks.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(remove_all)
