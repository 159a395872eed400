"""A step of a run, up to its verdicts: programs are drawn, answers are written and judged.

Only the main process of a run does this.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Verdict
from kernelwright.programs.traffic import modelled_speedup
from kernelwright.rewards.outcome import Outcome
from kernelwright.train.rl.curriculum import Curriculum, Name
from kernelwright.train.rl.pooled import PooledAnswers
from kernelwright.train.rl.programs import ProgramSource, TrainingPrograms, opened
from kernelwright.train.rl.recipe import RlRecipe
from kernelwright.train.rl.rollout import Asker, Judges, Question, Rollout, restored, saved
from kernelwright.verify.many.jobs import content_of

Old = list[np.ndarray]
"""For each answer: (tokens,) float32, log-probabilities of the policy that wrote the answer."""


@dataclass(kw_only=True, slots=True, eq=False)
class Batch:
    """The answers of a step."""

    step: int
    stage: int
    """The stage of the curriculum when the programs were drawn."""
    rollouts: list[Rollout]
    old_logps: Old = field(default_factory=list)
    """The arrays that belong to `rollouts`, in the same order; empty if the learning policy
    wrote the answers."""
    judged: int = 0
    """The number of distinct candidates that were not judged before."""
    decode_s: float = 0.0
    handed_in_s: float = 0.0
    """The time on the monotonic clock when the last candidate was handed in."""
    judge_s: float = 0.0
    """Seconds from handing in the last candidate to the last verdict."""
    wait_s: float = 0.0
    """Seconds in which the step did nothing but wait for verdicts."""
    stages_s: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Seconds of each stage of judging since the batch before, summed over all judges and clock
    owners."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The verdicts and outcomes of a step's answers, in the order of the answers."""

    verdicts: list[Verdict | None]
    """None: the answer has no candidate, or a fault of ours prevented the judgement."""
    outcomes: list[Outcome | None]
    """None: a fault of ours prevented the judgement, or the judge cannot use the program as a
    reference."""


