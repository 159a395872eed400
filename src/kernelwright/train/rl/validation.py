"""Validation: held-out programs are answered greedily and judged, and the results counted by
level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.policy import Sampling
from kernelwright.train.rl.curriculum import Name
from kernelwright.train.rl.figures import faster, geometric_mean, modelled_of, speedups_of
from kernelwright.train.rl.practice import Practice, outcome_of
from kernelwright.train.rl.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Validated:
    """The figures of one validation."""

    by_level: Record
    solved: Mapping[int, float]
    """Level -> share of programs whose answer is right."""
    examples: list[Record]

    @property
    def score(self) -> float:
        """The score by which the best weights are chosen, 0 to 2.

        For each level the shares of right and of faster answers are added; levels count the same.
        """
        levels = self.by_level.values()
        return fmean(level["pass@1"] + (level["faster"] or 0.0) for level in levels)


class Validation:
    """Answers the same held-out programs greedily each time, and has the answers judged."""

    def __init__(self, practice: Practice) -> None:
        self._practice = practice
        self._sampling = Sampling(max_tokens=practice.recipe.rollouts.max_tokens)
        examples = practice.recipe.validation.examples
        held_out = practice.programs.held_out
        self._questions = [
            question
            for level in sorted(held_out)
            for number, source in enumerate(held_out[level])
            if (question := practice.question_of(Name(level, number), source)) is not None
        ]
        self._kept = self._questions[:: max(1, len(self._questions) // max(examples, 1))][:examples]

    def run(self) -> Validated:
        """Answer and judge all held-out programs. Failures of ours are left out of the shares.

        Raises:
            UsageError, InfraError: as `AnswerWriter.write`, or no judge can be started.
            InfraError: our side failed on every candidate.
        """
        rollouts = self._practice.asker.ask(self._questions, samples=1, sampling=self._sampling)
        findings = [rollout.finding() for rollout in rollouts]
        verdicts = [None if finding is None else finding.verdict for finding in findings]
        judged = [  # failures of ours are left out
            (rollout, verdict)
            for rollout, finding, verdict in zip(rollouts, findings, verdicts, strict=True)
            if finding is None or verdict is not None
        ]
        # Answers without a candidate are wrong without a judge. If every candidate met a failure of
        # ours, the share would be 0 or undefined, which would look like a bad policy.
        if not any(verdict is not None for verdict in verdicts):
            failures = [
                finding.failure for finding in findings if finding is not None and finding.failure
            ]
            if failures:
                raise InfraError(f"no held-out answer could be judged: {failures[0]}")
        levels = sorted({rollout.question.name.level for rollout, _ in judged})
        by_level = {
            level: [pair for pair in judged if pair[0].question.name.level == level]
            for level in levels
        }
        figures = {f"L{level}": _figures(some) for level, some in by_level.items()}
        for level in levels:
            asked = sum(rollout.question.name.level == level for rollout in rollouts)
            figures[f"L{level}"]["not_judged"] = asked - len(by_level[level])
        solved = {level: figures[f"L{level}"]["pass@1"] for level in levels}
        kept = {question.name for question in self._kept}
        examples = [_example(*pair) for pair in judged if pair[0].question.name in kept]
        return Validated(figures, solved, examples)


def _figures(judged: Sequence[tuple[Rollout, Verdict | None]]) -> Record:
    verdicts = [verdict for _, verdict in judged]
    outcomes = [outcome_of(rollout, verdict) for rollout, verdict in judged]
    speedups = speedups_of(verdicts)
    right = sum(outcome.is_correct for outcome in outcomes)
    return {
        "programs": len(verdicts),
        "pass@1": right / len(verdicts),
        "faster": faster(verdicts) / len(verdicts) if speedups else None,
        "speedup": geometric_mean(speedups),
        "modelled": geometric_mean(modelled_of(outcomes)),
    }


def _example(rollout: Rollout, verdict: Verdict | None) -> Record:
    return {
        "record": "example",
        "program": rollout.question.reference,
        "level": f"L{rollout.question.name.level}",
        "text": rollout.answer.text,
        "verdict": None if verdict is None else verdict.to_json(),
    }
