"""The work of the main process in addition to learning: answers, credit, validation, audits,
records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.core import record
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.texts import Text
from kernelwright.train.records import RECORDS, RL_STEP
from kernelwright.train.rl.by_kernel import with_kernels
from kernelwright.train.rl.credit import credits_of, flowed_back, plan_length, plan_mark, rewards_of
from kernelwright.train.rl.curriculum import CurriculumState, Promotion
from kernelwright.train.rl.figures import own_kernel_share, step_record
from kernelwright.train.rl.passes import LearnedRow
from kernelwright.train.rl.practice import Batch, Practice
from kernelwright.train.rl.recipe import Loss
from kernelwright.train.rl.rollout import Rollout
from kernelwright.train.rl.validation import Validated, Validation
from kernelwright.train.rl.watch import RewardWatch
from kernelwright.train.rl.writers import AnswerWriter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AUDITS, EXAMPLES = "audits.jsonl", "examples.jsonl"
STATE, PENDING = "rounds.json", "pending.pt"
"""Files of a checkpoint: the state of curriculum and watch; the answers that the model has not
learned from yet."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The rows that a step learns from, and the record of the step."""

    rows: list[LearnedRow]
    record: Record
    written_tokens: int


class Rounds:
    """Lessons, validations and audits of a run, with their records. Only the main process has an
    object of this class."""

    def __init__(
        self,
        *,
        folder: Path,
        tokenizer: "PreTrainedTokenizerBase",
        writer: AnswerWriter,
        practice: Practice,
        watch: RewardWatch,
        say: Say,
    ) -> None:
        self.recipe, self.folder = practice.recipe, folder
        self.writer, self.practice, self.watch = writer, practice, watch
        self._validation, self._say = Validation(practice), say
        self._tokenizer = tokenizer
        self._plan_length = partial(plan_length, tokenizer=tokenizer, mark=plan_mark(tokenizer))

    def lesson(self, batch: Batch) -> Lesson:
        """Wait for a batch's verdicts, and turn its answers into rows with credit.

        Answers without an outcome or without tokens have no row.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        settled, objective = self.practice.settle(batch), self.recipe.objective
        rollouts = batch.rollouts
        rewards = flowed_back(
            rewards_of(settled.outcomes, objective),
            _parents(rollouts),
            self.recipe.rollouts.discount,
        )
        self.practice.visited(batch, settled.outcomes)
        self.watch.note(rollouts, settled.outcomes, rewards)
        # Groups get numbers in turn: `RowTrainer.learn` deals them out to updates by number.
        groups = [rollout.group for rollout in rollouts]
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        credits = credits_of(groups, settled.outcomes, rewards, objective)
        if objective.by_kernel:
            credits = with_kernels(credits, rollouts, self._tokenizer)
        has_plans = objective.loss is Loss.HRD
        rows = [
            LearnedRow(
                text=Text(rollout.prompt, rollout.tokens),
                credit=credit,
                plan_length=self._plan_length(rollout.tokens) if has_plans else 0,
                group=numbers[rollout.group],
                old_logps=batch.old_logps[number] if batch.old_logps else None,
            )
            for number, (rollout, credit) in enumerate(zip(rollouts, credits, strict=True))
            if credit is not None and rollout.tokens
        ]
        written = sum(len(rollout.tokens) for rollout in rollouts)
        return Lesson(rows, step_record(batch, settled, rewards), written)

    def step_done(self, line: Record, words: str) -> None:
        """Record a step, audit if an audit is due, and count the step in the curriculum."""
        step = line["step"]
        self._say(words)
        if self.watch.is_due(step):
            # Recycled judging does not measure this share; the fresh judging of an audit does.
            share = self._audit(step)
            line = line | {"own_kernel_share": line["own_kernel_share"] or share}
        record.append(self.folder / RECORDS, [{"record": RL_STEP, **line}])
        self._promoted(step, self.practice.curriculum.stepped(line["seconds"]["step"]))

    def validate(self, step: int) -> Validated:
        """Validate, and record the figures. The curriculum passes to the next stage if enough
        held-out programs are solved.

        Raises:
            UsageError, InfraError: answers cannot be written or judged.
        """
        validated = self._validation.run()
        line = {"record": "rl_validation", "step": step, "by_level": validated.by_level}
        record.append(self.folder / RECORDS, [line])
        examples = [example | {"step": step} for example in validated.examples]
        record.append(self.folder / EXAMPLES, examples)
        shares = ", ".join(
            f"{level} {level_scores['pass@1']:.1%}"
            for level, level_scores in validated.by_level.items()
        )
        self._say(f"step {step}  held out: {shares}")
        self._promoted(step, self.practice.curriculum.validated(validated.solved))
        return validated

    def note_checkpoint(self, step: int, logs: Mapping[str, float]) -> None:
        line = {"bytes": logs["checkpoint_bytes"], "seconds": logs["checkpoint_seconds"]}
        record.append(self.folder / RECORDS, [{"record": "checkpoint", "step": step, **line}])

    def _promoted(self, step: int, promotion: Promotion | None) -> None:
        if promotion is None:
            return
        line = {"from": promotion.before, "to": promotion.after, "pass@1": promotion.solved}
        record.append(self.folder / RECORDS, [{"record": "promotion", "step": step, **line}])
        self._say(f"step {step}  stage {promotion.before} -> {promotion.after}")

    def _audit(self, step: int) -> float | None:
        """Judge the noted candidates again, and record the findings. Verdicts on refused candidates
        are overruled.

        Returns:
            The mean share of GPU time in candidates' own kernels; None if it was not measured.
        """
        records, refused = self.watch.audit(step)
        record.append(self.folder / AUDITS, records)
        self.practice.overruled |= refused
        for line in records:
            if not line["agrees"]:
                code = line["verdict"]["code"]
                self._say(f"step {step}  an audit refuses what was rewarded: {code}")
        return own_kernel_share([Verdict.from_json(dict(line["verdict"])) for line in records])

    # -- going on

    def save(self, folder: Path) -> None:
        """Write the state of curriculum, watch and overruled texts into a checkpoint."""
        state = {
            "curriculum": self.practice.curriculum.state.to_json(),
            "overruled": {name: v.to_json() for name, v in self.practice.overruled.items()},
            "watch": self.watch.saved(),
        }
        (folder / STATE).write_text(json.dumps(state))

    def restore(self, folder: Path) -> None:
        """Restore the state that `save` wrote."""
        state = json.loads((folder / STATE).read_text())
        self.practice.curriculum.state = CurriculumState.from_json(state["curriculum"])
        self.practice.overruled = {
            name: Verdict.from_json(verdict) for name, verdict in state["overruled"].items()
        }
        self.watch.restore(state["watch"])

    def save_pending(self, batches: list[Batch], folder: Path) -> None:
        """Save batches that the model has not learned from yet, as tensors that can be loaded
        without pickled code."""
        saved = [self.practice.saved(batch) for batch in batches]
        for step in saved:
            step["old_logps"] = [torch.from_numpy(values) for values in step["old_logps"]]
        torch.save(saved, folder / PENDING)

    def restore_pending(self, folder: Path) -> list[Batch]:
        """The batches of a checkpoint; empty if the run continues from weights alone."""
        if not (folder / PENDING).exists():
            return []
        saved: list[dict[str, Any]] = torch.load(folder / PENDING, weights_only=True)
        for step in saved:
            step["old_logps"] = [values.numpy() for values in step["old_logps"]]
        return [self.practice.restored(step) for step in saved]


def _parents(rollouts: Sequence[Rollout]) -> list[int | None]:
    """For each answer, the number of the answer that it follows; None for first answers."""
    numbers = {id(rollout): number for number, rollout in enumerate(rollouts)}
    return [None if rollout.parent is None else numbers[id(rollout.parent)] for rollout in rollouts]
