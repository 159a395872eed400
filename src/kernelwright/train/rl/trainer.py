"""The trainer of a run: takes a batch from the rounds at each step, learns from it, records it.

TRL's own loop generates and scores inside `_prepare_inputs`. Here a step is one call of
`training_step`: it takes a batch that is written and judged, credits it, and learns from it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from accelerate.utils import broadcast_object_list
from trl import GRPOConfig

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.policy.texts import Text
from kernelwright.train.folder import BEST, Start
from kernelwright.train.kept import arguments, check_finite, on_one_gpu
from kernelwright.train.pace import ENDLESS_STEPS, Pace
from kernelwright.train.records import tensorboard
from kernelwright.train.rl.figures import flat
from kernelwright.train.rl.learning import RowTrainer
from kernelwright.train.rl.practice import Batch
from kernelwright.train.rl.recipe import Loss, RlRecipe
from kernelwright.train.rl.rollout import Rollout
from kernelwright.train.rl.rounds import Rounds
from kernelwright.verify.guests import computing

TRL_LOSS = {
    Loss.GRPO: "grpo",
    Loss.DR_GRPO: "dr_grpo",
    Loss.LEAVE_ONE_OUT: "dr_grpo",
    Loss.HRD: "grpo",
    Loss.DRPO: "grpo",
}
"""Our loss -> the name of TRL's loss with the same average over tokens. drpo has its own loss."""

Made = TypeVar("Made")