class Practice:
    """Makes the batch of each step, and waits for the verdicts of a batch."""

    def __init__(
        self,
        recipe: RlRecipe,
        programs: TrainingPrograms,
        asker: Asker,
        judges: Judges,
        pooled: PooledAnswers | None = None,
    ) -> None:
        """
        Args:
            pooled: gives the answers of training programs from a pool; None: the asker has answers
                written.
        """
        self.recipe, self.programs = recipe, programs
        self.curriculum = Curriculum(
            recipe.curriculum,
            programs.sizes,
            right_teaches=recipe.objective.right_teaches,
            is_even=pooled is not None,
        )
        self.asker, self._judges = asker, judges
        self._answers = pooled or asker
        self.overruled: dict[str, Verdict] = {}
        """Content of candidates that an audit rejected -> its verdict, which holds from then on."""

    def begin(self, step: int) -> Batch:
        """Draw a step's programs and have answers written. Judging still goes on when this returns.

        Raises:
            UsageError: no program is left that may be drawn.
            UsageError, InfraError: as `AnswerWriter.write`.
        """
        began, before = time.monotonic(), self._judges.num_judged
        waited_s = self.asker.lock_wait_s
        rollouts = self._answers.ask(
            self._questions(step),
            samples=self.recipe.rollouts.group,
            sampling=self.recipe.rollouts.sampling(derive(self.recipe.seed, "answers", step)),
        )
        now = time.monotonic()
        return Batch(
            step=step,
            stage=self.curriculum.state.stage,
            rollouts=rollouts,
            judged=self._judges.num_judged - before,
            decode_s=now - began - (self.asker.lock_wait_s - waited_s),
            handed_in_s=now,
        )

    def further_turn(self, batch: Batch) -> list[Rollout]:
        """Send the findings on wrong answers back to the model, and add its second answers to the
        batch. The method waits for the verdicts on the first answers.

        Returns:
            The second answers; an empty list if the recipe has one turn.
        """
        if self.recipe.rollouts.turns < 2:
            return []
        settled = self.settle(batch)
        wrong = [
            rollout
            for rollout, outcome in zip(batch.rollouts, settled.outcomes, strict=True)
            if outcome is not None and not outcome.is_correct
        ]
        began, before = time.monotonic(), self._judges.num_judged
        waited_s = self.asker.lock_wait_s
        seed = derive(self.recipe.seed, "further answers", batch.step)
        more = self.asker.ask_again(
            wrong,
            samples=self.recipe.rollouts.retries,
            sampling=self.recipe.rollouts.sampling(seed),
        )
        batch.rollouts += more
        batch.judged += self._judges.num_judged - before
        batch.handed_in_s = time.monotonic()
        batch.decode_s += batch.handed_in_s - began - (self.asker.lock_wait_s - waited_s)
        return more

    def settle(self, batch: Batch) -> Settled:
        """Wait for all verdicts of a batch, and turn them into outcomes.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        began = time.monotonic()
        findings = [rollout.finding() for rollout in batch.rollouts]
        batch.wait_s += time.monotonic() - began
        for who, spent in self._judges.take_stages().items():
            batch.stages_s[who].update(spent)
        last = max((judged.at_s for judged in findings if judged is not None), default=0.0)
        batch.judge_s += max(0.0, last - batch.handed_in_s)
        verdicts: list[Verdict | None] = []
        outcomes: list[Outcome | None] = []
        for rollout, finding in zip(batch.rollouts, findings, strict=True):
            verdict = None if finding is None else finding.verdict
            # The program itself cannot be judged by: every further answer to it would be wasted.
            if finding is not None and finding.is_usage:
                self.curriculum.bar(rollout.question.name)
            # The judges keep their first verdict on a text; an audit may have refused it since.
            if verdict is not None and self.overruled:
                verdict = self.overruled.get(content_of_answer(rollout), verdict)
            # A failure of ours says nothing about the answer, so it must not count as wrong.
            is_ours = finding is not None and verdict is None
            verdicts.append(verdict)
            outcomes.append(None if is_ours else outcome_of(rollout, verdict))
        return Settled(verdicts=verdicts, outcomes=outcomes)

    def visited(self, batch: Batch, outcomes: Sequence[Outcome | None]) -> None:
        """Tell the curriculum the share of right first answers to each program."""
        solved: dict[Name, list[bool]] = {}
        for rollout, outcome in zip(batch.rollouts, outcomes, strict=True):
            if outcome is not None and rollout.turn == 0:
                solved.setdefault(rollout.question.name, []).append(outcome.is_correct)
        for name, answers in solved.items():
            self.curriculum.visited(name, sum(answers) / len(answers))

    # -- programs

    def _questions(self, step: int) -> list[Question]:
        """The questions of a step. If a drawn program is a task of a benchmark, another program is
        drawn."""
        names = self.curriculum.draw(
            self.recipe.rollouts.programs, derive(self.recipe.seed, "programs", step)
        )
        rng = random.Random(derive(self.recipe.seed, "other programs", step))
        questions, taken = [], set(names)
        for name in names:
            while (question := self.question(name)) is None:
                self.curriculum.bar(name)
                name = self.curriculum.one(name.level, rng, taken)
                taken.add(name)
            questions.append(question)
        return questions

    def question(self, name: Name) -> Question | None:
        """The question about a training program; None if the program is a task of a benchmark."""
        return self.question_of(name, self.programs.train[name.level][name.number])

    def question_of(self, name: Name, source: ProgramSource) -> Question | None:
        """As `question`, for any program.

        Args:
            name: that the question has; not looked up.
        """
        program = opened(source, self.recipe.programs.avoid)
        return None if program is None else self.asker.question(name, program, source.text)

    # -- going on

    def saved(self, batch: Batch) -> dict[str, Any]:
        """A batch that the model has not learned from yet, as plain data and arrays."""
        return {
            "step": batch.step,
            "stage": batch.stage,
            "rollouts": saved(batch.rollouts),
            "old_logps": batch.old_logps,
        }

    def restored(self, values: Mapping[str, Any]) -> Batch:
        """The batch that `saved` returned. Its answers are read and judged again."""
        names = {Name(*line["name"]) for line in values["rollouts"]}
        questions = {name: self.question(name) for name in names}
        rollouts = restored(
            values["rollouts"],
            {name: question for name, question in questions.items() if question is not None},
        )
        before = self._judges.num_judged
        self.asker.take(rollouts)
        return Batch(
            step=values["step"],
            stage=values["stage"],
            rollouts=rollouts,
            old_logps=values["old_logps"],
            judged=self._judges.num_judged - before,
            handed_in_s=time.monotonic(),
        )


def outcome_of(rollout: Rollout, verdict: Verdict | None) -> Outcome:
    """The outcome of an answer. A correct answer also has its estimated speed-up, even if the
    answer was timed.

    Args:
        verdict: None if the answer has no candidate.
    """
    candidate = rollout.answer.candidate
    if verdict is None or not verdict.accepted or candidate is None:
        return Outcome.of(verdict)
    program = rollout.question.program
    return Outcome.of(verdict, modelled_speedup(program, candidate, verdict.launches))


def content_of_answer(rollout: Rollout) -> str:
    """The digest of the texts of program and candidate.

    Raises:
        AssertionError: the answer has no candidate.
    """
    assert rollout.answer.candidate is not None
    return content_of(rollout.question.reference, rollout.answer.candidate.source)
