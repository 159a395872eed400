"""The progress of a run, and the decisions that depend on the progress: the learning rate, the
times of checkpoints, and the end of the run."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from kernelwright.train.recipe import CheckpointSettings, Decay, OptimizerSettings, TrainingBudget

ENDLESS_STEPS = 10**9
"""The number of steps for a run that ends after some minutes: a number that no run reaches."""
_HEEDED = (signal.SIGTERM, signal.SIGINT)


class Pace(TrainerCallback):
    """The clock of a run. A resumed run continues its clock.

    The processes of a run agree on clock and signals at every step. If a process stopped a step
    earlier, the others would wait for it without end.
    """

    def __init__(self, budget: TrainingBudget, checkpoints: CheckpointSettings, steps: int) -> None:
        self.minutes = budget.minutes
        self.save_every_s = 60 * checkpoints.every_minutes
        self.steps = steps
        self.seconds = 0.0
        """Seconds of training over all parts of the run, up to the last step."""
        self.stopped_by: int | None = None
        """The signal that ends this part of the run."""
        self._signal = 0
        self._last_time = self._last_saved = time.monotonic()

    def progress(self, step: int) -> float:
        """The share of the budget that has been used after `step` steps, 0 to 1."""
        used = self.seconds / (60 * self.minutes) if self.minutes else step / self.steps
        return min(used, 1.0)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which SIGTERM and SIGINT end the run after the present step, with a
        checkpoint."""
        before = {number: signal.signal(number, self._note) for number in _HEEDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        # Loading model and data does not count in a budget of minutes.
        self._last_time = self._last_saved = time.monotonic()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Advance the clock, and set what the trainer does after this step: log, save, stop."""
        del state
        now = time.monotonic()
        self.seconds, since_saved, number = _agree(
            args, self.seconds + now - self._last_time, now - self._last_saved, self._signal
        )
        self._last_time = now
        if since_saved >= self.save_every_s:
            control.should_save = True
        if number:
            self.stopped_by = int(number)
            control.should_save = control.should_training_stop = True
        elif self.minutes and self.seconds >= 60 * self.minutes:
            control.should_log = control.should_evaluate = True
            control.should_save = control.should_training_stop = True
        if control.should_save:  # what a checkpoint says of tokens and times is what was recorded
            control.should_log = True

    def on_save(self, *_: Any, **__: Any) -> None:
        self._last_saved = time.monotonic()


def _agree(args: TrainingArguments, *values: float) -> tuple[float, ...]:
    """For each value, the largest value over all processes. All processes get the same result."""
    if args.world_size <= 1:
        return values
    import torch

    largest = torch.tensor(values, dtype=torch.float64, device=args.device)
    torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX)
    return tuple(largest.tolist())


def rate_factor(optimizer: OptimizerSettings, *, progress: float, since_began: int) -> float:
    """The factor of the learning rate, 0 to 1: a linear warm-up times the decay.

    Args:
        progress: share of the budget that has been used, 0 to 1.
        since_began: steps since the optimiser began without a state. These steps warm up.
    """
    warm = min(1.0, (since_began + 1) / (optimizer.warmup_steps + 1))
    left = {
        Decay.LINEAR: 1 - progress,
        Decay.COSINE: (1 + math.cos(math.pi * progress)) / 2,
        Decay.CONSTANT: 1.0,
    }[optimizer.decay]
    return warm * (optimizer.final_share + (1 - optimizer.final_share) * left)
