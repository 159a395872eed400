"""The first page of a site: a headline, a table of all runs and levels, and links to all pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.delivered import COMPILE, EAGER
from kernelwright.core.scores import Mean
from kernelwright.report.format import count, factor
from kernelwright.report.outcome import headline as headline_of_module
from kernelwright.report.rendering import asset, template
from kernelwright.report.site.pair import RunPair
from kernelwright.report.site.reading import NamedModule, NamedTraining, SiteRecords, SiteRun
from kernelwright.report.site.summary import RIVALS, Counted, LevelSummary
from kernelwright.report.suite.rows import Cell, TableRow
from kernelwright.report.suite.scores import BASELINES
from kernelwright.report.training.tables import values

NUM_VALUES = 3
"""Figures of a training run on the first page."""

Summaries = Sequence[tuple[SiteRun, Sequence[LevelSummary]]]
"""Each run with the summaries of its levels."""


@dataclass(frozen=True, slots=True)
class SiteLink:
    """A link of the first page, and a sentence about the page behind the link."""

    href: str
    name: str
    about: str


def page(
    records: SiteRecords,
    levels: Summaries,
    pairs: Sequence[RunPair],
    comparisons: Sequence[SiteLink],
) -> str:
    """The first page as HTML text.

    Args:
        records: training runs, modules and other files; `levels` has the runs of suites.
        levels: each run of a suite with the summaries of its levels.
        pairs: pairs of runs that have a page of their own.
        comparisons: links to pages that show several training runs in the same charts.
    """
    return template("site/index.html").render(
        sentences=sentences(levels),
        summary=level_rows(levels, "/index.html"),
        pairs=[_pair_link(pair) for pair in pairs],
        trainings=[*map(_training_link, records.trainings), *comparisons],
        modules=list(map(_module_link, records.modules)),
        measured=[(other.name, *figures) for other in records.others for figures in other.figures],
        others=[(other.name, other.counts) for other in records.others if not other.figures],
        stylesheet="style.css",
        script=asset("table.js"),
    )


def sentences(levels: Summaries) -> list[str]:
    """The headline, and a sentence about the number of runs and tasks.

    The headline covers the levels that were timed. If no level was timed, it covers all levels.
    """
    all_levels = [level for _, levels_of_run in levels for level in levels_of_run]
    if not all_levels:
        return ["This site has no run of a suite."]
    timed = [level for level in all_levels if level.is_timed]
    shown = timed or all_levels
    num_delivered = sum(level.delivered for level in shown)
    num_tasks = sum(level.tasks for level in shown)
    headline = f"Users get verified kernels for {count(num_delivered)} of {count(num_tasks)} tasks"
    place = f" in {_with_plural(len(timed), 'timed level')}."
    headline += place if timed else ". Nothing was timed."
    ranges = [text for name in RIVALS if (text := _range(name, timed))]
    if ranges:
        headline += f" As delivered: {', '.join(ranges)} (geometric means of levels)."
    tasks = count(sum(level.tasks for level in all_levels))
    return [headline, f"This site holds {_with_plural(len(levels), 'run')} with {tasks} tasks."]


def _with_plural(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{count(number)} {noun}s"


def _range(baseline: str, levels: Sequence[LevelSummary]) -> str:
    """The smallest and the largest mean over a baseline; "" if no level was timed against the
    baseline."""
    means = [level.means[baseline].value for level in levels if baseline in level.means]
    if not means:
        return ""
    low, high = factor(min(means)), factor(max(means))
    return f"{low if low == high else f'{low} to {high}'} over {BASELINES[baseline]}"


def level_rows(levels: Summaries, target: str) -> list[TableRow]:
    """A row for each level of each run.

    Args:
        target: the end of each link, "/index.html" for example. A link begins with the folder of
            the run. With "", rows have no links.
    """
    return [
        _level_row(run, level, f"{run.slug}{target}" if target else "")
        for run, levels_of_run in levels
        for level in levels_of_run
    ]


def _level_row(run: SiteRun, level: LevelSummary, link: str) -> TableRow:
    settings = f"{run.policy}, {run.mode}, {run.precision}"
    return TableRow(
        f"{level.suite} {level.level}",
        link,
        "timed" if level.is_timed else "not_timed",
        (
            Cell("run", settings, f"{run.device}; commit {run.commit}", is_number=False),
            _counted("correct", level.correct, level.tasks),
            _tasks("delivered", level.delivered, level.tasks),
            *(_faster(name, level) for name in (EAGER, COMPILE)),
            *(_mean(f"over {BASELINES[name]}", level.means.get(name), level) for name in RIVALS),
            _errors(level),
            _share(level.roofline, level),
        ),
    )


def _tasks(label: str, number: int, of: int, below: str = "") -> Cell:
    return Cell(label, f"{number} of {of}", below, value=number / of)


def _counted(label: str, counted: Counted, of: int) -> Cell:
    """A cell with a number of tasks, and below the number the tasks whose kernel is not
    delivered."""
    below = f"{counted.not_delivered} of them not delivered" if counted.not_delivered else ""
    return _tasks(label, counted.tasks, of, below)


def _faster(baseline: str, level: LevelSummary) -> Cell:
    label = f"faster than {BASELINES[baseline]}"
    counted = level.faster.get(baseline)
    return _counted(label, counted, level.tasks) if counted else Cell(label, "not timed")


def _mean(label: str, mean: Mean | None, level: LevelSummary) -> Cell:
    if mean is None:
        return Cell(label, "not timed")
    return Cell(label, factor(mean.value), _interval(mean, level), mean.value)


def _interval(mean: Mean, level: LevelSummary) -> str:
    """The interval of a mean. If the mean leaves out tasks, the number of its tasks follows."""
    num = f", n\u00a0=\u00a0{mean.num}" if mean.num < level.tasks else ""
    return f"{mean.low:.2f} to {mean.high:.2f}{num}"


def _errors(level: LevelSummary) -> Cell:
    label = "rms error against fp64"
    if level.errors is None:
        return Cell(label, "not recorded")
    below = f"PyTorch {level.errors.pytorch:.1e}"
    return Cell(label, f"{level.errors.kernels:.1e}", below, level.errors.kernels)


def _share(mean: Mean | None, level: LevelSummary) -> Cell:
    label = "of roofline"
    if mean is None:
        return Cell(label, "not recorded")
    return Cell(label, f"{100 * mean.value:.0f}%", _interval(mean, level), mean.value)


def _pair_link(pair: RunPair) -> SiteLink:
    about = f"{count(pair.tasks)} tasks in common, {pair.gained} gained, {pair.lost} lost"
    return SiteLink(f"compare/{pair.slug}.html", f"{pair.before.name} to {pair.after.name}", about)


def _training_link(training: NamedTraining) -> SiteLink:
    run = training.training
    figures = ", ".join(f"{value.name} {value.text}" for value in values(run)[:NUM_VALUES])
    about = f"{run.command}, {run.steps[-1]['step']} steps: {figures}"
    return SiteLink(f"training/{training.slug}.html", training.name, about)


def _module_link(module: NamedModule) -> SiteLink:
    top = headline_of_module(module.run)
    about = f"{top.title}: {top.text}{f' ({top.interval})' if top.interval else ''}"
    return SiteLink(f"modules/{module.slug}.html", module.name, about)
