"""A step's record of its answers: plain figures of outcomes, by code and by level."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from statistics import fmean, pstdev

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.rewards.outcome import Outcome, Reached
from kernelwright.rewards.rewards import Reward
from kernelwright.train.rl.practice import Batch, Settled
from kernelwright.train.rl.rollout import Rollout


def step_record(batch: Batch, settled: Settled, rewards: Sequence[Reward | None]) -> Record:
    """The record of a step, without the figures of learning."""
    rollouts, verdicts = batch.rollouts, settled.verdicts
    names = Counter(rollout.question.name for rollout in rollouts if rollout.turn == 0)
    levels = Counter(name.level for name in names)
    known = [reward.code for reward in rewards if reward is not None]
    return {
        "stage": batch.stage,
        "level_mix": {f"L{level}": n / levels.total() for level, n in sorted(levels.items())},
        "rollouts": len(rollouts),
        "answers": dict(Counter(str(rollout.counted_as) for rollout in rollouts).most_common()),
        "codes": _codes(verdicts),
        **_reached(settled.outcomes),
        "infra": sum(outcome is None for outcome in settled.outcomes),
        "judged": batch.judged,
        "judging_s": {who: dict(spent.most_common()) for who, spent in batch.stages_s.items()},
        "reward": {
            "mean": fmean(known) if known else None,
            "std": pstdev(known) if known else None,
        },
        **_shares(verdicts, settled.outcomes),
        "own_kernel_share": own_kernel_share(verdicts),
        "groups": _groups([rollout.group for rollout in rollouts], settled.outcomes),
        "by_level": _by_level(rollouts, settled),
        "tokens": fmean(len(rollout.tokens) for rollout in rollouts),
    }


def _codes(verdicts: Iterable[Verdict | None]) -> Record:
    """The number of answers for each reason code; accepted answers count as "accepted"."""
    codes = Counter(
        "accepted" if verdict.accepted else verdict.code.value
        for verdict in verdicts
        if verdict is not None
    )
    return dict(codes.most_common())


def _reached(outcomes: Iterable[Outcome | None]) -> Record:
    """The number of answers by the last stage that they reached, and the number that were refused
    for cheating."""
    known = [outcome for outcome in outcomes if outcome is not None]
    counts = Counter(outcome.reached for outcome in known)
    return {
        "reached": {milestone.name.lower(): counts[milestone] for milestone in Reached},
        "cheats": sum(outcome.cheats for outcome in known),
    }


def _shares(verdicts: Sequence[Verdict | None], outcomes: Sequence[Outcome | None]) -> Record:
    """The shares of the answers that have outcomes."""
    num = sum(outcome is not None for outcome in outcomes)
    correct = sum(outcome is not None and outcome.is_correct for outcome in outcomes)
    speedups = speedups_of(verdicts)
    return {
        "correct": correct / num if num else None,
        "faster": faster(verdicts) / num if num and speedups else None,
        "speedup": geometric_mean(speedups),
        "modelled": geometric_mean(modelled_of(outcomes)),
    }


def own_kernel_share(verdicts: Iterable[Verdict | None]) -> float | None:
    """Mean share of GPU time in a candidate's own kernels, where it was measured."""
    shares = [
        1 - verdict.library_share
        for verdict in verdicts
        if verdict is not None and verdict.library_share is not None
    ]
    return fmean(shares) if shares else None


def speedups_of(verdicts: Iterable[Verdict | None]) -> list[float]:
    """The speed-ups of answers that are right and were timed."""
    accepted = (verdict for verdict in verdicts if verdict is not None and verdict.accepted)
    return [right.speedup for right in accepted if right.speedup is not None]


def modelled_of(outcomes: Iterable[Outcome | None]) -> list[float]:
    """Estimated speed-ups of correct answers."""
    known = (None if outcome is None else outcome.modelled for outcome in outcomes)
    return [speedup for speedup in known if speedup is not None]


def faster(verdicts: Iterable[Verdict | None]) -> int:
    """The number of candidates that are right, and faster than PyTorch beyond chance."""
    return sum(
        verdict is not None and verdict.accepted and verdict.is_faster for verdict in verdicts
    )


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean of positive values; None without values."""
    return math.exp(fmean(map(math.log, values))) if values else None


def _groups(groups: Sequence[Hashable], outcomes: Sequence[Outcome | None]) -> Record:
    """The numbers of groups with right and wrong answers ("mixed"), with right answers alone, and
    with wrong answers alone. Answers without an outcome do not count."""
    kinds: dict[Hashable, set[bool]] = {}
    for group, outcome in zip(groups, outcomes, strict=True):
        if outcome is not None:
            kinds.setdefault(group, set()).add(outcome.is_correct)
    counts = Counter(
        "mixed" if len(kind) > 1 else "all_right" if True in kind else "all_wrong"
        for kind in kinds.values()
    )
    return {name: counts[name] for name in ("mixed", "all_right", "all_wrong")}


def _by_level(rollouts: Sequence[Rollout], settled: Settled) -> Record:
    levels: Record = {}
    for level in sorted({rollout.question.name.level for rollout in rollouts}):
        numbers = [n for n, rollout in enumerate(rollouts) if rollout.question.name.level == level]
        verdicts = [settled.verdicts[n] for n in numbers]
        outcomes = [settled.outcomes[n] for n in numbers]
        shares = _shares(verdicts, outcomes)
        levels[f"L{level}"] = {
            "rollouts": len(numbers),
            "correct": shares["correct"],
            "faster": shares["faster"],
        }
    return levels


def flat(line: Record, where: str = "") -> dict[str, float]:
    """The numbers of a record under flat names, "reward/mean" for example, for TensorBoard."""
    figures: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, dict):
            figures |= flat(value, f"{where}{name}/")
        elif isinstance(value, int | float):
            figures[where + name] = value
    return figures
