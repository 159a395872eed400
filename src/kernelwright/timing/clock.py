"""One clock-owner per GPU: a lock between processes, held alone while times are taken."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kernelwright.timing.stages import stage


@contextmanager
def gpu_lock(index: int = 0, *, shared: bool = False, for_long: bool = False) -> Iterator[None]:
    """Holds GPU `index` until the block is left: alone, or beside others that share it.

    A process that waits to have the GPU alone keeps later comers out, so that sharers cannot starve
    it. An exception are processes that share it `for_long`: until the last of them is done, others
    come and go. The system frees the lock when its holder dies. Not reentrant.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with ExitStack() as locks:
        with stage("wait for the GPU", is_waiting=True):
            gpu = _name_for_all(index)
            if for_long or not shared:
                locks.enter_context(_file_lock(f"gpu{gpu}-long", kind))
            # All wait here in turn: behind a process that wants the GPU alone, sharers wait too.
            leave_queue = locks.enter_context(_file_lock(f"gpu{gpu}-queue", fcntl.LOCK_EX))
            locks.enter_context(_file_lock(f"gpu{gpu}", kind))
            leave_queue()
        yield


def gpus() -> list[str]:
    """Returns the names of the GPUs that this process is shown, the same names in every process."""
    import torch

    return [_name_for_all(index) for index in range(torch.cuda.device_count())]


def _name_for_all(index: int) -> str:
    """Returns the name that all processes use for the GPU that this process counts as `index`."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return shown[index].strip() or str(index) if index < len(shown) else str(index)


@contextmanager
def _file_lock(name: str, kind: int) -> Iterator[Callable[[], None]]:
    """Holds a lock of this user; gives a function that releases the lock early."""
    path = Path(tempfile.gettempdir(), f"kernelwright-{os.getuid()}-{name}.lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, kind)
        yield lambda: fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)  # releases the lock
