"""The state of this process among the processes of a run. A run may have only this process."""

import torch
from accelerate import PartialState


def this_process() -> PartialState:
    """Accelerate's state of this process. The first call joins the run's other processes, through
    gloo on a machine without a GPU."""
    return PartialState(cpu=not torch.cuda.is_available())
