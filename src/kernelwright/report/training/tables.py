"""The tables of a training run, for its page and for the terminal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeVar, cast

from kernelwright.core.kinds.training import (
    RlLevelFields,
    RlStepLine,
    RlValidationLine,
    ValidationLine,
)
from kernelwright.core.record import Record
from kernelwright.report import words
from kernelwright.report.curves import Show, number, percent
from kernelwright.report.format import Rows, count, factor
from kernelwright.report.training.curves import ACCEPTED, level_name, level_rank, levels_of, refused
from kernelwright.report.training.run import Training

Line = TypeVar("Line")
LevelFigure = Literal["pass@1", "faster", "speedup"]
LEVEL_FIGURES: tuple[tuple[LevelFigure, str, Show], ...] = (
    ("pass@1", "pass@1", percent),
    ("faster", "faster", percent),
    ("speedup", "speed-up", factor),
)
"""Fields of a level of held-out programs, with their names."""
EDGE = 10
"""The share of the steps, at the beginning and at the end, that give first and last values."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """One figure of a run: where it ended, and where it was best."""

    name: str
    last: float
    best: float | None
    """None where more or less is not better."""
    best_step: int | None
    show: Show

    @property
    def text(self) -> str:
        return self.show(self.last)

    @property
    def best_text(self) -> str:
        return "" if self.best is None else f"{self.show(self.best)} at step {self.best_step}"


def values(run: Training) -> list[RunValue]:
    """The figures that tell how a run goes, the most telling first."""
    return _values_of_rl(run) if run.is_rl else _values_of_sft(run)


def _values_of_sft(run: Training) -> list[RunValue]:
    values = [
        _value("validation loss", run.sft_validations, lambda line: line["loss"], min, _exact),
        _value("training loss", run.sft_steps, lambda line: line["loss"], min, _exact),
        _value("tokens trained", run.sft_steps, lambda line: line["tokens"], None),
        _value("tokens/s", run.sft_steps, lambda line: line["tokens_per_s"], None),
        *(
            _value(
                f"validation loss {level_name(level)}",
                run.sft_validations,
                _loss_of(level),
                min,
                _exact,
            )
            for level in levels_of(run.sft_validations)
        ),
    ]
    return [value for value in values if value is not None]


def _loss_of(level: str) -> Callable[[ValidationLine], float | None]:
    return lambda line: line["by_level"].get(level)


def _exact(loss: float) -> str:
    return f"{loss:.4f}"


def _values_of_rl(run: Training) -> list[RunValue]:
    validated = [
        _value(f"{name} {level}", run.rl_validations, _validated(level, field), max, show)
        for field, name, show in LEVEL_FIGURES
        for level in levels_of(run.rl_validations)
    ]
    values = [
        *validated,
        _value("reward", run.rl_steps, lambda line: line["reward"]["mean"], max),
        _value("correct rollouts", run.rl_steps, lambda line: line["correct"], max, percent),
        _value("faster rollouts", run.rl_steps, lambda line: line["faster"], max, percent),
        _value("speed-up of rollouts", run.rl_steps, lambda line: line["speedup"], max, factor),
        RunValue(
            "rollouts so far", sum(line["rollouts"] for line in run.rl_steps), None, None, number
        ),
        _value("KL", run.rl_steps, lambda line: line["kl"], None),
        _value("answer length", run.rl_steps, lambda line: line["tokens"], None),
        _value("seconds a step", run.rl_steps, lambda line: line["seconds"]["step"], min),
    ]
    return [value for value in values if value is not None]


def _validated(level: str, field: LevelFigure) -> Callable[[RlValidationLine], float | None]:
    return lambda line: line["by_level"].get(level, RlLevelFields()).get(field)


def _value(
    name: str,
    lines: Sequence[Line],
    of: Callable[[Line], float | None],
    better: Callable[..., tuple[float, int]] | None,
    show: Show = number,
) -> RunValue | None:
    """The last and the best value of a figure over records; None if no record has it.

    Args:
        of: reads the figure from a record.
        better: `min` or `max`; None if neither is better.
    """
    known = [
        (value, cast(Record, line)["step"]) for line in lines if (value := of(line)) is not None
    ]
    if not known:
        return None
    best, step = better(known, key=lambda point: point[0]) if better else (None, None)
    return RunValue(name, known[-1][0], best, step, show)


def value_rows(runs: Sequence[tuple[str, Training]]) -> Rows:
    """A row for each figure; the last and the best value of each named run."""
    by_run = [{value.name: value for value in values(run)} for _, run in runs]
    names = list(dict.fromkeys(name for own in by_run for name in own))
    several = len(runs) > 1
    head = [f"{name} {what}" if several else what for name, _ in runs for what in ("last", "best")]
    rows: Rows = [("", *head)]
    for name in names:
        cells = [own.get(name) for own in by_run]
        texts = [text for cell in cells for text in _texts(cell)]
        rows.append((name, *texts))
    if any(run.gpu_hours is not None for _, run in runs):
        hours = [text for _, run in runs for text in (_hours(run), "")]
        rows.append(("GPU-hours", *hours))
    return rows


def _texts(value: RunValue | None) -> tuple[str, str]:
    return ("", "") if value is None else (value.text, value.best_text)


def _hours(run: Training) -> str:
    return "" if run.gpu_hours is None else f"{run.gpu_hours:.3g}"


def recipe_rows(runs: Sequence[tuple[str, Training]], *, differing: bool = False) -> Rows:
    """A row for every setting of the recipes, by its dotted name, with a column for each run.

    Args:
        differing: leave out settings that are equal in all runs.
    """
    recipes = [flat(run.parts[-1]["recipe"]) for _, run in runs]
    names = list(dict.fromkeys(name for own in recipes for name in own))
    rows: Rows = [("setting", *(name for name, _ in runs))]
    for name in names:
        cells = [own.get(name, "") for own in recipes]
        if not differing or len(set(cells)) > 1:
            rows.append((name, *cells))
    return rows


def flat(values: Mapping[str, Any], where: str = "") -> dict[str, str]:
    """Nested tables as one table with dotted names, and values as texts."""
    settings: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{where}{name}.")
        elif isinstance(value, list | tuple):
            settings[where + name] = ", ".join(map(str, value))
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
            settings[where + name] = count(value)
        elif value is not None:
            settings[where + name] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return settings


def part_rows(run: Training) -> Rows:
    """A row for each part of a run: its first step, checkpoint, processes and machine."""
    rows: Rows = [("from step", "from", "processes", "steps trained again", "GPU", "commit")]
    for part in run.parts:
        environment = part["environment"]
        rows.append(
            (
                str(part["from_step"]),
                str(part["from"] or "the beginning"),
                str(part["processes"]),
                str(part["steps_trained_again"]),
                str(environment["gpu"] or "none"),
                str(environment["commit"] or ""),
            )
        )
    return rows


def validation_rows(run: Training) -> Rows:
    """A row for each validation and level, the latest first."""
    if not run.is_rl:
        levels = levels_of(run.sft_validations)
        rows: Rows = [("step", "loss", *map(level_name, levels))]
        for line in reversed(run.sft_validations):
            own = [line["by_level"].get(level) for level in levels]
            cells = ["" if loss is None else _exact(loss) for loss in own]
            rows.append((str(line["step"]), _exact(line["loss"]), *cells))
        return rows
    rows = [("step", "level", "programs", "pass@1", "faster", "speed-up of correct ones")]
    for validation in reversed(run.rl_validations):
        by_level = sorted(validation["by_level"].items(), key=lambda item: level_rank(item[0]))
        for level, figures in by_level:
            shown = [(figures[field], show) for field, _, show in LEVEL_FIGURES]
            cells = ["" if figure is None else show(figure) for figure, show in shown]
            step, programs = str(validation["step"]), str(figures["programs"])
            rows.append((step, level_name(level), programs, *cells))
    return rows


def ending_rows(run: Training) -> Rows:
    """A row for each outcome of rollouts: its share in the first and in the last tenth of steps."""
    edge = max(1, len(run.rl_steps) // EDGE)
    sides = (run.rl_steps[:edge], run.rl_steps[-edge:])
    endings = [[_endings(line) for line in side] for side in sides]
    names = dict.fromkeys(name for side in endings for own in side for name in own)
    meant = {
        name: [fmean(own.get(name, 0.0) for own in side) for side in endings] for name in names
    }
    rows: Rows = [("rollouts", *(_span(side) for side in sides))]
    for name, both in sorted(meant.items(), key=lambda item: -item[1][1]):
        rows.append((words.answer(name), *map(percent, both)))
    means = [_mean([line["reward"]["mean"] for line in side]) for side in sides]
    deviations = [_mean([line["reward"]["std"] for line in side]) for side in sides]
    rows += [("reward, mean", *means), ("reward, standard deviation", *deviations)]
    return rows


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return number(fmean(known)) if known else ""


def _endings(line: RlStepLine) -> dict[str, float]:
    accepted = {ACCEPTED: line["codes"].get(ACCEPTED, 0) / line["rollouts"]}
    return accepted | refused(line) | {"failures of the tool": line["infra"] / line["rollouts"]}


def _span(lines: Sequence[RlStepLine]) -> str:
    first, last = lines[0]["step"], lines[-1]["step"]
    return f"step {first}" if first == last else f"steps {first} to {last}"
