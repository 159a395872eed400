"""The curves of a training run, and the fields of the records that they show."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from kernelwright.core.kinds.training import RlStepLine
from kernelwright.core.record import Record
from kernelwright.report.curves import (
    CurveChart,
    Mark,
    Series,
    Show,
    line_chart,
    number,
    percent,
    stack_chart,
)
from kernelwright.report.format import factor
from kernelwright.report.training.run import Training

SECONDS = ("decode", "judge_wait", "learn", "lock_wait", "other")
"""The parts of a step's seconds; judging goes on beside decoding and learning."""
ACCEPTED = "accepted"
CANDIDATE = "candidate"
"""Among what became of answers: those that hold one."""

Lines = Callable[[Training], list[Series]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveGroup:
    """Lines that share an axis."""

    title: str
    lines: Lines
    show: Show = number
    is_log: bool = False
    note: str = ""

    def chart(self, run: Training) -> CurveChart | None:
        return line_chart(
            self.title,
            self.lines(run),
            show=self.show,
            is_log=self.is_log,
            marks=promotions(run),
            note=self.note,
        )

    def comparison(self, runs: Sequence[tuple[str, Training]]) -> list[CurveChart]:
        """A chart for each line of this group, with a line for each named run."""
        lines_of_runs = [{line.name: line.points for line in self.lines(run)} for _, run in runs]
        names = sorted({name for own in lines_of_runs for name in own}, key=level_rank)
        charts = []
        for name in names:
            # all runs are there, with points or without: each keeps its colour
            drawn = [
                Series(run[0], own.get(name, ()))
                for run, own in zip(runs, lines_of_runs, strict=True)
            ]
            title = self.title if len(names) == 1 else f"{self.title}: {name}"
            chart = line_chart(title, drawn, show=self.show, is_log=self.is_log, note=self.note)
            charts += [chart] if chart is not None else []
        return charts


def level_name(level: str) -> str:
    """The name of a level: "5" -> "L5"; other names stay."""
    return f"L{level}" if level.isdecimal() else level


def level_rank(name: str) -> tuple[int, str]:
    """A sort key that puts L2 before L10, and names that are no levels last."""
    digits = re.fullmatch(r"L?(\d+)", name)
    return (int(digits[1]), "") if digits else (10**9, name)


def levels_of(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """The levels that records have figures for, sorted."""
    return sorted({level for line in lines for level in line["by_level"]}, key=level_rank)


def promotions(run: Training) -> list[Mark]:
    return [(line["step"], f"{line['from']} to {line['to']}") for line in run.promotions]


def charts(run: Training) -> list[CurveChart]:
    """The curves of a run that have values."""
    charts_made = [measure.chart(run) for measure in measures(run)]
    if run.is_rl:
        charts_made += _stacks(run)
    return [chart for chart in charts_made if chart is not None]


def comparisons(runs: Sequence[tuple[str, Training]]) -> list[CurveChart]:
    """The curves of named runs of one command, over each other."""
    return [chart for measure in measures(runs[0][1]) for chart in measure.comparison(runs)]


def measures(run: Training) -> tuple[CurveGroup, ...]:
    return _OF_RL if run.is_rl else _OF_SFT


def _at(line: Record, *path: str) -> float | None:
    """The number at a path of nested fields; None if the record has none there."""
    value: object = line
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return float(value) if isinstance(value, int | float) else None


def _steps(**paths: str) -> Lines:
    """Lines over steps: name -> path of a field in the steps' records, such as "reward.mean"."""
    return lambda run: [
        Series(
            name.replace("_", " "),
            [(line["step"], _at(line, *path.split("."))) for line in run.steps],
        )
        for name, path in paths.items()
    ]


def _levels(of: Callable[[Training], list[Record]], *path: str) -> Lines:
    """A line for each level, from a field of the records' figures by level."""

    def lines(run: Training) -> list[Series]:
        own = of(run)
        return [
            Series(
                level_name(level),
                [(line["step"], _at(line, "by_level", level, *path)) for line in own],
            )
            for level in levels_of(own)
        ]

    return lines


def _validation_loss(run: Training) -> Series:
    return Series("validation", [(line["step"], line["loss"]) for line in run.sft_validations])


def _gap(run: Training) -> list[Series]:
    """Validation loss less the mean training loss since the validation before: overfitting shows
    as a growing gap."""
    points: list[tuple[float, float | None]] = []
    begin = 0
    for line in run.sft_validations:
        since = [step["loss"] for step in run.sft_steps if begin < step["step"] <= line["step"]]
        points.append((line["step"], line["loss"] - fmean(since) if since else None))
        begin = line["step"]
    return [Series("gap", points)]


_OF_SFT = (
    CurveGroup(
        title="Loss",
        lines=lambda run: [*_steps(training="loss")(run), _validation_loss(run)],
        is_log=True,
        note="Of a trained token.",
    ),
    CurveGroup(
        title="Loss on validation pairs", lines=_levels(lambda run: run.validations), is_log=True
    ),
    CurveGroup(
        title="Validation above training",
        lines=_gap,
        note="Validation loss less the mean training loss since the validation before.",
    ),
    CurveGroup(title="Learning rate", lines=_steps(learning_rate="learning_rate")),
    CurveGroup(title="Tokens a second", lines=_steps(tokens="tokens_per_s")),
    CurveGroup(title="Gradient norm", lines=_steps(norm="grad_norm"), is_log=True),
)
_OF_RL = (
    CurveGroup(title="Reward", lines=_steps(mean="reward.mean", deviation="reward.std")),
    CurveGroup(
        title="Share of rollouts", lines=_steps(correct="correct", faster="faster"), show=percent
    ),
    CurveGroup(
        title="Correct, of rollouts", lines=_levels(lambda run: run.steps, "correct"), show=percent
    ),
    CurveGroup(
        title="Faster, of rollouts", lines=_levels(lambda run: run.steps, "faster"), show=percent
    ),
    CurveGroup(
        title="pass@1 on validation programs",
        lines=_levels(lambda run: run.validations, "pass@1"),
        show=percent,
    ),
    CurveGroup(
        title="Faster, of validation programs",
        lines=_levels(lambda run: run.validations, "faster"),
        show=percent,
    ),
    CurveGroup(
        title="Speed-up on validation programs",
        lines=_levels(lambda run: run.validations, "speedup"),
        show=factor,
    ),
    CurveGroup(
        title="Speed-up of correct rollouts", lines=_steps(geometric_mean="speedup"), show=factor
    ),
    CurveGroup(
        title="GPU time in own kernels",
        lines=_steps(share="own_kernel_share"),
        show=percent,
        note="Mean over rollouts where it was measured.",
    ),
    CurveGroup(title="Answer length", lines=_steps(tokens="tokens"), note="Tokens, mean."),
    CurveGroup(title="KL to the policy that answered", lines=_steps(KL="kl")),
    CurveGroup(title="Entropy of a token", lines=_steps(entropy="entropy")),
    CurveGroup(title="Gradient norm", lines=_steps(norm="grad_norm"), is_log=True),
    CurveGroup(title="Loss", lines=_steps(loss="loss")),
    CurveGroup(title="Learning rate", lines=_steps(learning_rate="learning_rate")),
    CurveGroup(
        title="Seconds of a step", lines=_steps(step="seconds.step", judging="seconds.judge")
    ),
)


def _stacks(run: Training) -> list[CurveChart | None]:
    marks = promotions(run)
    return [
        stack_chart(
            "Where a step's seconds go",
            _layers(run, SECONDS, lambda line: line["seconds"]),
            marks=marks,
        ),
        stack_chart(
            "Rollouts that are not accepted, by reason",
            _layers(run, _keys(run, refused), refused),
            show=percent,
            marks=marks,
            note="Share of rollouts.",
        ),
        stack_chart(
            "Groups of answers to one program",
            _layers(run, ("mixed", "all_right", "all_wrong"), lambda line: shares(line["groups"])),
            show=percent,
            marks=marks,
            note="Only mixed ones tell right from wrong.",
        ),
        stack_chart(
            "Programs drawn, by level",
            _layers(
                run, _keys(run, lambda line: line["level_mix"]), lambda line: line["level_mix"]
            ),
            show=percent,
            marks=marks,
        ),
    ]


def refused(line: RlStepLine) -> dict[str, float]:
    """Reason -> share of a step's rollouts that were not accepted for it. A reason is a code of the
    judge, or "answer: " and why the answer holds no candidate."""
    judged = {code: n for code, n in line["codes"].items() if code != ACCEPTED}
    unread = {f"answer: {why}": n for why, n in line["answers"].items() if why != CANDIDATE}
    return {reason: n / line["rollouts"] for reason, n in (judged | unread).items()}


def shares(counts: dict[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: n / total for name, n in counts.items()} if total else {}


def _keys(run: Training, of: Callable[[RlStepLine], dict[str, float]]) -> list[str]:
    return sorted({name for line in run.rl_steps for name in of(line)}, key=level_rank)


def _layers(
    run: Training, names: Sequence[str], of: Callable[[RlStepLine], dict[str, float]]
) -> list[Series]:
    rows = [(line["step"], of(line)) for line in run.rl_steps]
    return [
        Series(name.replace("_", " "), [(step, values.get(name, 0.0)) for step, values in rows])
        for name in names
    ]
