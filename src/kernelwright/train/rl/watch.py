"""The watch on hacking: the fastest candidates are judged again, `fresh`, and kept on record.

During training many candidates are judged in the same guest process, one after another. If a policy
learns to deceive the judge, its candidates have the largest speed-ups. So candidates are ranked by
speed-up. Rewards would not do, because some rewards are equal for all correct answers. If the
second verdict differs, a guest was deceived, or the kernel fails at sizes that only fresh judging
tries. Such a text is not rewarded again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import Reward
from kernelwright.train.rl.practice import content_of_answer
from kernelwright.train.rl.recipe import Audits
from kernelwright.train.rl.rollout import Judges, Rollout


@dataclass(frozen=True, slots=True)
class Noted:
    """A candidate that may be judged again."""

    reward: float
    content: str
    reference: str
    source: str
    speedup: float = 1.0
    """Over PyTorch: the measured one, or the estimate if nothing was timed; 1 without both."""

    @property
    def rank(self) -> tuple[float, float, str]:
        return -self.speedup, -self.reward, self.content


class RewardWatch:
    """Remembers the fastest correct answers between audits, and audits them."""

    def __init__(self, settings: Audits, judges: Judges) -> None:
        """
        Args:
            judges: judges of the grade `fresh`.
        """
        self._settings, self._judges = settings, judges
        self._noted: list[Noted] = []
        """The fastest candidates since the last audit, at most `candidates` of the settings."""
        self._audited: set[str] = set()
        """The contents of all candidates that were judged again."""

    def note(
        self,
        rollouts: Iterable[Rollout],
        outcomes: Iterable[Outcome | None],
        rewards: Iterable[Reward | None],
    ) -> None:
        """Note the fastest correct answers of a step for the next audit."""
        by_content = {answer.content: answer for answer in self._noted}
        for rollout, outcome, reward in zip(rollouts, outcomes, rewards, strict=True):
            if outcome is None or not outcome.is_correct or reward is None:
                continue
            content = content_of_answer(rollout)
            if content not in self._audited and rollout.answer.candidate is not None:
                source = rollout.answer.candidate.source
                reference = rollout.question.reference
                # Every correct answer has an estimate, and no cost model sees a deceived clock.
                speedup = outcome.speedup if outcome.is_timed else outcome.modelled or 1.0
                by_content[content] = Noted(reward.code, content, reference, source, speedup)
        ranked = sorted(by_content.values(), key=lambda answer: answer.rank)
        self._noted = ranked[: self._settings.candidates]

    def is_due(self, step: int) -> bool:
        return step % self._settings.every_steps == 0

    def audit(self, step: int) -> tuple[list[Record], dict[str, Verdict]]:
        """Judge the noted candidates again, each in a guest of its own, and clear the notes.

        Returns:
            A record of each candidate, and content -> verdict for candidates that are now refused.
            A candidate has neither if a fault of ours prevented the judgement.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        noted, self._noted = self._noted, []
        futures = [self._judges.judge(answer.reference, [answer.source])[0] for answer in noted]
        records, refused = [], {}
        for answer, future in zip(noted, futures, strict=True):
            verdict = future.result().verdict
            if verdict is None:  # ours failed: it may be noted again
                continue
            self._audited.add(answer.content)
            if not verdict.accepted:
                refused[answer.content] = verdict
            records.append(
                {
                    "record": "audit",
                    "step": step,
                    "program": answer.reference,
                    "source": answer.source,
                    "reward": answer.reward,
                    "verdict": verdict.to_json(),
                    "agrees": verdict.accepted,
                }
            )
        return records, refused

    def saved(self) -> dict[str, Any]:
        return {
            "noted": [asdict(answer) for answer in self._noted],
            "audited": sorted(self._audited),
        }

    def restore(self, values: Mapping[str, Sequence[Any]]) -> None:
        self._noted = [Noted(**value) for value in values["noted"]]
        self._audited = set(values["audited"])
