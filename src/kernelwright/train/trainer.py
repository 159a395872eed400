"""TRL's trainer of supervised fine-tuning, as a run of ours needs it.

Pairs come tokenised and packed, checkpoints are whole or not there, validation is exact by level,
and the learning rate follows the budget. The training loop is transformers'.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from trl import SFTConfig, SFTTrainer

from kernelwright.core.errors import UsageError
from kernelwright.policy.embedded import save_model
from kernelwright.train import checkpoints
from kernelwright.train.folder import BEST, Standing
from kernelwright.train.pace import Pace, rate_factor
from kernelwright.train.recipe import LossHead, Recipe
from kernelwright.train.rows import IGNORED, Collator

if TYPE_CHECKING:
    from datasets import Dataset


class PairTrainer(SFTTrainer):  # type: ignore[misc]
    control: Any
    lr_scheduler: Any

    def __init__(
        self,
        *,
        recipe: Recipe,
        folder: Path,
        model: Any,
        tokenizer: Any,
        train: "Dataset",
        validation: "Mapping[int, Dataset]",
        collator: Collator,
        config: SFTConfig,
        pace: Pace,
        callbacks: list[TrainerCallback],
        peft_config: Any = None,
        standing: Standing,
    ) -> None:
        self.recipe, self.folder, self.pace, self.standing = recipe, folder, pace, standing
        self.validation = validation
        self._new_tokens = torch.zeros(1, dtype=torch.int64, device=config.device)
        """Of this process since the last record; counted where the batches are, without a sync."""
        self._aside_s = 0.0
        """Of validation and checkpoints since the last record."""
        super().__init__(
            model=model,
            args=config,
            train_dataset=train,
            eval_dataset=next(iter(validation.values())),
            data_collator=collator,
            processing_class=tokenizer,
            callbacks=[pace, *callbacks],
            peft_config=peft_config,
        )
        self.remove_callback(PrinterCallback)  # records and progress say it already
        self.model_accepts_loss_kwargs = True  # both heads divide by the tokens of the whole step

    def take_up(self, folder: Path) -> None:
        """The weights of a checkpoint, and how far it was, where there is nothing left to train."""
        self._load_from_checkpoint(str(folder))
        self.state = TrainerState.load_from_json(str(folder / TRAINER_STATE_NAME))

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Mean over the trained tokens of the optimiser's step. TRL's own also takes metrics, for
        which the GPU has to wait at every step."""
        if "num_tokens" in inputs:
            self._new_tokens += inputs.pop("num_tokens").sum()
        chunked = self.recipe.model.loss_head is LossHead.CHUNKED
        head = {"fused_lm_head": True} if chunked else {"use_cache": False}
        outputs = model(**inputs, **head, num_items_in_batch=num_items_in_batch)
        # Gradients are averaged over processes, and the items are those of all of them.
        loss = outputs.loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        del num_training_steps

        def factor(steps: int) -> float:
            progress = self.pace.progress(self.standing.optimizer_began + steps)
            return rate_factor(self.recipe.optimizer, progress=progress, since_began=steps)

        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer or self.optimizer,
                factor,
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Mean loss of a trained token, of all validation pairs and by level."""
        began = time.monotonic()
        self.model.eval()
        sums = {level: self._validate(rows) for level, rows in self.validation.items()}
        self.model.train()
        total, tokens = (sum(column) for column in zip(*sums.values(), strict=True))
        metrics = {f"eval_loss_level_{level}": loss / n for level, (loss, n) in sums.items()}
        metrics |= {"eval_loss": total / tokens, "eval_tokens": tokens}
        self.log(metrics | {"eval_seconds": time.monotonic() - began})
        self._keep_if_best(metrics["eval_loss"])
        self._aside_s += time.monotonic() - began
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    @torch.no_grad()
    def _validate(self, rows: "Dataset") -> tuple[float, float]:
        """Sum of losses, and number of trained tokens.

        Processes take turns at batches, and all make as many passes, since sharded weights are
        gathered in each: rows without trained tokens make up for what is missing. The model is
        not the compiled one: other shapes would be compiled for.
        """
        size, turns = self.args.per_device_eval_batch_size, self.accelerator.num_processes
        blank = rows[0] | {"trained": np.zeros_like(rows[0]["trained"])}
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        for turn in range(0, len(rows), size * turns):
            begin = turn + size * self.accelerator.process_index
            numbers = range(begin, begin + size)
            batch = [rows[number] if number < len(rows) else blank for number in numbers]
            inputs = self._prepare_inputs(self.data_collator(batch))
            inputs.pop("num_tokens")
            with self.compute_loss_context_manager():
                loss = self.compute_loss(self.model, inputs, num_items_in_batch=1)
            sums[0] += loss / turns
            sums[1] += (inputs["labels"][:, 1:] != IGNORED).sum()
        loss, tokens = self.accelerator.reduce(sums, reduction="sum").tolist()
        return loss, tokens

    def _keep_if_best(self, loss: float) -> None:
        if self.standing.best_loss is None or loss < self.standing.best_loss:
            self.standing.best_loss, self.standing.best_step = loss, self.state.global_step
            self.export(BEST)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add what a run's records say beyond transformers' own figures."""
        del start_time
        self.standing.step = self.state.global_step
        _check_finite(logs, self.state.global_step)
        if "loss" in logs:
            new = int(self.accelerator.reduce(self._new_tokens, reduction="sum").item())
            self._new_tokens.zero_()
            busy = self.pace.seconds - self.standing.seconds - self._aside_s
            logs["tokens_per_s"] = new / max(busy, 1e-9)
            self._aside_s = 0.0
            self.standing.tokens += new
            self.standing.seconds = self.pace.seconds
            logs["tokens"], logs["seconds"] = self.standing.tokens, self.pace.seconds
        super(SFTTrainer, self).log(logs)

    def export(self, name: str) -> None:
        """The weights alone, in bfloat16, as any reader of Hugging Face's layout loads them."""

        def fill(folder: Path) -> None:
            if self.is_fsdp_enabled or self.recipe.model.lora is not None:
                self.save_model(str(folder), _internal_call=True)
            elif self.args.should_save:
                plain = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
                save_model(plain, self.processing_class, folder)
            self._write_standing(folder)

        self._write_folder(self.folder / name, fill)

    def _save_checkpoint(self, *_: Any) -> None:
        """Through a folder aside; TRL's own also writes a model card into the run's folder."""
        step = self.state.global_step
        began = time.monotonic()

        def fill(folder: Path) -> None:
            self.save_model(str(folder), _internal_call=True)
            self._save_optimizer_and_scheduler(str(folder))
            self._save_scaler(str(folder))
            self._save_rng_state(str(folder))
            self._write_standing(folder)

        target = self.folder / "checkpoints" / checkpoints.name_of(step)
        size = self._write_folder(target, fill)
        if self.args.should_save:
            checkpoints.thin(target.parent, self.recipe.checkpoints.keep)
        seconds = time.monotonic() - began
        self._aside_s += seconds
        self.log({"checkpoint_bytes": size, "checkpoint_seconds": seconds})

    def _write_folder(self, target: Path, fill: Any) -> int:
        return checkpoints.write_folder(
            target,
            fill,
            is_main=self.args.should_save,
            wait=self.accelerator.wait_for_everyone,
        )

    def _write_standing(self, folder: Path) -> None:
        if self.args.should_save:
            self.standing.write(folder)
            self.state.save_to_json(str(folder / TRAINER_STATE_NAME))


def _check_finite(logs: Mapping[str, float], step: int) -> None:
    for name in ("loss", "grad_norm", "eval_loss"):
        if not math.isfinite(logs.get(name, 0.0)):
            raise UsageError(
                f"{name} is not a number at step {step}",
                remedy="lower optimizer.learning_rate or optimizer.clip, and begin a new run",
            )
