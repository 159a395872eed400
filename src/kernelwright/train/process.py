"""Which of the processes of a run this is. One where nothing launched several."""

import torch
from accelerate import PartialState


def this_process() -> PartialState:
    """Accelerate's state of this process. The first call joins the run's other processes, through
    gloo on a machine without a GPU."""
    return PartialState(cpu=not torch.cuda.is_available())
