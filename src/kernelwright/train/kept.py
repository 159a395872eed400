"""The functions that our two trainers share, in addition to transformers' own.

A checkpoint is complete or missing. Any reader of Hugging Face's layout can load the weights. The
learning rate follows the budget, which may be a number of minutes.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.policy.embedded import save_model
from kernelwright.train import checkpoints
from kernelwright.train.disk import disk_may_be_full
from kernelwright.train.folder import LAST, Standing, Start
from kernelwright.train.pace import Pace, rate_factor


class KeptTrainer:
    """A mixin for a `transformers.Trainer`. Among the base classes, it must precede the trainer."""

    recipe: Any
    """Has `optimizer` and `checkpoints`, as recipes of training do."""
    folder: Path
    """The folder of the run."""
    pace: Pace
    standing: Standing
    aside_s: float
    """Seconds of validation and checkpoints since the last record."""
    lr_scheduler: Any
    # of transformers.Trainer
    model: Any
    args: Any
    state: Any
    optimizer: Any
    accelerator: Any
    processing_class: Any
    is_fsdp_enabled: Any
    log: Any
    train: Any
    save_model: Any
    _load_from_checkpoint: Any
    _save_optimizer_and_scheduler: Any
    _save_scaler: Any
    _save_rng_state: Any

    def use_budget(self, start: Start) -> None:
        """Train until the budget is used, then write the weights to the folder `LAST`.

        Raises:
            UsageError: the disk is full, or the loss is not a number.
        """
        with disk_may_be_full(self.folder):
            if self.pace.progress(start.standing.step) < 1:
                with self.pace.listening():
                    folder = str(start.folder) if start.folder else None
                    self.train(resume_from_checkpoint=folder)
            elif start.folder:
                self.take_up(start.folder)
            self.export(LAST)

    def take_up(self, folder: Path) -> None:
        """Load the weights and the state of a checkpoint, if nothing is left to train."""
        self._load_from_checkpoint(str(folder))
        self.state = TrainerState.load_from_json(str(folder / TRAINER_STATE_NAME))

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """A schedule of the learning rate by the share of the budget that is used. A budget in
        minutes has no known number of steps."""
        del num_training_steps

        # `steps` counts from where the optimiser began, which is later than the run's beginning if
        # weights were taken up alone.
        def factor(steps: int) -> float:
            progress = self.pace.progress(self.standing.optimizer_began + steps)
            return rate_factor(self.recipe.optimizer, progress=progress, since_began=steps)

        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer or self.optimizer, factor
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    @property
    def saves_itself(self) -> bool:
        """Whether the library writes the weights in its own layout (adapters), instead of the whole
        weights."""
        return False

    def save_more(self, folder: Path) -> None:
        """Save the further parts of a checkpoint."""

    def export(self, name: str) -> None:
        """Write the weights alone, in bfloat16 and Hugging Face's layout. Older weights in the
        folder are replaced.

        All processes must call this method.

        Args:
            name: the folder to write. A relative name is a folder in the run's folder.
        """

        def fill(folder: Path) -> None:
            if self.saves_itself:
                self.save_model(str(folder), _internal_call=True)
            else:
                self._save_whole(folder)
            self._write_standing(folder)

        self._write_folder(self.folder / name, fill)

    def _save_whole(self, folder: Path) -> None:
        """Write the whole weights from the main process. Sharded weights are gathered from all."""
        whole = self.accelerator.get_state_dict(self.model) if self.is_fsdp_enabled else None
        if self.args.should_save:
            plain = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
            save_model(plain, self.processing_class, folder, whole)

    def _save_checkpoint(self, *_: Any) -> None:
        """Write a checkpoint through a temporary folder. This method replaces TRL's, which would
        also write a model card into the run's folder."""
        step = self.state.global_step
        began = time.monotonic()

        def fill(folder: Path) -> None:
            self.save_model(str(folder), _internal_call=True)
            self._save_optimizer_and_scheduler(str(folder))
            self._save_scaler(str(folder))
            self._save_rng_state(str(folder))
            self._write_standing(folder)
            self.save_more(folder)

        target = self.folder / "checkpoints" / checkpoints.name_of(step)
        size = self._write_folder(target, fill)
        if self.args.should_save:
            checkpoints.thin(target.parent, self.recipe.checkpoints.keep)
        seconds = time.monotonic() - began
        self.aside_s += seconds
        self.log({"checkpoint_bytes": size, "checkpoint_seconds": seconds})

    def summary(self, figures: Record) -> Record:
        """The record at the end of a run, with further figures of the command."""
        standing, on_gpu = self.standing, torch.cuda.is_available()
        return {
            "record": "summary",
            "step": standing.step,
            "tokens": standing.tokens,
            "seconds": standing.seconds,
            **figures,
            "best_step": standing.best_step,
            "stopped_by": self.pace.stopped_by,
            "gpu_peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        }

    def _write_folder(self, target: Path, fill: Any) -> int:
        return checkpoints.write_folder(
            target, fill, is_main=self.args.should_save, wait=self.accelerator.wait_for_everyone
        )

    def _write_standing(self, folder: Path) -> None:
        if self.args.should_save:
            self.standing.write(folder)
            self.state.save_to_json(str(folder / TRAINER_STATE_NAME))


def arguments(recipe: Any, folder: Path, steps: int) -> dict[str, Any]:
    """The `transformers.TrainingArguments` that all recipes of training share.

    Args:
        recipe: has seed, optimizer, validation and checkpoints.
    """
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder),
        "seed": recipe.seed,
        "max_steps": steps,
        "learning_rate": recipe.optimizer.learning_rate,
        "adam_beta1": recipe.optimizer.beta1,
        "adam_beta2": recipe.optimizer.beta2,
        "weight_decay": recipe.optimizer.weight_decay,
        "max_grad_norm": recipe.optimizer.clip,
        # The filter reads every loss, and so waits for the GPU at each step. `check_finite` looks
        # at the losses that are logged anyway.
        "logging_nan_inf_filter": False,
        "eval_strategy": "steps",
        "eval_steps": recipe.validation.every_steps,
        "save_strategy": "steps",
        "save_steps": recipe.checkpoints.every_steps,
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def on_one_gpu(config: Any) -> Any:
    """The configuration with one GPU for this process. If the process sees several GPUs,
    transformers would use all of them, and make batches larger."""
    config._n_gpu = min(config.n_gpu, 1)
    return config


def check_finite(logs: Mapping[str, float], step: int) -> None:
    """Raises UsageError: a loss or the gradient's norm is infinite or NaN."""
    for name in ("loss", "grad_norm", "eval_loss"):
        if not math.isfinite(logs.get(name, 0.0)):
            raise UsageError(
                f"{name} is not a number at step {step}",
                remedy="lower optimizer.learning_rate or optimizer.clip, and begin a new run",
            )
