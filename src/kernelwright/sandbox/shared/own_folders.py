"""Temporary folders of this process. No folder stays, also where the process is killed.

Beside a folder `kernelwright-...` lies a file of the same name with `.owner`. The process that made
the folder keeps a lock on the file, and the kernel drops the lock with the process. So every
process can tell which folders are stale, and the next one that makes a folder removes them.

The file is there before the folder and after it: no moment leaves a folder without its file.
"""

import atexit
import fcntl
import os
import platform
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from kernelwright.sandbox.shared.removal import remove as remove_files

_PREFIX, _SUFFIX = "kernelwright-", ".owner"
_MAX_NAME_BYTES = 1_024

_locks: dict[Path, int] = {}
"""Descriptors of locked files, by folder."""
_turn = threading.RLock()
"""One thread at a time makes or removes: no other thread ends the process meanwhile."""


def make(purpose: str) -> Path:
    """Makes an empty folder with mode 0700. `remove` or the end of this process removes the folder.
    After a kill, the next process that makes a folder removes the stale folder.

    Args:
        purpose: a word in the folder's name.

    Raises:
        OSError: the folder cannot be made.
    """
    _remove_stale_once(os.getpid())
    with _turn:
        lock, name = tempfile.mkstemp(prefix=f"{_PREFIX}{purpose}-", suffix=_SUFFIX)
        with suppress(OSError):  # file systems without locks: nobody takes the folder for stale
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(lock, _machine())  # after the lock: others leave a file without it alone
        folder = Path(name.removesuffix(_SUFFIX))
        _locks[folder] = lock
        folder.mkdir(mode=0o700)
    return folder


def remove(folder: Path) -> None:
    """Removes a folder of `make`. Never raises: a folder that cannot be removed stays, is stale,
    and is tried again later."""
    with _turn:
        lock = _locks.pop(folder, None)
        if lock is not None:
            _remove_with_owner(folder)
            os.close(lock)


@contextmanager
def own_folder(purpose: str) -> Iterator[Path]:
    """Gives a folder of `make` that is removed in the end.

    Raises:
        OSError: the folder cannot be made.
    """
    folder = make(purpose)
    try:
        yield folder
    finally:
        remove(folder)


def remove_all() -> None:
    """Removes all folders of this process, then those of processes that have ended. Never raises.
    Other threads that make or remove folders wait from now on: call this when the process ends."""
    _turn.acquire()
    for folder in list(_locks):
        remove(folder)
    remove_stale()


def remove_stale(place: Path | None = None) -> None:
    """Removes the folders of processes that have ended. Never raises.

    Args:
        place: where the folders lie; None: where this process makes its own.
    """
    place = place or Path(tempfile.gettempdir())
    with suppress(OSError):
        for name in os.listdir(place):
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_if_stale(place / name)


@cache
def _remove_stale_once(_process_id: int) -> None:
    remove_stale()


def _machine() -> bytes:
    """Returns a name of this machine. Some file systems show files to other machines, but not
    locks."""
    return platform.node().encode()[:_MAX_NAME_BYTES] or b"-"


def _remove_if_stale(owner: Path) -> None:
    """Removes a folder whose owner has ended. The lock is held meanwhile: only one process removes.

    Raises:
        OSError: the owner lives, or is another user's.
    """
    lock = os.open(owner, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        is_ours = os.fstat(lock).st_uid == os.getuid()
        if is_ours and os.read(lock, _MAX_NAME_BYTES) == _machine():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # else another process has just removed both
                _remove_with_owner(owner.with_suffix(""))
    finally:
        os.close(lock)


def _remove_with_owner(folder: Path) -> None:
    """Removes the folder, then its owner file. The file goes last, because it leads to the folder.
    Never raises."""
    with suppress(OSError):
        if folder.lstat().st_uid == os.getuid():
            remove_files(folder)
    if not os.path.lexists(folder):
        remove_files(folder.with_name(folder.name + _SUFFIX))


def _forget() -> None:
    """Lets a fork of the owner own nothing. Otherwise the fork would keep the locks after the
    owner's end."""
    global _turn
    for lock in _locks.values():
        with suppress(OSError):
            os.close(lock)
    _locks.clear()
    _turn = threading.RLock()


os.register_at_fork(after_in_child=_forget)
atexit.register(remove_all)
