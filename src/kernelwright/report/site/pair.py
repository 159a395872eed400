"""The page that compares two runs on the same tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report.format import factor
from kernelwright.report.rendering import asset, template
from kernelwright.report.site.reading import SiteRun
from kernelwright.report.suite import failures
from kernelwright.report.suite.compare import (
    ALL,
    Key,
    LevelComparison,
    cases_by_key,
    compare_cases,
    over_eager,
    rows,
)
from kernelwright.report.suite.rows import Cell, TableRow, case_name

KINDS = {
    "lost": "lost",
    "gained": "gained",
    "both": "correct in both",
    "neither": "correct in neither",
}
"""Kinds of tasks by the correctness of both answers, with the words of the page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPair:
    """Two runs, and the comparison of their answers to common tasks."""

    before: SiteRun
    after: SiteRun
    slug: str
    levels: list[LevelComparison]
    """The comparison of each level. If there are several levels, the last entry covers all
    tasks."""

    @property
    def tasks(self) -> int:
        """The number of common tasks."""
        return self.levels[-1].programs

    @property
    def gained(self) -> int:
        """Answers that are correct in the second run alone."""
        return self.levels[-1].gained

    @property
    def lost(self) -> int:
        """Answers that are correct in the first run alone."""
        return self.levels[-1].lost


def compared(before: SiteRun, after: SiteRun) -> RunPair | None:
    """The comparison of two runs; None without a common task."""
    levels = compare_cases(cases_by_key(before.cases), cases_by_key(after.cases))
    if not levels:
        return None
    # The row for all tasks would repeat the row of a single level.
    if len(levels) == 2 and levels[-1].level == ALL:
        levels = levels[:1]
    slug = f"{before.slug}--{after.slug}"
    return RunPair(before=before, after=after, slug=slug, levels=levels)


def page(pair: RunPair, links: Mapping[str, Mapping[Key, str]]) -> str:
    """The page of a comparison as HTML text.

    Args:
        links: folder of a run in the site -> case -> its page in that folder.
    """
    before, after = cases_by_key(pair.before.cases), cases_by_key(pair.after.cases)
    pages = links[pair.after.slug]
    tasks = [
        task_row(case, after[key], f"../{pair.after.slug}/{pages[key]}")
        for key, case in before.items()
        if key in after
    ]
    return template("site/pair.html").render(
        pair=pair,
        levels=rows(pair.levels),
        changed={kind: [row for row in tasks if row.kind == kind] for kind in ("lost", "gained")},
        tasks=tasks,
        kinds=KINDS,
        stylesheet="../style.css",
        script=asset("table.js"),
    )


def task_row(before: CaseLine, after: CaseLine, link: str) -> TableRow:
    """The row of a task that both runs have.

    Args:
        before: the case of the first run.
        after: the case of the second run.
        link: path of the task's page in the second run.
    """
    speedup_before, speedup_after = over_eager(before), over_eager(after)
    ratio = speedup_after / speedup_before if speedup_before and speedup_after else None
    return TableRow(
        case_name(after),
        link,
        _kind(before["correct"], after["correct"]),
        (
            Cell("before", _result(before), is_number=False),
            Cell("after", _result(after), is_number=False),
            _speed("over eager before", speedup_before),
            _speed("over eager after", speedup_after),
            _speed("after over before", ratio),
        ),
    )


def _kind(was_correct: bool, is_correct: bool) -> str:
    if was_correct:
        return "both" if is_correct else "lost"
    return "gained" if is_correct else "neither"


def _result(case: CaseLine) -> str:
    return "correct" if case["correct"] else failures.reason(case)


def _speed(label: str, ratio: float | None) -> Cell:
    return Cell(label) if ratio is None else Cell(label, factor(ratio), value=ratio)


def pairs_of(runs: Sequence[SiteRun]) -> list[RunPair]:
    """The comparisons of a site, in the order of the runs.

    A run is compared with two earlier runs that have a common task: the first such run and the
    last such run. A page for every pair of runs would be too many pages: their number would grow
    with the square of the number of runs.
    """
    keys = [cases_by_key(run.cases).keys() for run in runs]
    pairs = []
    for index, after in enumerate(runs):
        earlier = [i for i in range(index) if not keys[i].isdisjoint(keys[index])]
        for before in sorted({*earlier[:1], *earlier[-1:]}):
            if (pair := compared(runs[before], after)) is not None:
                pairs.append(pair)
    return pairs
