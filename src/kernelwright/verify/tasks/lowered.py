"""A module task's computation as a program."""

import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.lowering.lower import Lowered, lower
from kernelwright.verify.tasks.module_task import ModuleTask


def lower_model(task: ModuleTask, device: torch.device) -> tuple[torch.nn.Module, Lowered]:
    """Returns the task's module and its program, on the meta device so that nothing large is
    allocated.

    A forward that reads values there (`.item()`) or makes constants of them (`torch.tensor(2.0)`)
    is lowered on `device` instead.

    Raises:
        UsageError: the module cannot be captured.
    """
    try:
        with torch.device("meta"):
            module = task.build()
            # `ModuleTask.in_other_mode` changes built modules, and not the constructor.
            if module.training != task.training:
                module.train(task.training)
            lowered = lower(module, tuple(task.get_inputs()))
        # A constant on the meta device has lost its value.
        if not any(s.tensor is not None and s.tensor.is_meta for s in lowered.sources):
            return module, lowered
    except UsageError:
        pass  # the real run says what is wrong, if anything is
    module = task.module(device)
    with torch.device(device):
        return module, lower(module, tuple(task.draw(0, device)))
