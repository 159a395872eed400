"""The state of this process among the processes of a run. A run may have only this process."""

import atexit
from functools import cache

import torch
from accelerate import PartialState


def this_process() -> PartialState:
    """Accelerate's state of this process. The first call joins the run's other processes, through
    gloo on a machine without a GPU."""
    _leave_at_exit()
    return PartialState(cpu=not torch.cuda.is_available())


@cache
def _leave_at_exit() -> None:
    """Make this process leave the others at its end. A process that ends with gloo's threads still
    at work aborts, and its launcher calls a run failed that is complete."""
    atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
