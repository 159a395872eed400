"""The output of a run while it trains: records.jsonl, TensorBoard, and a line of progress.

records.jsonl has a record "part" at the beginning of the run and at each resumption. Records
"step", "validation" and "checkpoint" follow in the order of the events. A part that was not killed
ends with a "summary". The file has each step once: when a run is resumed, records of steps that are
trained again are removed first.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations.integration_utils import TensorBoardCallback

from kernelwright.core import record
from kernelwright.core.record import Record
from kernelwright.train.folder import Resolved, Start
from kernelwright.train.pace import Pace
from kernelwright.train.process import this_process

RECORDS = "records.jsonl"
SFT_STEP, RL_STEP = "step", "rl_step"
LIBRARIES = ("kernelwright", "torch", "transformers", "trl", "accelerate", "datasets", "peft")
STEP = ("loss", "learning_rate", "grad_norm", "epoch", "tokens", "tokens_per_s", "seconds")
LEVEL_LOSS = "eval_loss_level_"


def part_of(
    recipe: Resolved, start: Start, *, command: str, lost: int, steps: int | None, data: Record
) -> Record:
    """The record at the beginning of a part of a run.

    Args:
        lost: the number of steps that the part trains again.
        steps: of the whole budget; None if a budget in minutes decides.
        data: facts about the data that the run learns from.
    """
    return {
        "record": "part",
        "command": command,
        "from_step": start.standing.step,
        "from": start.folder and start.folder.name,
        "optimizer_began": start.standing.optimizer_began,
        "steps_trained_again": lost,
        "steps": steps,
        "processes": this_process().num_processes,
        "recipe": recipe.to_json(),
        "data": data,
        "environment": record.environment(LIBRARIES),
    }


def cut_after(path: Path, step: int) -> int:
    """Remove the records of steps after `step`, because a resumed run trains these steps again.

    Returns:
        The number of removed steps; 0 if there is no file.
    """
    lines = record.resumed(path)
    kept = [line for line in lines if line["record"] == "part" or line["step"] <= step]
    if lines:
        record.rewrite(path, kept)
    steps = (line["step"] for line in lines if line["record"] in (SFT_STEP, RL_STEP))
    return max(steps, default=step) - step


def tensorboard(folder: Path, step: int) -> list[TrainerCallback]:
    """The callback that writes TensorBoard's curves; no callback if TensorBoard is missing, or in
    a process other than the main process.

    Points of steps after `step` are removed, because the run trains these steps again.
    """
    if find_spec("tensorboard") is None or not this_process().is_main_process:
        return []
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
    return [TensorBoardCallback(writer)]  # type: ignore[no-untyped-call]


class Recorder(TrainerCallback):
    """Writes the records of a supervised run, and reports its progress."""

    def __init__(self, path: Path, pace: Pace, say: Callable[[str], None]) -> None:
        self.path, self.pace, self.say = path, pace, say
        self._began = time.monotonic()
        self._progress_before = 0.0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        del args, control
        self._began = time.monotonic()
        self._progress_before = self.pace.progress(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Record | None = None,
        **_: Any,
    ) -> None:
        del args, control
        if not state.is_world_process_zero or logs is None:
            return
        step = {"step": state.global_step}
        if "loss" in logs:
            logged = {name: logs[name] for name in STEP if name in logs}
            record.append(self.path, [{"record": SFT_STEP, **step, **logged}])
            self.say(self._line(state.global_step, logs))
        elif "eval_loss" in logs:
            levels = {
                name.removeprefix(LEVEL_LOSS): loss
                for name, loss in logs.items()
                if name.startswith(LEVEL_LOSS)
            }
            line = {"loss": logs["eval_loss"], "by_level": levels, "tokens": logs["eval_tokens"]}
            line["seconds"] = logs["eval_seconds"]
            record.append(self.path, [{"record": "validation", **step, **line}])
            self.say(f"step {state.global_step}  validation loss {logs['eval_loss']:.4f}")
        elif "checkpoint_bytes" in logs:
            line = {"bytes": logs["checkpoint_bytes"], "seconds": logs["checkpoint_seconds"]}
            record.append(self.path, [{"record": "checkpoint", **step, **line}])

    def _line(self, step: int, logs: Record) -> str:
        progress = self.pace.progress(step)
        return (
            f"step {step}  {progress:.1%}  loss {logs['loss']:.4f}  "
            f"{logs['tokens_per_s'] / 1e3:,.1f}k tokens/s  {self._left(progress)} left"
        )

    def _left(self, progress: float) -> str:
        progress_made = progress - self._progress_before
        if progress_made <= 0:
            return "?"
        seconds = round((time.monotonic() - self._began) * (1 - progress) / progress_made)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
