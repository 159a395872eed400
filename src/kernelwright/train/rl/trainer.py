"""TRL's trainer of group-relative objectives, with rollouts, credit and passes of ours.

TRL's own loop generates and scores inside `_prepare_inputs` and cuts a step into passes of equal
numbers of answers. Here a step is one call of `training_step`: it takes a batch that is written and
judged, credits it, and learns from it in passes of equal numbers of tokens. The losses are TRL's
(`_compute_loss`) but for drpo, whose gradient with respect to log-probabilities is taken over the
whole update first (`objectives.drpo`), so that cutting it into passes changes nothing.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.train.folder import BEST, Standing
from kernelwright.train.kept import KeptTrainer, check_finite
from kernelwright.train.objectives import drpo
from kernelwright.train.pace import Pace
from kernelwright.train.rl.figures import flat
from kernelwright.train.rl.passes import (
    Row,
    Text,
    blank,
    ids_and_mask,
    passes_of,
    spread,
    tensors,
)
from kernelwright.train.rl.practice import Batch
from kernelwright.train.rl.recipe import LOCAL, Loss, Recipe
from kernelwright.train.rl.rollout import Rollout
from kernelwright.train.rl.rounds import Rounds
from kernelwright.verify.guests import sharing

IGNORED = -100
"""Label of a token that is no answer's."""

Made = TypeVar("Made")


