"""Learning from rows with TRL's trainer. A pass has a limited number of tokens, not of answers.

All losses except drpo are TRL's (`_compute_loss`). A term of drpo's loss needs all answers of a
group, and these may be in different passes. So the gradient of drpo's loss with respect to
log-probabilities is computed first, over the whole update (`objectives.drpo`). The passes then
carry this gradient back to the weights.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from kernelwright.policy.texts import Text, ids_and_mask
from kernelwright.train.kept import KeptTrainer
from kernelwright.train.objectives import drpo, reference_kl
from kernelwright.train.rl.passes import LearnedRow, blank, passes_of, spread, tensors
from kernelwright.train.rl.recipe import Loss, RlRecipe

IGNORED = -100
"""The label of tokens outside answers."""


class RowTrainer(KeptTrainer, GRPOTrainer):  # type: ignore[misc]
    """Turns rows into gradients. The class has no training loop: the caller of `learn` decides when
    to learn, and takes the last step of the optimiser."""

    recipe: RlRecipe

    def __init__(
        self,
        *,
        recipe: RlRecipe,
        model: Any,
        tokenizer: Any,
        config: GRPOConfig,
        callbacks: list[TrainerCallback],
    ) -> None:
        self.recipe = recipe
        self._seen: tuple[torch.Tensor, torch.Tensor] | None = None
        """Log-probabilities and entropies (B, T) of the last forward pass."""
        self.sums = torch.zeros(3, dtype=torch.float64, device=config.device)
        """Sums over the step: log old - log new, entropy, tokens.

        Answers without a gradient have no pass, so the sums leave them out."""
        # Programs are drawn where answers are: an epoch of TRL's loop is a step.
        steps = Dataset.from_dict({"prompt": [""] * config.world_size})
        super().__init__(
            model=model,
            reward_funcs=_never_asked,
            args=config,
            train_dataset=steps,
            eval_dataset=steps,
            processing_class=tokenizer,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)  # records and progress say it already

    def learn(self, model: Any, rows: Sequence[LearnedRow]) -> torch.Tensor:
        """Make all updates of a step. The caller takes the optimiser step of the last update.

        Args:
            rows: the rows of all processes. All processes get the same rows.

        Returns:
            The mean loss of the updates, a scalar. Gradients of the last update are in the model.
        """
        updates = self.recipe.objective.updates
        rows = self._with_reference(rows)
        losses = []
        # Whole groups go to an update: drpo compares the answers of a group within one loss.
        for number in range(updates):
            if number:
                self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
                self.optimizer.step()
                model.zero_grad()
            losses.append(self._update(model, [r for r in rows if r.group % updates == number]))
        # The caller gives the GPU free for timing next: no kernel may still be in the queue.
        if self.args.device.type == "cuda":
            torch.cuda.synchronize(self.args.device)
        return torch.stack(losses).mean()

    def _with_reference(self, rows: Sequence[LearnedRow]) -> Sequence[LearnedRow]:
        """Add log-probabilities of the model that the run began with, if the loss has a KL term."""
        if not self.recipe.objective.kl:
            return rows
        reference = self.logps([row.text for row in rows], self.ref_model)
        return [
            replace(row, reference_logps=logps) for row, logps in zip(rows, reference, strict=True)
        ]

    def _update(self, model: Any, rows: Sequence[LearnedRow]) -> torch.Tensor:
        """Add the gradients of an update to those of the model; return the loss of the update."""
        if self._is(Loss.DRPO):
            loss, gradients = self._whole_gradient(model, rows)
            # Groups of one kind have no gradient: their passes would cost time and change nothing.
            taught = [number for number, gradient in enumerate(gradients) if gradient.any()]
            per_row = self._pass_all(
                model, [rows[n] for n in taught], [gradients[n] for n in taught], 1.0
            )
            return torch.full_like(per_row, loss)
        # An answer without advantage counts in the mean. It has a gradient by its KL term alone.
        has_kl = self.recipe.objective.kl > 0
        teaching = [row for row in rows if row.credit.teaches or has_kl]
        return self._pass_all(model, teaching, None, 1 / max(len(rows), 1))

    def _pass_all(
        self,
        model: Any,
        rows: Sequence[LearnedRow],
        gradients: Sequence[np.ndarray] | None,
        row_weight: float,
    ) -> torch.Tensor:
        """Run the rows forward and backward, in passes of at most `micro_tokens`.

        Args:
            gradients: for each row, the gradient of the loss with respect to log-probabilities,
                (tokens of the answer,). None: the loss is TRL's.
            row_weight: factor of a row in the loss of the update; for TRL's loss only.

        Returns:
            The sum of the losses of this process's passes, a scalar.
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
            # TRL's loss is a mean over the pass's rows, and passes differ in their number of rows.
            weight = row_weight * len(numbers)
            if gradients is not None:
                weight = 1.0
                mask = inputs["completion_mask"].cpu().numpy().astype(bool)
                spread_out = spread([gradients[n] for n in numbers if n >= 0], mask)
                inputs["gradients"] = torch.from_numpy(spread_out).to(self.args.device)
            # Gradients add up here and are exchanged between processes once, in the last pass.
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

    def _whole_gradient(
        self, model: Any, rows: Sequence[LearnedRow]
    ) -> tuple[float, list[np.ndarray]]:
        """drpo's loss over an update, and its gradient with respect to log-probabilities.

        Returns:
            The loss, and for each row a float32 array (its answer's tokens,).
        """
        if not rows:
            return 0.0, []
        objective = self.recipe.objective
        now = self.logps([row.text for row in rows], model)
        lengths = np.array([len(row) for row in now])
        mask = np.arange(lengths.max()) < lengths[:, None]
        # Without old log-probabilities the policy that learns wrote the answers: the KL is 0.
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
            contrasts_right=objective.contrasts_right,
        )
        reference = [row.reference_logps for row in rows if row.reference_logps is not None]
        if reference:
            counted = torch.from_numpy(mask.astype(np.float32))
            drift = reference_kl(logps, torch.from_numpy(spread(reference, mask)), counted)
            loss = loss + objective.kl * drift
        loss.backward()  # type: ignore[no-untyped-call]
        assert logps.grad is not None
        gradient = logps.grad.numpy()
        return loss.item(), [gradient[number][mask[number]] for number in range(len(rows))]

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """TRL's loss, or for drpo a sum whose gradient is that of `_whole_gradient`."""
        if "gradients" not in inputs:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            return loss
        ids, mask = inputs["completion_ids"], inputs["completion_mask"]
        logps, _, _ = self._get_per_token_logps_and_entropies(model, ids, mask, ids.shape[1])
        # The chain rule: the given factors are constants here, so backward carries them to weights.
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
        """Log-probabilities of each token (B, T), given the tokens before; 0 for tokens outside
        answers.

        Args:
            attention_mask: 1 on answers alone. The model gets no mask: padding is at the end of
                rows, and a causal model does not attend to later tokens.
            logits_to_keep: T, because `input_ids` has the requests too.
        """
        del logits_to_keep
        labels = input_ids.masked_fill(attention_mask == 0, IGNORED)
        with self.accelerator.autocast():
            outputs = model(input_ids=input_ids, labels=labels, fused_lm_head=True)
        # The first token of a row follows nothing, so the model has no log-probability for it.
        first = outputs.log_probs.new_zeros((len(input_ids), 1))
        logps = torch.cat([first, outputs.log_probs], dim=1)
        entropy = (
            outputs.log_probs if outputs.entropy is None else outputs.entropy
        )  # of a reference
        entropies = torch.cat([first, entropy], dim=1)
        self._seen = logps.detach(), entropies.detach()
        return logps, entropies, None

    def _count(self, inputs: dict[str, torch.Tensor]) -> None:
        """Add the last pass to the sums of the step."""
        assert self._seen is not None, "a pass was made"
        logps, entropies = self._seen
        mask = inputs["completion_mask"]
        old = inputs.get("old_per_token_logps", logps)
        self.sums += torch.stack(
            [((old - logps) * mask).sum(), (entropies * mask).sum(), mask.sum()]
        )

    @torch.no_grad()
    def logps(self, texts: Sequence[Text], model: Any) -> list[np.ndarray]:
        """Log-probabilities of each text's answer, (its tokens,) float32, in the order of `texts`.

        Processes share the passes, and each gets all results.
        """
        by_number: dict[int, np.ndarray] = {}
        for numbers in self._passes([len(text) for text in texts]):
            # `~number` fills up a pass (`passes_of`): the row is computed and its result dropped.
            few = [texts[max(number, ~number)] for number in numbers]
            ids, mask = ids_and_mask(few, pad_id=self._tokenizer.pad_token_id)
            read, counted = (torch.from_numpy(rows).to(self.args.device) for rows in (ids, mask))
            width = ids.shape[1]
            logps = self._get_per_token_logps_and_entropies(model, read, counted, width)[0]
            values = logps.float().cpu().numpy()
            by_number |= {n: values[row][mask[row]] for row, n in enumerate(numbers) if n >= 0}
        if self.accelerator.num_processes > 1:
            by_number = {
                name: part_logps
                for part in gather_object([by_number])
                for name, part_logps in part.items()
            }
        return [by_number[number] for number in range(len(texts))]

    def _is(self, loss: Loss) -> bool:
        return self.recipe.objective.loss is loss


def _never_asked(**_: Any) -> list[float]:
    """The reward function that TRL's trainer requires. It is never called, because rewards come
    with the batch.

    Raises:
        AssertionError: always; TRL's own loop is not used.
    """
    raise AssertionError("TRL's own loop scores nothing here")