class RolloutTrainer(RowTrainer):
    """Runs in every process. The main process alone has the rounds, and sends the others the rows
    to learn from."""

    control: Any

    def __init__(
        self,
        recipe: RlRecipe,
        folder: Path,
        model: Any,
        tokenizer: Any,
        start: Start,
        rounds: Rounds | None,
    ) -> None:
        """
        Args:
            start: the state that the run goes on from. A new run is validated before its first
                step.
            rounds: of the process that speaks for all; None in the others.

        Raises:
            UsageError: weights are sharded, and no server answers.
        """
        self.pace = Pace(recipe.budget, recipe.checkpoints, _steps(recipe, rounds))
        self.pace.seconds = start.standing.seconds
        self.folder, self.standing, self.rounds = folder, start.standing, rounds
        self.aside_s = 0.0
        begun = _begun(start, rounds)
        self._begun: deque[Batch | None] = deque(begun)
        """Batches that are written but not learnt from yet. Every process has the same number of
        them."""
        self._fresh_at: int | None = None
        """The step whose weights answers are written with."""
        self._began_s = 0.0
        self._seconds: dict[str, float] = {}
        """Seconds of this step, by the part of the step."""
        self._line: Record = {}
        """The record of the present step so far."""
        super().__init__(
            recipe=recipe,
            model=model.train(),
            tokenizer=tokenizer,
            config=_config(recipe, folder, self.pace.steps, is_new=start.folder is None),
            callbacks=[self.pace, *tensorboard(folder, start.standing.step)],
        )
        if self.is_fsdp_enabled and not recipe.rollouts.served:
            raise UsageError(
                "weights that are sharded are whole in no process, which is to answer with them",
                remedy="serve the model: rollouts.policy and rollouts.served",
            )
        # All processes have as many batches in line: they take part in the same collective calls.
        self._begun.extend([None] * (self._shared(len(begun)) - len(begun)))

    # -- a step

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Learn from the batch of this step. The last update's optimiser step is the caller's.

        Args:
            inputs: nothing; batches come from the rounds.

        Returns:
            The mean loss of the step's updates, a scalar.
        """
        del inputs, num_items_in_batch
        self._began_s = time.monotonic()
        model.train()
        self._seconds = dict.fromkeys(("decode", "judge", "judge_wait", "learn", "lock_wait"), 0.0)
        waited_s = self._lock_wait_s()
        batch = self._next(model)
        lesson = self._shared(self._on_main(lambda rounds: rounds.lesson(_there(batch))))
        if batch is not None:
            self._seconds |= {"judge": batch.judge_s, "judge_wait": batch.wait_s}
        with self._computing():
            loss = self.learn(model, lesson.rows)
        self._seconds["lock_wait"] = self._lock_wait_s() - waited_s
        self._line = lesson.record
        self.standing.tokens += lesson.written_tokens
        return loss

    def _next(self, model: Any) -> Batch | None:
        """The batch to learn from. With `ahead`, the batch after it is begun first, so that it is
        judged while the model learns. None in all processes but the main one."""
        step = self.state.global_step + 1
        last = min(step + self.recipe.rollouts.ahead, self.state.max_steps)
        while (number := step + len(self._begun)) <= last:
            if not self.recipe.rollouts.pool:
                self._refresh()
            batch = self._on_main(lambda rounds: rounds.practice.begin(number))
            if batch is not None:
                self._seconds["decode"] += batch.decode_s
            self._add_old_logps(model, batch, None if batch is None else batch.rollouts)
            self._begun.append(batch)
        batch = self._begun.popleft()
        # Second answers need the verdicts on first ones, so they cannot be written ahead.
        if self.recipe.rollouts.turns > 1:
            self._refresh()
            before = 0.0 if batch is None else batch.decode_s
            more = self._on_main(lambda rounds: rounds.practice.further_turn(_there(batch)))
            if batch is not None:
                self._seconds["decode"] += batch.decode_s - before
            self._add_old_logps(model, batch, more)
        return batch

    def _refresh(self) -> None:
        """Give the writer the present weights, once a step at most."""
        if self._fresh_at == self.state.global_step:
            return
        self._fresh_at = self.state.global_step
        if self.recipe.rollouts.served:
            self.export(str(Path(self.recipe.rollouts.served).resolve()))
        self._on_main(
            lambda rounds: rounds.writer.refresh(self.accelerator.unwrap_model(self.model))
        )

    # -- log-probabilities of those who answered

    def _add_old_logps(
        self, model: Any, batch: Batch | None, more: Sequence[Rollout] | None
    ) -> None:
        """Log-probabilities of answers that were just written, where learning changes the weights
        before these answers are learnt from. Writer and learner have the same weights now."""
        if self.recipe.rollouts.pool:  # the writer's are stored
            if batch is not None:
                batch.old_logps = [
                    rollout.logps for rollout in more or () if rollout.logps is not None
                ]
            return
        if self.recipe.rollouts.ahead == 0 and self.recipe.objective.updates == 1:
            return
        texts = None if more is None else [Text(rollout.prompt, rollout.tokens) for rollout in more]
        with self._computing():
            logps = self.logps(self._shared(texts), model)
        if batch is not None:
            batch.old_logps += logps

    # -- validation, records, checkpoints

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Answer held-out programs greedily, and keep the weights if they are the best so far."""
        began, step = time.monotonic(), self.state.global_step
        self._refresh()
        validated = self._shared(self._on_main(lambda rounds: rounds.validate(step)))
        best = self.standing.best_score
        # All processes decide alike from the shared score: writing sharded weights needs them all.
        if best is None or validated.score > best:
            self.standing.best_score, self.standing.best_step = validated.score, step
            self.export(BEST)
        metrics = {"eval_score": validated.score, **flat({"eval": validated.by_level})}
        self.log(metrics)
        self.aside_s += time.monotonic() - began
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Write the records of a step or a checkpoint, and add their figures to transformers' own.

        Raises:
            UsageError: the loss or the gradient's norm is not a number.
        """
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
        kl, entropy, tokens = self.accelerator.reduce(self.sums, reduction="sum").tolist()
        self.sums.zero_()
        self.standing.seconds = self.pace.seconds
        spent = time.monotonic() - self._began_s
        busy = sum(self._seconds[name] for name in ("decode", "judge_wait", "learn", "lock_wait"))
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

    def _on_main(self, made: Callable[[Rounds], Made]) -> Made | None:
        """The value that `made` returns in the main process; None in the others."""
        return None if self.rounds is None else made(self.rounds)

    def _shared(self, value: Made | None) -> Made:
        """The main process's value, in all processes."""
        if self.accelerator.num_processes > 1:
            (value,) = broadcast_object_list([value])
        assert value is not None
        return value

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Hold the GPU while learning, so that nobody takes times on it; adds to the step's
        seconds of learning."""
        rounds = self.rounds
        device = self.args.device
        with computing(device) if rounds is None else rounds.practice.asker.computing():
            began = time.monotonic()
            yield
            self._seconds["learn"] += time.monotonic() - began

    def _lock_wait_s(self) -> float:
        return 0.0 if self.rounds is None else self.rounds.practice.asker.lock_wait_s


def _there(batch: Batch | None) -> Batch:
    assert batch is not None, "the process that speaks for all has the batches"
    return batch


def _steps(recipe: RlRecipe, rounds: Rounds | None) -> int:
    """The number of steps of the run: from the budget, or from the epochs over a pool."""
    budget = recipe.budget
    if budget.epochs is None:
        return budget.steps or ENDLESS_STEPS
    assert rounds is not None, "epochs are of pools, which one process learns from"
    programs = sum(rounds.practice.programs.sizes.values())
    return max(1, round(budget.epochs * programs / recipe.rollouts.programs))


def _begun(start: Start, rounds: Rounds | None) -> list[Batch]:
    """Restore the rounds from a checkpoint; return the batches that the model has not learned from.
    The list is empty for a new run, and in all processes except the main process."""
    if start.folder is None or rounds is None:
        return []
    rounds.restore(start.folder)
    return rounds.restore_pending(start.folder)


def _config(recipe: RlRecipe, folder: Path, steps: int, *, is_new: bool) -> GRPOConfig:
    group, objective = recipe.rollouts.group, recipe.objective
    config = GRPOConfig(
        **arguments(recipe, folder, steps),
        # A step is one call of `training_step`, which cuts its rows into passes itself.
        per_device_train_batch_size=group,
        per_device_eval_batch_size=group,
        num_generations=group,
        gradient_accumulation_steps=1,
        logging_steps=1,
        eval_on_start=is_new,
        gradient_checkpointing=recipe.model.gradient_checkpointing,
        ignore_data_skip=True,
        temperature=recipe.rollouts.temperature,
        max_completion_length=recipe.rollouts.max_tokens,
        loss_type=TRL_LOSS[objective.loss],
        epsilon=objective.clip_low,
        epsilon_high=objective.clip_high,
        beta=objective.kl,
        router_aux_loss_coef=0.0,
        disable_dropout=True,  # the policy that learns must be the policy that wrote the answers
    )
    return on_one_gpu(config)
