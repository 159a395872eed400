"""PyTorch, torch.compile and optimized.py timed in turn, in one process, alone on the card."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._inductor.compile_fx import compile_fx

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Timing
from kernelwright.search.importing import import_file
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import stopwatch
from kernelwright.timing.stages import stage
from kernelwright.timing.stats import ratio_interval, summarize
from kernelwright.verify.compare import Precision
from kernelwright.verify.sides import tf32_allowed
from kernelwright.verify.task import ModuleTask

SEED = 1
ROUNDS = 10
"""Each on inputs of its own, the contenders in another order."""
REPEATS = 3
"""Turns of every contender in a round."""
OURS = "optimized"
COMPILE_MODES = {"compiled": "default", "max_autotune": "max-autotune-no-cudagraphs"}
"""Contenders of torch.compile by their name in records."""
MESSAGE_LIMIT = 300

Contender = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Timed:
    times: dict[str, Timing]
    """By contender: "eager", those of COMPILE_MODES that were asked for and work, "optimized"."""
    speedup_intervals: dict[str, tuple[float, float]]
    """By baseline: 95% interval of its median over that of "optimized", by resampling turns."""
    failed: dict[str, str]
    """Baselines that cannot run the task, and why."""
    tf32: dict[str, bool]
    """Whether "matmul" and "cudnn" might use TF32: the same flags for every contender."""


def side_by_side(
    task: ModuleTask, optimized: Path | None, *, precision: str, max_autotune: bool = False
) -> Timed:
    """Times of the contenders on the task's inputs, cold L2.

    They take turns, call by call, each round beginning with another one, so that drift hits all of
    them.

    Args:
        optimized: trusted code, since it is imported here; None: time the baselines alone.
        precision: under "tf32" every contender's library calls may use TF32; else PyTorch's own
            settings hold for all of them.
        max_autotune: time torch.compile in that mode too; it compiles for minutes.
    """
    device = torch.device("cuda")
    eager = task.reference(device)
    assert isinstance(eager, torch.nn.Module)
    modes = [name for name in COMPILE_MODES if max_autotune or name != "max_autotune"]
    contenders: dict[str, Contender] = {
        "eager": eager,
        **{name: torch.compile(task.reference(device), mode=COMPILE_MODES[name]) for name in modes},
    }
    if optimized is not None:
        contenders[OURS] = _model_new(task, optimized, eager, device)
    with torch.no_grad(), tf32_allowed(Precision(precision)):
        inputs = task.draw(SEED, device)
        _compile_ahead(task.reference(device), inputs)
        failed = _warm(contenders, inputs)
        del inputs
        working = {name: call for name, call in contenders.items() if name not in failed}
        with gpu_lock():
            samples = _samples(working, task, device)
        flags = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    return Timed(
        {name: summarize(times) for name, times in samples.items()},
        {
            name: ratio_interval(times, samples[OURS], is_paired=True)
            for name, times in samples.items()
            if OURS in samples and name != OURS
        },
        failed,
        dict(zip(("matmul", "cudnn"), flags, strict=True)),
    )


@stage("torch.compile")
def _compile_ahead(call: Contender, inputs: list[Any]) -> None:
    """Fill Inductor's cache without a call on the GPU, which others may use meanwhile.

    After this torch.compile in its default mode takes a fraction of a second for what was its first
    graph. What cannot be compiled shows when it is called.
    """

    def backend(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Contender:
        compile_fx(graph, examples)
        raise _CompiledError

    with suppress(Exception):  # of torch.compile, around ours
        torch.compile(call, backend=backend)(*inputs)
    torch.compiler.reset()


class _CompiledError(Exception):
    """Ends a call before anything runs."""


@stage("warm baselines")
def _warm(contenders: dict[str, Contender], inputs: list[Any]) -> dict[str, str]:
    """Call each a few times, which compiles it; those of torch.compile that fail, and why.

    The mode that tunes itself by times has the GPU alone.
    """
    failed = {}
    for name, call in contenders.items():
        try:
            with gpu_lock(shared=name != "max_autotune"):
                for _ in range(3):
                    call(*inputs)
                torch.cuda.synchronize()
        except Exception as error:
            if name not in COMPILE_MODES:
                raise
            failed[name] = f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]
    return failed


@stage("side by side")
def _samples(
    contenders: dict[str, Contender], task: ModuleTask, device: torch.device
) -> dict[str, list[float]]:
    """Times in ms by contender, in the order they were taken."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    time_cold = stopwatch()
    names = list(contenders)
    for number in range(ROUNDS):
        inputs = task.draw(derive(SEED, number) % (1 << 31), device)
        first = number % len(names)
        for name in (names[first:] + names[:first]) * REPEATS:
            samples[name].append(time_cold(partial(contenders[name], *inputs))[0])
    return samples


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
