"""Answers from a pool, in place of a writer: stored tokens, verdicts and log-probabilities.

Any number of runs can learn from the same verdicts, each for several epochs, without a GPU for
judging. Ratios and KL compare with the policy that wrote the pool.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.data.pool.answers import (
    STEPS,
    PoolAnswer,
    PoolProgram,
    read_head,
    read_pool,
    read_verdicts,
)
from kernelwright.data.pool.steps import JudgedStep, judged_steps
from kernelwright.data.pool.writing import POLICY
from kernelwright.policy.answer import read_answer
from kernelwright.policy.local import prompt_tokens
from kernelwright.policy.policy import Sampling
from kernelwright.train.rl.recipe import RlRecipe
from kernelwright.train.rl.rollout import ORIGIN, Question, Rollout
from kernelwright.verify.many.standing import JudgedCandidate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LEAST = 2
"""The fewest answers of a group. A single answer cannot be compared."""


class PooledAnswers:
    """Gives stored answers to the programs of a pool. The interface is that of `Asker`, which has
    answers written."""

    def __init__(
        self, folder: Path, tokenizer: "PreTrainedTokenizerBase", recipe: RlRecipe
    ) -> None:
        """
        Raises:
            UsageError: the folder has no pool; the pool has another temperature, precision or mode
                than the recipe; or no program of the pool has enough answers to compare.
        """
        self._tokenizer = tokenizer
        self.lock_wait_s = 0.0
        head = read_head(folder)["recipe"]
        _check_same(head, recipe, folder)
        if recipe.objective.by_kernel and not head["choice"]["steps"]:
            raise UsageError(
                "objective.by_kernel: the pool has no verdicts on steps",
                file=str(folder),
                remedy="make a pool with choice.steps = true",
            )
        self._step_verdicts = read_verdicts(folder / STEPS) if recipe.objective.by_kernel else None
        self._known_steps: dict[str, tuple[JudgedStep, ...]] = {}
        # By text: a question has the program's text, not its name in the pool.
        self.programs: dict[str, PoolProgram] = {
            program.text: program
            for program in read_pool(folder)
            if len(_members(program)) >= LEAST
        }
        if not self.programs:
            raise UsageError(
                "no program with two judged answers",
                file=str(folder),
                remedy="finish the pool: the same `kernelwright data pool` command goes on",
            )

    def ask(
        self, questions: Sequence[Question], *, samples: int, sampling: Sampling
    ) -> list[Rollout]:
        """At most `samples` stored answers to each question, with their verdicts.

        The greedy answer is first, then other judged answers, then answers without a candidate.
        """
        del sampling  # the answers are written
        return [
            self._rollout(question, prompt, answer)
            for question in questions
            for prompt in [prompt_tokens(self._tokenizer, question.messages)]
            for answer in _members(self.programs[question.reference])[:samples]
        ]

    def _steps(self, program: PoolProgram, answer: PoolAnswer) -> tuple[JudgedStep, ...]:
        if self._step_verdicts is None:
            return ()
        name = program.job_id(answer)
        if name not in self._known_steps:  # every epoch asks again
            self._known_steps[name] = judged_steps(program, answer, self._step_verdicts)
        return self._known_steps[name]

    def _rollout(self, question: Question, prompt: list[int], answer: PoolAnswer) -> Rollout:
        rollout = Rollout(
            question=question,
            prompt=prompt,
            seed=answer.seed,
            tokens=answer.tokens.tolist(),
            is_cut_off=answer.is_cut_off,
            answer=read_answer(answer.text, origin=ORIGIN),
            logps=answer.logps.astype(np.float32),
            steps=self._steps(self.programs[question.reference], answer),
        )
        if answer.verdict is not None:
            rollout.future = Future()
            rollout.future.set_result(JudgedCandidate(answer.verdict))
        return rollout


def _members(program: PoolProgram) -> list[PoolAnswer]:
    """The answers of the policy that are known to be right or wrong. Judged answers are first.

    The teacher's answers are left out, because they have no tokens and no log-probabilities.
    """
    settled = [
        answer
        for answer in program.answers
        if answer.writer == POLICY and answer.is_settled and len(answer.tokens)
    ]
    return sorted(settled, key=lambda answer: (bool(answer.malformed), answer.number))


def _check_same(head: Record, recipe: RlRecipe, folder: Path) -> None:
    """Check that a pool has the temperature, precision and mode of the recipe.

    Stored log-probabilities hold at one temperature. Requests name precision and mode.

    Raises:
        UsageError: temperature, precision or mode differ.
    """
    wanted = {
        "writer.temperature": (head["writer"]["temperature"], recipe.rollouts.temperature),
        "judging.precision": (head["judging"]["precision"], recipe.judging.precision),
        "judging.mode": (head["judging"]["mode"], recipe.judging.mode),
    }
    for name, (theirs, ours) in wanted.items():
        if theirs != ours:
            raise UsageError(
                f"the pool has {name} = {theirs!r}, the recipe {ours!r}",
                file=str(folder),
                remedy="give the recipe the pool's setting",
            )
