"""TRL's trainer of supervised fine-tuning, with the changes that our runs need.

The trainer gets pairs that are tokenised and packed. A checkpoint is complete or missing. The
validation loss is exact for each level. The learning rate follows the budget. The training loop is
transformers' own.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from kernelwright.core.progress import Say
from kernelwright.train.folder import BEST, Start
from kernelwright.train.kept import KeptTrainer, arguments, check_finite, on_one_gpu
from kernelwright.train.model import lora_config
from kernelwright.train.pace import Pace
from kernelwright.train.prepare import PreparedData
from kernelwright.train.process import this_process
from kernelwright.train.recipe import LossHead, SupervisedRecipe
from kernelwright.train.records import RECORDS, Recorder, tensorboard
from kernelwright.train.rows import IGNORED, Collator

if TYPE_CHECKING:
    from datasets import Dataset


class PairTrainer(KeptTrainer, SFTTrainer):  # type: ignore[misc]
    """Trains on packed rows, and measures the validation loss of each level separately."""

    control: Any
    recipe: SupervisedRecipe

    def __init__(
        self,
        recipe: SupervisedRecipe,
        folder: Path,
        prepared: PreparedData,
        start: Start,
        steps: int,
        say: Say,
    ) -> None:
        """
        Args:
            start: the state that the run goes on from.
            steps: optimiser steps of the whole budget; `ENDLESS_STEPS` for a budget in minutes.
        """
        self.pace = Pace(recipe.budget, recipe.checkpoints, steps)
        self.pace.seconds = start.standing.seconds
        self.recipe, self.folder, self.standing = recipe, folder, start.standing
        self.aside_s = 0.0
        self.validation = prepared.validation
        config, lora = _config(recipe, folder, steps), recipe.model.lora
        self._new_tokens = torch.zeros(1, dtype=torch.int64, device=config.device)
        """Tokens of this process since the last record, counted on the device of the batches,
        without a sync."""
        recorder = Recorder(folder / RECORDS, self.pace, say)
        super().__init__(
            model=prepared.model,
            args=config,
            train_dataset=prepared.train,
            eval_dataset=next(iter(prepared.validation.values())),
            data_collator=Collator(
                pad_id=_pad_id(prepared),
                max_tokens=recipe.data.max_tokens,
                packing=recipe.data.packing,
                attention=recipe.model.attention,
            ),
            processing_class=prepared.tokenizer,
            callbacks=[self.pace, recorder, *tensorboard(folder, start.standing.step)],
            peft_config=lora_config(lora) if lora else None,
        )
        self.remove_callback(PrinterCallback)  # records and progress say it already
        self.model_accepts_loss_kwargs = True  # both heads divide by the tokens of the whole step

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The share of this pass in the mean loss over the trained tokens of the optimiser step.

        TRL's own `compute_loss` also computes metrics, which make the host wait for the GPU at each
        step.

        Args:
            num_items_in_batch: trained tokens of the whole step, over passes and processes.
        """
        if "num_tokens" in inputs:
            self._new_tokens += inputs.pop("num_tokens").sum()
        chunked = self.recipe.model.loss_head is LossHead.CHUNKED
        head = {"fused_lm_head": True} if chunked else {"use_cache": False}
        outputs = model(**inputs, **head, num_items_in_batch=num_items_in_batch)
        # Gradients are averaged over processes, and the items are those of all of them.
        loss = outputs.loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss

    @property
    def saves_itself(self) -> bool:
        """Whether the model has adapters, which PEFT saves in its own layout."""
        return self.recipe.model.lora is not None

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The mean loss over the trained tokens of all validation pairs, and of each level. The
        weights are written if they are the best so far."""
        began = time.monotonic()
        self.model.eval()
        sums = {level: self._validate(rows) for level, rows in self.validation.items()}
        self.model.train()
        total, tokens = (sum(column) for column in zip(*sums.values(), strict=True))
        metrics = {f"eval_loss_level_{level}": loss / n for level, (loss, n) in sums.items()}
        metrics |= {"eval_loss": total / tokens, "eval_tokens": tokens}
        self.log(metrics | {"eval_seconds": time.monotonic() - began})
        self._keep_if_best(metrics["eval_loss"])
        self.aside_s += time.monotonic() - began
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    @torch.no_grad()
    def _validate(self, rows: "Dataset") -> tuple[float, float]:
        """The sum of losses over the rows of one level, and their number of trained tokens.

        Processes take batches in turn. All processes make the same number of passes, because each
        pass gathers sharded weights. Rows without trained tokens fill up the last passes. The model
        is not compiled here, because validation has other shapes.
        """
        size, turns = self.args.per_device_eval_batch_size, self.accelerator.num_processes
        blank = rows[0] | {"trained": np.zeros_like(rows[0]["trained"])}
        # Sums of tokens, not means of batches: rows of one batch have different numbers of them.
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
        """Add tokens, seconds and tokens per second to transformers' own figures.

        Raises:
            UsageError: a loss or the gradient's norm is not a number.
        """
        del start_time
        self.standing.step = self.state.global_step
        check_finite(logs, self.state.global_step)
        if "loss" in logs:
            new = int(self.accelerator.reduce(self._new_tokens, reduction="sum").item())
            self._new_tokens.zero_()
            # Validation and checkpoints lie in this time too, and would lower the rate.
            busy = self.pace.seconds - self.standing.seconds - self.aside_s
            logs["tokens_per_s"] = new / max(busy, 1e-9)
            self.aside_s = 0.0
            self.standing.tokens += new
            self.standing.seconds = self.pace.seconds
            logs["tokens"], logs["seconds"] = self.standing.tokens, self.pace.seconds
        super(SFTTrainer, self).log(logs)


def _pad_id(prepared: PreparedData) -> int:
    """The token for padding. Any token is suitable: the loss leaves padding out, and no trained
    token attends to padding."""
    pad = prepared.tokenizer.pad_token_id
    return int(prepared.tokenizer.eos_token_id if pad is None else pad)


def _config(recipe: SupervisedRecipe, folder: Path, steps: int) -> SFTConfig:
    on_gpu = torch.cuda.is_available()
    # DDP would cut the compiled graph to overlap the exchange of gradients with the backward pass.
    # The cuts cost more time than the overlap saves.
    torch._dynamo.config.optimize_ddp = False
    rows, passes = recipe.rows(this_process().num_processes)
    config = SFTConfig(
        **arguments(recipe, folder, steps),
        per_device_train_batch_size=rows,
        per_device_eval_batch_size=rows,
        gradient_accumulation_steps=passes,
        logging_steps=recipe.log_every_steps,
        gradient_checkpointing=recipe.model.gradient_checkpointing,
        torch_compile=recipe.model.compile,
        dataloader_drop_last=recipe.model.compile,  # a smaller batch would be compiled for again
        dataloader_num_workers=4 if on_gpu else 0,
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
    )
    return on_one_gpu(config)
