"""The page of a KernelBench run, from the records in its folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kernelwright.core import record
from kernelwright.core.commits import distinct, named
from kernelwright.core.delivered import BETTER
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.fields import ErrorFields
from kernelwright.core.kinds.suites import CaseLine, CrossCheckLine, SuiteRunLine
from kernelwright.report import words
from kernelwright.report.format import factor
from kernelwright.report.page import render
from kernelwright.report.rendering import asset, template, write_page
from kernelwright.report.suite.chart import speed_chart
from kernelwright.report.suite.rows import KINDS, row_of
from kernelwright.report.suite.scores import (
    BASELINES,
    Scores,
    cases_of,
    is_timed,
    place,
    scores_by_level,
    scores_of,
)
from kernelwright.report.suite.tables import above_floor, counts, fast, means, spent
from kernelwright.report.suite.task_sets import SETS, task_sets

RECORDS, LINT, CROSS_CHECK, PAGE = "records.jsonl", "lint.jsonl", "cross_check.jsonl", "report.html"
"""In a run's folder; lint and the cross-check may be missing."""
WORK = "work"
"""In a run's folder: a folder for each case, by level and name."""

Key = tuple[str, int, int]
"""Level, number and sample of a case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """The records of a run of `eval kernelbench`, with scores for each set of tasks."""

    run: SuiteRunLine
    cases: list[CaseLine]
    by_set: dict[str, list[Scores]]
    cross_check: list[CrossCheckLine]

    @property
    def disagreements(self) -> list[str]:
        """The messages of KernelBench's evaluator about kernels that it refuses, and the judge's
        measurements."""
        errors = {(case["level"], case["id"]): case.get("errors") for case in self.cases}
        return [
            f"{line['level']}/{line['name']}: {line['issue']}"
            + _against_fp64(errors.get((line["level"], line["id"])))
            for line in self.cross_check
            if not line["agrees"]
        ]


def _against_fp64(errors: ErrorFields | None) -> str:
    if not errors:
        return ""
    ours, theirs = errors["max_candidate"], errors["max_reference"]
    return f" (largest error against float64: the kernel's {ours:.1e}, PyTorch's {theirs:.1e})"


def read_suite(folder: Path) -> Suite:
    """The run in a folder that `eval kernelbench` wrote.

    Raises:
        UsageError: the folder has no run, or no case yet.
    """
    lines = record.whole_lines(folder / RECORDS)
    run = next(record.of_kind(lines, SuiteRunLine), None)
    cases = cases_of(lines)
    if run is None or not cases:
        remedy = "run eval kernelbench for longer"
        raise UsageError("no cases of a run", file=str(folder / RECORDS), remedy=remedy)
    sets = task_sets({place(case) for case in cases}, record.whole_lines(folder / LINT))
    judged_again = record.of_kind(record.whole_lines(folder / CROSS_CHECK), CrossCheckLine)
    checked = {(line["level"], line["id"]): line for line in judged_again}
    return Suite(
        run=run,
        cases=cases,
        by_set={name: scores_by_level(cases, sets[name]) for name in SETS},
        cross_check=[checked[key] for key in sorted(checked)],
    )


def write_suite(folder: Path) -> Suite:
    """Write `report.html` into the folder, and a page of each task that has records."""
    suite = read_suite(folder)
    links = {key: link for key, link in _task_pages(folder, suite.cases) if link}
    write_page(folder / PAGE, page(suite, links))
    return suite


def _task_pages(folder: Path, cases: Sequence[CaseLine]) -> Iterator[tuple[Key, str]]:
    """Each case's key with the path of its page, relative to the folder; empty without a page.

    A page that is missing or older than its records is written.
    """
    for case in cases:
        path = folder / WORK / case["level"] / case["name"] / PAGE
        records = path.with_name(RECORDS)
        if records.is_file() and not _is_newer(path, records):
            with suppress(UsageError):  # its search did not end
                render(records, path)
        yield _key(case), path.relative_to(folder).as_posix() if path.is_file() else ""


def _is_newer(path: Path, other: Path) -> bool:
    return path.is_file() and path.stat().st_mtime >= other.stat().st_mtime


def _key(case: CaseLine) -> Key:
    return case["level"], case["id"], case["sample"]


def page(suite: Suite, links: Mapping[Key, str] = MappingProxyType({})) -> str:
    """The page of a run as HTML text.

    Args:
        links: case -> path of its own page, relative to this page.
    """
    baselines = [name for name in BASELINES if is_timed(name, suite.cases)]
    is_mixed = len(distinct(case.get("commit", "") for case in suite.cases)) > 1
    return template("suite.html").render(
        run=suite.run,
        sentence=sentence(suite),
        facts=_facts(suite),
        chart=speed_chart(suite.cases),
        sets=[(name, SETS[name], scores) for name, scores in suite.by_set.items() if scores],
        counts=counts,
        means=means,
        fast=fast,
        spent=spent,
        words=words,
        above=above_floor(suite.cases),
        tasks=[
            row_of(case, baselines, links.get(_key(case), ""), is_mixed=is_mixed)
            for case in suite.cases
        ],
        kinds=KINDS,
        checked=len(suite.cross_check),
        disagreements=suite.disagreements,
        style=asset("style.css"),
        script=asset("table.js"),
    )


def sentence(suite: Suite) -> str:
    """Two sentences about a run, over all of its levels; one if nothing was timed."""
    scores = scores_of("all", suite.cases)
    labels = {**BASELINES, BETTER: "the better of eager and torch.compile"}
    against = [(labels[score.baseline], score) for score in scores.against]
    parts = [f"{scores.correct} of {scores.tasks} correct"]
    parts += [f"{score.beats} faster than {label}" for label, score in against]
    counts = ", ".join(parts) + "."
    if not against:
        return counts
    means = [f"{factor(score.delivered.value)} over {label}" for label, score in against]
    return f"As delivered: {', '.join(means)} (geometric means). {counts}"


def _facts(suite: Suite) -> list[str]:
    """The settings that all figures rest on."""
    options, environment = suite.run["options"], suite.run["environment"]
    device = str(environment["gpu"] or "CPU, no times").split(",")[0]
    flags = {_flags(case["tf32"]) for case in suite.cases if case.get("tf32")}
    stated = [f"TF32 on all sides: {flag}" for flag in sorted(flags)]
    return [
        f"written by: {suite.run['policy']}",
        f"mode: {options['mode']}",
        f"precision: {options['precision']}",
        *([f"cast to {dtype}"] if (dtype := suite.run.get("dtype")) else []),
        device,
        f"torch {environment['versions']['torch']}",
        f"commit {named(case.get('commit', '') for case in suite.cases)}",
        f"budget: {options['budget_s']:g} s a task",
        *stated,
    ]


def _flags(tf32: dict[str, bool]) -> str:
    return ", ".join(f"{name} {'on' if is_on else 'off'}" for name, is_on in tf32.items())
