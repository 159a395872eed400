"""PyTorch, torch.compile and optimized code timed in turn in one process, alone on the GPU."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._inductor.compile_fx import compile_fx

from kernelwright.core.verdict import Precision, Timing
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import stopwatch
from kernelwright.timing.memory import give_back
from kernelwright.timing.stages import stage
from kernelwright.timing.turns import Contender, compared, take_turns
from kernelwright.verify.times.sides import tf32_allowed
from kernelwright.verify.values.tf32 import allowed_tf32

SEED = 1
WARM_CALLS = 3
"""Calls before the timed ones: they compile, tune and fill the allocator."""
COMPILE_MODES = {"compiled": "default", "max_autotune": "max-autotune-no-cudagraphs"}
"""Contenders of torch.compile by their name in records."""
MESSAGE_LIMIT = 300

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class TimedContender:
    times: dict[str, Timing]
    """By contender: "eager", those of COMPILE_MODES that take part and work, "optimized"."""
    speedup_intervals: dict[str, tuple[float, float]]
    """By baseline: 95% interval of its median over that of "optimized", by resampling turns."""
    failed: dict[str, str]
    """Contenders of torch.compile that cannot run the task, and why."""
    tf32: dict[str, bool]
    """Whether "matmul" and "cudnn" might use TF32: the same flags for every contender."""


class CalledContender:
    """A contender in this process.

    Args:
        before: called before each call, and not timed.
    """

    def __init__(self, call: Call, before: Callable[[], None] = lambda: None) -> None:
        self._call, self._inputs, self._before = call, list[Any](), before
        self._stopwatch = stopwatch()

    def prepare(self, inputs: list[Any], seed: int) -> None:  # noqa: ARG002 (nothing is random)
        self._inputs = inputs

    def time(self) -> float:
        self._before()
        return self._stopwatch(partial(self._call, *self._inputs)).time_ms

    def release(self) -> None:
        self._inputs = []
        give_back()


def side_by_side(
    contenders: Mapping[str, Contender],
    draw: Callable[[int], list[Any]],
    *,
    precision: str,
    uncompiled: Call,
) -> TimedContender:
    """Times of the contenders on inputs that `draw` makes from a seed, with a cold L2 cache.

    The contenders take turns of some timed calls each. Each round begins with another contender, so
    that a drift of the clock meets all alike.

    Args:
        precision: under "tf32" library calls in this process may use TF32; else PyTorch's own
            settings hold.
        uncompiled: a copy of the reference; torch.compile compiles it before the GPU is taken.

    Raises:
        Exception: a contender other than those of torch.compile fails.
    """
    with torch.no_grad(), tf32_allowed(Precision(precision)):
        inputs = draw(SEED)
        compile_ahead(uncompiled, inputs)
        failed = warm(contenders, inputs)
        del inputs
        working = {name: contender for name, contender in contenders.items() if name not in failed}
        with gpu_lock(), stage("side by side"):
            samples = take_turns(working, draw, seed=SEED)
        for_products, for_convolutions = allowed_tf32()
    tf32 = {"matmul": for_products, "cudnn": for_convolutions}
    result = compared(samples)
    return TimedContender(result.times, result.speedup_intervals, failed, tf32)


@stage("torch.compile")
def compile_ahead(call: Call, inputs: list[Any]) -> None:
    """Fills Inductor's cache without a call on the GPU, which other processes may use meanwhile.

    After this torch.compile in its default mode takes a fraction of a second for the first graph of
    the call. An error here is ignored: it comes again when the contender is warmed.
    """

    def backend(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Call:
        compile_fx(graph, examples)
        # Only the compiler's cache is wanted: other processes may be taking times on the GPU.
        raise _CompiledError

    with suppress(Exception):  # torch.compile wraps ours in its own
        torch.compile(call, backend=backend)(*inputs)
    torch.compiler.reset()


class _CompiledError(Exception):
    """Ends a call before anything runs."""


@stage("warm baselines")
def warm(contenders: Mapping[str, Contender], inputs: list[Any]) -> dict[str, str]:
    """Calls each contender a few times, which compiles it.

    Only "max_autotune", which chooses kernels by their times, holds the GPU alone.

    Returns:
        Contenders of torch.compile that fail, and why.

    Raises:
        Exception: another contender fails.
    """
    failed = {}
    for name, contender in contenders.items():
        try:
            with gpu_lock(shared=name != "max_autotune"):
                contender.prepare(inputs, SEED)
                for _ in range(WARM_CALLS):
                    contender.time()
                contender.release()
        except Exception as error:
            # A baseline may fail. Without PyTorch or our code there is nothing to compare.
            if name not in COMPILE_MODES:
                raise
            failed[name] = f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]
    return failed
