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


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPair:
    """Two runs, and how they compare."""

    before: SiteRun
    after: SiteRun
    slug: str
    levels: list[LevelComparison]
    """Levels, and after several levels all tasks together."""

    @property
    def tasks(self) -> int:
        return self.levels[-1].programs

    @property
    def gained(self) -> int:
        return self.levels[-1].gained

    @property
    def lost(self) -> int:
        return self.levels[-1].lost


def compared(before: SiteRun, after: SiteRun) -> RunPair | None:
    """The comparison of two runs; None without a common task."""
    levels = compare_cases(cases_by_key(before.cases), cases_by_key(after.cases))
    if not levels:
        return None
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
    own = links[pair.after.slug]
    tasks = [
        task_row(case, after[key], f"../{pair.after.slug}/{own[key]}")
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
    """The row of a task that both runs have."""
    was, now = over_eager(before), over_eager(after)
    ratio = now / was if was and now else None
    return TableRow(
        case_name(after),
        link,
        _kind(before["correct"], after["correct"]),
        (
            Cell("before", _result(before), is_number=False),
            Cell("after", _result(after), is_number=False),
            _speed("over eager before", was),
            _speed("over eager after", now),
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
    """Each run beside the first run with a task in common, and beside the last such run before it.

    Every two of many runs would be too many pages: their number would grow with its square.
    """
    keys = [cases_by_key(run.cases).keys() for run in runs]
    pairs = []
    for number, after in enumerate(runs):
        earlier = [n for n in range(number) if not keys[n].isdisjoint(keys[number])]
        for other in sorted({*earlier[:1], *earlier[-1:]}):
            if (pair := compared(runs[other], after)) is not None:
                pairs.append(pair)
    return pairs