class RolloutTrainer(KeptTrainer, GRPOTrainer):  # type: ignore[misc]
    control: Any
    recipe: Recipe

    def __init__(
        self,
        *,
        recipe: Recipe,
        folder: Path,
        model: Any,
        tokenizer: Any,
        config: GRPOConfig,
        pace: Pace,
        callbacks: list[TrainerCallback],
        standing: Standing,
        rounds: Rounds | None,
        begun: Sequence[Batch],
    ) -> None:
        """
        Args:
            rounds: of the process that speaks for all; None in the others.
            begun: batches that were written before a run was interrupted; of that process.

        Raises:
            UsageError: weights are sharded, and no server answers.
        """
        self.recipe, self.folder, self.pace, self.standing = recipe, folder, pace, standing
        self.aside_s = 0.0
        self.rounds = rounds
        self._begun: deque[Batch | None] = deque(begun)
        """Batches that are written and not learnt from, as many in each process."""
        self._fresh_at: int | None = None
        """The step whose weights answers are written with."""
        self._began_s = 0.0
        self._seconds: dict[str, float] = {}
        """Of the step at hand, by what they were spent on."""
        self._line: Record = {}
        """What the record of the step at hand says so far."""
        self._seen: tuple[torch.Tensor, torch.Tensor] | None = None
        """Log-probabilities and entropies (B, T) of the last forward pass."""
        self._sums = torch.zeros(3, dtype=torch.float64, device=config.device)
        """Of the step: log old - log new, entropy, tokens."""
        # Programs are drawn where answers are: an epoch of TRL's loop is a step.
        steps = Dataset.from_dict({"prompt": [""] * config.world_size})
        super().__init__(
            model=model,
            reward_funcs=_never_asked,
            args=config,
            train_dataset=steps,
            eval_dataset=steps,
            processing_class=tokenizer,
            callbacks=[pace, *callbacks],
        )
        self.remove_callback(PrinterCallback)  # records and progress say it already
        if self.is_fsdp_enabled and recipe.rollouts.policy == LOCAL:
            raise UsageError(
                "weights that are sharded are whole in no process, which is to answer with them",
                remedy="serve the model: rollouts.policy and rollouts.served",
            )
        self._begun.extend([None] * (self._shared(len(begun)) - len(begun)))

    # -- a step

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Written, judged, credited and learnt from; the last update is left to the caller."""
        del inputs, num_items_in_batch
        self._began_s = time.monotonic()
        model.train()
        self._seconds = dict.fromkeys(("decode", "judge", "judge_wait", "learn"), 0.0)
        batch = self._next(model)
        lesson = self._shared(self._on_main(lambda rounds: rounds.lesson(_there(batch))))
        if batch is not None:
            self._seconds |= {"judge": batch.judge_s, "judge_wait": batch.wait_s}
        began = time.monotonic()
        with self._computing():
            loss = self._learn(model, lesson.rows)
        self._seconds["learn"] += time.monotonic() - began
        self._line = lesson.record
        self.standing.tokens += lesson.written_tokens
        return loss

    def _next(self, model: Any) -> Batch | None:
        """The batch to learn from; those after it are begun as the recipe says."""
        step = self.state.global_step + 1
        last = min(step + self.recipe.rollouts.ahead, self.state.max_steps)
        while (number := step + len(self._begun)) <= last:
            self._refresh()
            batch = self._on_main(lambda rounds: rounds.practice.begin(number))
            if batch is not None:
                self._seconds["decode"] += batch.decode_s
            self._add_old_logps(model, batch, None if batch is None else batch.rollouts)
            self._begun.append(batch)
        batch = self._begun.popleft()
        if self.recipe.rollouts.turns > 1:
            self._refresh()
            before = 0.0 if batch is None else batch.decode_s
            more = self._on_main(lambda rounds: rounds.practice.further_turn(_there(batch)))
            if batch is not None:
                self._seconds["decode"] += batch.decode_s - before
            self._add_old_logps(model, batch, more)
        return batch

    def _refresh(self) -> None:
        """Answers are written with the weights of now."""
        if self._fresh_at == self.state.global_step:
            return
        self._fresh_at = self.state.global_step
        if self.recipe.rollouts.served:
            self.export(str(Path(self.recipe.rollouts.served).resolve()))
        self._on_main(
            lambda rounds: rounds.writer.refresh(self.accelerator.unwrap_model(self.model))
        )

    # -- learning

    def _learn(self, model: Any, rows: Sequence[Row]) -> torch.Tensor:
        """The mean loss of the updates; the last one's gradients are left to the caller."""
        updates = self.recipe.objective.updates
        losses = []
        for number in range(updates):
            if number:
                self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
                self.optimizer.step()
                model.zero_grad()
            losses.append(self._update(model, [r for r in rows if r.group % updates == number]))
        if self.args.device.type == "cuda":
            torch.cuda.synchronize(self.args.device)
        return torch.stack(losses).mean()

    def _update(self, model: Any, rows: Sequence[Row]) -> torch.Tensor:
        """Gradients of one update, from passes of equal numbers of tokens; its loss."""
        if self._is(Loss.DRPO):
            loss, gradients = self._whole_gradient(model, rows)
            taught = [number for number, gradient in enumerate(gradients) if gradient.any()]
            found = self._pass_all(
                model, [rows[n] for n in taught], [gradients[n] for n in taught], 1.0
            )
            return torch.full_like(found, loss)
        # What has no advantage has no gradient, and counts all the same.
        teaching = [row for row in rows if row.credit.teaches]
        return self._pass_all(model, teaching, None, 1 / max(len(rows), 1))

    def _pass_all(
        self,
        model: Any,
        rows: Sequence[Row],
        gradients: Sequence[np.ndarray] | None,
        row_weight: float,
    ) -> torch.Tensor:
        """Sum of the losses of all passes.

        Args:
            gradients: with respect to log-probabilities of each row's tokens; None: of TRL's loss.
            row_weight: of a row's loss, where losses are means over a pass's rows.
        """
        total = torch.zeros((), device=self.args.device)
        passes = self._passes([len(row.text) for row in rows])
        for turn, numbers in enumerate(passes):
            inputs = tensors(
                [rows[number] if number >= 0 else blank(rows[~number]) for number in numbers],
                alpha=self.recipe.objective.alpha if self._is(Loss.HRD) else 1.0,
                pad_id=self._tokenizer.pad_token_id,
                device=self.args.device,
            )
            weight = row_weight * len(numbers)
            if gradients is not None:
                weight = 1.0
                mask = inputs["completion_mask"].cpu().numpy().astype(bool)
                spread_out = spread([gradients[n] for n in numbers if n >= 0], mask)
                inputs["gradients"] = torch.from_numpy(spread_out).to(self.args.device)
            is_last = turn == len(passes) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(model):
                with self.compute_loss_context_manager():
                    # Gradients are averaged over processes, which have rows of their own.
                    weight *= self.accelerator.num_processes
                    loss = self.compute_loss(model, inputs) * weight
                self.accelerator.backward(loss)
            total += loss.detach()
            self._count(inputs)
        return total

    def _passes(self, lengths: Sequence[int]) -> list[list[int]]:
        return passes_of(
            lengths,
            self.recipe.micro_tokens,
            process=self.accelerator.process_index,
            processes=self.accelerator.num_processes,
        )

    def _whole_gradient(self, model: Any, rows: Sequence[Row]) -> tuple[float, list[np.ndarray]]:
        """drpo's loss over an update, and its gradient with respect to the log-probability of each
        token of each row."""
        if not rows:
            return 0.0, []
        objective = self.recipe.objective
        now = self._logps([row.text for row in rows], model)
        lengths = np.array([len(each) for each in now])
        mask = np.arange(lengths.max()) < lengths[:, None]
        old = [
            new if row.old_logps is None else row.old_logps
            for row, new in zip(rows, now, strict=True)
        ]
        logps = torch.from_numpy(spread(now, mask)).requires_grad_()
        loss = drpo(
            logps,
            torch.from_numpy(spread(old, mask)),
            torch.from_numpy(mask.astype(np.float32)),
            groups=torch.tensor([row.group for row in rows]),
            is_correct=torch.tensor([row.credit.is_correct for row in rows]),
            weights=torch.tensor([row.credit.weight for row in rows]),
            tau=objective.tau,
            beta=objective.beta,
            delta=objective.delta,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        assert logps.grad is not None
        gradient = logps.grad.numpy()
        return loss.item(), [gradient[number][mask[number]] for number in range(len(rows))]

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """TRL's, or the one that has a gradient that is given."""
        if "gradients" not in inputs:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            return loss
        ids, mask = inputs["completion_ids"], inputs["completion_mask"]
        logps, _, _ = self._get_per_token_logps_and_entropies(model, ids, mask, ids.shape[1])
        return (logps * inputs["gradients"]).sum()

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Of each token (B, T), given those before it; 0 where it is no answer's.

        Args:
            attention_mask: 1 on answers alone: rows are padded behind, where a causal model does
                not look, and so it is given no mask.
            logits_to_keep: T; requests are in `input_ids` too.
        """
        del logits_to_keep
        labels = input_ids.masked_fill(attention_mask == 0, IGNORED)
        with self.accelerator.autocast():
            found = model(input_ids=input_ids, labels=labels, fused_lm_head=True)
        first = found.log_probs.new_zeros((len(input_ids), 1))
        logps = torch.cat([first, found.log_probs], dim=1)
        entropies = torch.cat([first, found.entropy], dim=1)
        self._seen = logps.detach(), entropies.detach()
        return logps, entropies, None

    def _count(self, inputs: dict[str, torch.Tensor]) -> None:
        """Add the last pass to the sums of the step."""
        assert self._seen is not None, "a pass was made"
        logps, entropies = self._seen
        mask = inputs["completion_mask"]
        old = inputs.get("old_per_token_logps", logps)
        self._sums += torch.stack(
            [((old - logps) * mask).sum(), (entropies * mask).sum(), mask.sum()]
        )

    # -- log-probabilities of those who answered

    def _add_old_logps(
        self, model: Any, batch: Batch | None, more: Sequence[Rollout] | None
    ) -> None:
        """Of answers that were just written, where learning will change the weights before it
        comes to them; those that write and those that learn are the same now."""
        if self.recipe.rollouts.ahead == 0 and self.recipe.objective.updates == 1:
            return
        texts = None if more is None else [Text(each.prompt, each.tokens) for each in more]
        began = time.monotonic()
        with self._computing():
            logps = self._logps(self._shared(texts), model)
        self._seconds["learn"] += time.monotonic() - began
        if batch is not None:
            batch.old_logps += logps

    @torch.no_grad()
    def _logps(self, texts: Sequence[Text], model: Any) -> list[np.ndarray]:
        """Of each text's answer: (its tokens,) float32; in every process."""
        found: dict[int, np.ndarray] = {}
        for numbers in self._passes([len(text) for text in texts]):
            few = [texts[max(number, ~number)] for number in numbers]
            ids, mask = ids_and_mask(few, pad_id=self._tokenizer.pad_token_id)
            read, counted = (torch.from_numpy(each).to(self.args.device) for each in (ids, mask))
            width = ids.shape[1]
            logps = self._get_per_token_logps_and_entropies(model, read, counted, width)[0]
            values = logps.float().cpu().numpy()
            found |= {n: values[row][mask[row]] for row, n in enumerate(numbers) if n >= 0}
        if self.accelerator.num_processes > 1:
            found = {name: each for part in gather_object([found]) for name, each in part.items()}
        return [found[number] for number in range(len(texts))]

    # -- validation, records, checkpoints

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Held-out programs, answered greedily."""
        began, step = time.monotonic(), self.state.global_step
        self._refresh()
        found = self._shared(self._on_main(lambda rounds: rounds.validate(step)))
        best = self.standing.best_score
        if best is None or found.score > best:
            self.standing.best_score, self.standing.best_step = found.score, step
            self.export(BEST)
        metrics = {"eval_score": found.score, **flat({"eval": found.by_level})}
        self.log(metrics)
        self.aside_s += time.monotonic() - began
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add what a run's records say beyond transformers' own figures."""
        del start_time
        step = self.standing.step = self.state.global_step
        check_finite(logs, step)
        if "loss" in logs:
            line = self._step_line(logs)
            words = self._words(line)
            self._on_main(lambda rounds: rounds.step_done(line, words))
            logs |= flat(line)
        elif "checkpoint_bytes" in logs:
            self._on_main(lambda rounds: rounds.note_checkpoint(step, logs))
        super().log(logs)
        self.state.log_history.clear()  # records have it, and every checkpoint would repeat it

    def _step_line(self, logs: dict[str, float]) -> Record:
        kl, entropy, tokens = self.accelerator.reduce(self._sums, reduction="sum").tolist()
        self._sums.zero_()
        self.standing.seconds = self.pace.seconds
        spent = time.monotonic() - self._began_s
        busy = sum(self._seconds[name] for name in ("decode", "judge_wait", "learn"))
        return {
            "step": self.state.global_step,
            **self._line,
            "loss": logs["loss"],
            "kl": kl / max(tokens, 1.0),
            "entropy": entropy / tokens if tokens else None,
            "grad_norm": logs["grad_norm"],
            "learning_rate": logs["learning_rate"],
            "seconds": {**self._seconds, "other": spent - busy, "step": spent},
        }

    def _words(self, line: Record) -> str:
        step, reward = line["step"], line["reward"]["mean"] or 0.0
        return (
            f"step {step}  {self.pace.progress(step):.1%}  reward {reward:.3f}  "
            f"right {line['correct'] or 0.0:.1%}  {line['seconds']['step']:.1f} s"
        )

    def _write_standing(self, folder: Path) -> None:
        super()._write_standing(folder)
        self._on_main(lambda rounds: rounds.save(folder))

    def save_more(self, folder: Path) -> None:
        begun = [batch for batch in self._begun if batch is not None]
        self._on_main(lambda rounds: rounds.save_pending(begun, folder))

    # -- processes and devices

    def _is(self, loss: Loss) -> bool:
        return self.recipe.objective.loss is loss

    def _on_main(self, made: Callable[[Rounds], Made]) -> Made | None:
        """What the process that speaks for all makes; None in the others."""
        return None if self.rounds is None else made(self.rounds)

    def _shared(self, value: Made | None) -> Made:
        """What the main process has, in all of them."""
        if self.accelerator.num_processes > 1:
            (value,) = broadcast_object_list([value])
        assert value is not None
        return value

    def _computing(self) -> AbstractContextManager[None]:
        """Around what is computed on the GPU: nobody takes times there meanwhile."""
        rounds = self.rounds
        return sharing(self.args.device) if rounds is None else rounds.practice.asker.computing()


def _never_asked(**_: Any) -> list[float]:
    """TRL's trainer insists on a reward function; ours come with the batch."""
    raise AssertionError("TRL's own loop scores nothing here")


def _there(batch: Batch | None) -> Batch:
    assert batch is not None, "the process that speaks for all has the batches"
    return batch
