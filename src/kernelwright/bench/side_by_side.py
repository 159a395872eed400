"""Eager, torch.compile and optimized.py timed in turn, in one process, alone on the card."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.verdict import Timing
from kernelwright.search.importing import import_file
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import time_cold
from kernelwright.timing.stats import summarize
from kernelwright.verify.task import ModuleTask

SEED = 1
ROUNDS = 10
REPEATS = 3
"""Of one contender before the next has its turn."""


def side_by_side(task: ModuleTask, optimized: Path) -> dict[str, Timing]:
    """Times of "eager", "compiled" and "optimized" on the task's inputs, cold L2.

    The contenders take turns, each round beginning with another one, so that drift hits all of
    them; `optimized` must be trusted code, since it is imported here.
    """
    device = torch.device("cuda")
    inputs = task.draw(SEED, device)
    eager = task.reference(device)
    assert isinstance(eager, torch.nn.Module)
    contenders: dict[str, Callable[..., Any]] = {
        "eager": eager,
        "compiled": torch.compile(task.reference(device)),
        "optimized": _model_new(task, optimized, eager, device),
    }
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    with torch.no_grad():
        with gpu_lock(shared=True):
            for call in contenders.values():  # compilation and warm-up
                for _ in range(3):
                    call(*inputs)
            torch.cuda.synchronize()
        names = list(contenders)
        with gpu_lock():
            for turn in range(ROUNDS):
                for name in names[turn % 3 :] + names[: turn % 3]:
                    samples[name] += time_cold(partial(contenders[name], *inputs), REPEATS)
    return {name: summarize(times) for name, times in samples.items()}


def _model_new(
    task: ModuleTask, path: Path, eager: torch.nn.Module, device: torch.device
) -> torch.nn.Module:
    """The file's ModelNew with the reference's parameters."""
    module = import_file(path)
    with torch.device(device):
        arguments = module.get_init_inputs()
        if len(arguments) == 2 and isinstance(arguments[1], dict):
            made: torch.nn.Module = module.ModelNew(*arguments[0], **arguments[1])
        else:
            made = module.ModelNew(*arguments)
    made.load_state_dict(eager.state_dict())
    return made.to(device).train(task.module(device).training)
