"""Eager, torch.compile and optimized.py timed in turn, in one process, alone on the card."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Timing
from kernelwright.search.importing import import_file
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import stopwatch
from kernelwright.timing.stats import ratio_interval, summarize
from kernelwright.verify.task import ModuleTask

SEED = 1
ROUNDS = 10
"""Each on inputs of its own, the contenders in another order."""
REPEATS = 3
"""Turns of every contender in a round."""


@dataclass(frozen=True, slots=True)
class Timed:
    times: dict[str, Timing]
    """By contender: "eager", "compiled" and "optimized"."""
    speedup_intervals: dict[str, tuple[float, float]]
    """By rival: 95% interval of its median over that of "optimized", by resampling turns."""


def side_by_side(task: ModuleTask, optimized: Path) -> Timed:
    """Times of the three contenders on the task's inputs, cold L2.

    They take turns, call by call, each round beginning with another one, so that drift hits all of
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
    time_cold = stopwatch()
    with torch.no_grad():
        with gpu_lock(shared=True):
            for call in contenders.values():  # compilation and warm-up
                for _ in range(3):
                    call(*inputs)
            torch.cuda.synchronize()
        names = list(contenders)
        with gpu_lock():
            for number in range(ROUNDS):
                inputs = task.draw(derive(SEED, number) % (1 << 31), device)
                for name in (names[number % 3 :] + names[: number % 3]) * REPEATS:
                    samples[name].append(time_cold(partial(contenders[name], *inputs))[0])
    ours = samples["optimized"]
    return Timed(
        {name: summarize(times) for name, times in samples.items()},
        {
            name: ratio_interval(samples[name], ours, is_paired=True)
            for name in names
            if name != "optimized"
        },
    )


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
