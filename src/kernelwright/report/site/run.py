"""The page of one run: charts, the table of all tasks, reasons of failures."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kernelwright.core.delivered import form_of
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report import words
from kernelwright.report.format import Rows
from kernelwright.report.rendering import asset, template
from kernelwright.report.site.charts import figures
from kernelwright.report.site.index import level_rows
from kernelwright.report.site.reading import SiteRun
from kernelwright.report.site.summary import LevelSummary, first_samples
from kernelwright.report.suite import failures
from kernelwright.report.suite.compare import Key, key_of
from kernelwright.report.suite.rows import KINDS, row_of
from kernelwright.report.suite.scores import BASELINES, is_timed

MOST_NAMED = 8
"""The most tasks whose names stand beside a reason. The table of tasks has all names."""


def page(run: SiteRun, levels: Sequence[LevelSummary], links: Mapping[Key, str]) -> str:
    """The page of a run as HTML text.

    Args:
        levels: the summary of each level of the run.
        links: case -> name of the task's page, which lies beside this page.
    """
    baselines = [name for name in BASELINES if is_timed(name, run.cases)]
    return template("site/run.html").render(
        run=run,
        summary=level_rows([(run, levels)], ""),
        figures=figures(run.cases),
        delivered=delivered_rows(run.cases),
        reasons=reason_rows(run.cases),
        refused=refused_rows(run.cases),
        tasks=[row_of(case, baselines, links[key_of(case)]) for case in run.cases],
        kinds=KINDS,
        stylesheet="../style.css",
        script=asset("table.js"),
    )


def delivered_rows(cases: Sequence[CaseLine]) -> Rows:
    """A heading, then for each form of a result the number of tasks whose user gets this form."""
    counts = Counter(form_of(case) for case in first_samples(cases))
    rows: Rows = [("the user gets", "tasks")]
    return [*rows, *((words.form(form), str(number)) for form, number in counts.most_common())]


def reason_rows(cases: Sequence[CaseLine]) -> Rows:
    """A heading, then a row for each reason why answers are not correct, the most frequent
    first."""
    wrong: dict[str, list[CaseLine]] = {}
    for case in cases:
        if not case["correct"]:
            wrong.setdefault(failures.reason(case), []).append(case)
    rows: Rows = [("reason", "answers", "tasks")]
    for reason, failed in sorted(wrong.items(), key=lambda item: -len(item[1])):
        names = [case["name"] for case in failed[:MOST_NAMED]]
        more = f" and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
        text = f"{reason} {failures.meaning(failed[0])}".strip()
        rows.append((text, str(len(failed)), f"{', '.join(names)}{more}"))
    return rows


def refused_rows(cases: Sequence[CaseLine]) -> Rows:
    """A heading, then a row for each reason why searches refused candidates: the number of tasks
    where a candidate was refused for this reason, and the meaning of the reason."""
    counts = Counter(code for case in cases for code in case.get("rejected", {}))
    rows: Rows = [("candidates were refused because", "tasks", "meaning")]
    for code, number in counts.most_common():
        rows.append((words.outcome(code), str(number), words.meaning(code)))
    return rows
