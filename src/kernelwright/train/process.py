"""The state of this process among the processes of a run. A run may have only this process."""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from accelerate import PartialState

from kernelwright.core.errors import InfraError, KernelwrightError

_LOST_PEER = ("closed by peer", "reset by peer", "remote process exited", "Broken pipe")
"""Words of gloo and NCCL where another process of the run has ended."""


def this_process() -> PartialState:
    """Accelerate's state of this process. The first call joins the run's other processes, through
    gloo on a machine without a GPU."""
    _leave_at_exit()
    return PartialState(cpu=not torch.cuda.is_available())


@contextmanager
def beside_others() -> Iterator[None]:
    """A context for the work of one process among others. The process that fails first reports its
    own error; the others lose their connection to it, which is no fault of theirs.

    Raises:
        InfraError: another process of the run has ended.
    """
    try:
        yield
    except KernelwrightError:
        raise
    except RuntimeError as error:
        if not any(words in str(error) for words in _LOST_PEER):
            raise
        message = "another process of this run has ended; its own message says why"
        raise InfraError(message) from None


@cache
def _leave_at_exit() -> None:
    """Make this process leave the others at its end. A process that ends with gloo's threads still
    at work aborts, and its launcher calls a run failed that is complete."""
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
