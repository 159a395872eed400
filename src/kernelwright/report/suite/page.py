"""The page of a KernelBench run, from the records in its folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.scores import Mean
from kernelwright.report.format import factor, milliseconds
from kernelwright.report.rendering import asset, template
from kernelwright.report.suite.scores import (
    BASELINES,
    PUBLISHED,
    THRESHOLDS,
    Scores,
    cases_of,
    is_kept,
    place,
    roofline_share,
    scores_by_level,
    share_of_graph,
    speedup,
)
from kernelwright.report.suite.task_sets import SETS, task_sets

RECORDS, LINT, CROSS_CHECK, PAGE = "records.jsonl", "lint.jsonl", "cross_check.jsonl", "report.html"
"""In a run's folder; lint and the cross-check may be missing."""
MOST_ABOVE_FLOOR = 20

Rows = list[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    run: Record
    cases: list[Record]
    by_set: dict[str, list[Scores]]
    cross_check: list[Record]

    @property
    def disagreements(self) -> list[str]:
        """What its evaluator says of each kernel that it refuses, and what the judge measured."""
        errors = {(case["level"], case["id"]): case.get("errors") for case in self.cases}
        return [
            f"{line['level']}/{line['name']}: {line['issue']}"
            + _against_fp64(errors.get((line["level"], line["id"])))
            for line in self.cross_check
            if not line["agrees"]
        ]


def _against_fp64(errors: Record | None) -> str:
    if not errors:
        return ""
    ours, theirs = errors["max_candidate"], errors["max_reference"]
    return f" (largest error against float64: the kernel's {ours:.1e}, PyTorch's {theirs:.1e})"


def read_suite(folder: Path) -> Suite:
    """The run in a folder that `eval kernelbench` wrote.

    Raises:
        UsageError: it has no run, or no case yet.
    """
    lines = _read(folder / RECORDS)
    run = next((line for line in lines if line["record"] == "run"), None)
    cases = cases_of(lines)
    if run is None or not cases:
        raise UsageError("no cases of a run", file=str(folder / RECORDS))
    sets = task_sets({place(case) for case in cases}, _read(folder / LINT))
    checked = {(line["level"], line["id"]): line for line in _read(folder / CROSS_CHECK)}
    return Suite(
        run=run,
        cases=cases,
        by_set={name: scores_by_level(cases, sets[name]) for name in SETS},
        cross_check=[checked[key] for key in sorted(checked)],
    )


def _read(path: Path) -> list[Record]:
    return list(record.read(path)) if path.exists() else []


def write_suite(folder: Path) -> Suite:
    """Write `report.html` into the folder."""
    suite = read_suite(folder)
    (folder / PAGE).write_text(page(suite), encoding="utf-8")
    return suite


def page(suite: Suite) -> str:
    """HTML text."""
    return template("suite.html").render(
        run=suite.run,
        case=suite.cases[0],
        facts=_facts(suite),
        sets=[(name, SETS[name], scores) for name, scores in suite.by_set.items() if scores],
        counts=counts,
        means=means,
        fast=fast,
        spent=spent,
        above=above_floor(suite.cases),
        tasks=[_task(case) for case in suite.cases],
        checked=len(suite.cross_check),
        disagreements=suite.disagreements,
        style=asset("style.css"),
    )


def _facts(suite: Suite) -> list[str]:
    """What all figures rest on."""
    options, environment = suite.run["options"], suite.run["environment"]
    device = str(environment["gpu"] or "CPU, no times").split(",")[0]
    flags = {_flags(case["tf32"]) for case in suite.cases if case.get("tf32")}
    stated = [f"TF32 on all sides: {each}" for each in sorted(flags)]
    return [
        f"policy {suite.run['policy']}",
        options["mode"],
        options["precision"],
        device,
        f"torch {environment['versions']['torch']}",
        f"commit {environment['commit']}",
        f"search budget {options['budget_s']:g} s a task",
        *stated,
    ]


def _flags(tf32: dict[str, bool]) -> str:
    return ", ".join(f"{name} {'on' if is_on else 'off'}" for name, is_on in tf32.items())


def counts(scores: Sequence[Scores], *, published: bool) -> Rows:
    """A heading, then for each level how many tasks are correct and how many beat each baseline.

    Args:
        published: DRTriton's figures too, which are over all tasks.
    """
    names = {each.baseline for level in scores for each in level.against}
    baselines = [name for name in BASELINES if name in names]
    head = (
        "level",
        "tasks",
        "correct",
        "kept",
        *(f"beats {BASELINES[name]}" for name in baselines),
    )
    rows: Rows = [(*head, "published, %") if published else head]
    for level in scores:
        beaten = {each.baseline: str(each.beats) for each in level.against}
        cells = [beaten.get(name, "not timed") for name in baselines]
        theirs = [" / ".join(map(str, PUBLISHED.get(level.level, ())))] if published else []
        numbers = map(str, (level.tasks, level.correct, level.kept))
        rows.append((level.level, *numbers, *cells, *theirs))
    return rows


def means(scores: Sequence[Scores]) -> Rows:
    """Geometric means over correct tasks, and over all as a user has them, with and without
    algebra and graphs."""
    heads = ("correct tasks", "all tasks as used", "without algebra", "without graphs")
    rows: Rows = [("level", "against", *heads, "stay PyTorch")]
    for level in scores:
        stay = str(len(level.not_won))
        for each in level.against:
            label = BASELINES[each.baseline]
            found = map(_mean, (each.correct, each.used, each.without_algebra, each.launched))
            rows.append((level.level, label, *found, stay))
    return rows


def _mean(mean: Mean) -> str:
    return f"{factor(mean.value)} ({mean.low:.2f} to {mean.high:.2f}), n = {mean.num}"


def fast(scores: Sequence[Scores]) -> Rows:
    """fast_p by level and baseline."""
    rows: Rows = [("level", "against", *(f"p = {p:g}" for p in THRESHOLDS))]
    for level in scores:
        for each in level.against:
            label = BASELINES[each.baseline]
            rows.append((level.level, label, *(f"{share:.2f}" for share in each.fast)))
    return rows


def spent(scores: Sequence[Scores]) -> Rows:
    """What it took, what rewrites had a part in, how near the hardware's limit it is, pass@k."""
    rows: Rows = [("level", "seconds", "candidates", "won with algebra", "won with other rewrites",
                   "won as a graph", "of the roofline", "pass@k")]  # fmt: skip
    for level in scores:
        tried = ", ".join(f"k = {k}: {share:.3f}" for k, share in level.pass_at.items())
        roofline = f"{level.roofline.value:.2f}, n = {level.roofline.num}" if level.roofline else ""
        algebra = _with_names(level.by_algebra, level.algebra)
        others = _with_names(level.by_rewrites, level.rewrites)
        numbers = (f"{level.seconds:.0f}", str(level.candidates))
        graphs = f"{level.graphs} ({level.graphs_needed} not otherwise)" if level.graphs else "0"
        rows.append((level.level, *numbers, algebra, others, graphs, roofline, tried))
    return rows


def _with_names(count: int, names: dict[str, int]) -> str:
    each = ", ".join(f"{name} {times}" for name, times in sorted(names.items()))
    return f"{count} ({each})" if each else str(count)


def above_floor(cases: Sequence[Record]) -> Rows:
    """The tasks furthest above the least time that their bytes and FLOPs allow."""
    found = [
        (used["median_ms"] / case["floor_ms"], used["median_ms"], case)
        for case in cases
        if case.get("floor_ms") and (used := case.get("optimized" if is_kept(case) else "eager"))
    ]
    found.sort(key=lambda each: -each[0])
    return [
        (
            f"{case['level']}/{case['name']}",
            "ours" if is_kept(case) else "PyTorch",
            milliseconds(used_ms),
            milliseconds(case["floor_ms"]),
            factor(above),
        )
        for above, used_ms, case in found[:MOST_ABOVE_FLOOR]
    ]


def _task(case: Record) -> dict[str, object]:
    """One row of the table of all tasks."""
    share, errors = roofline_share(case), case.get("errors")
    ours = case.get("optimized")
    return {
        "name": f"{case['level']}/{case['name']}",
        "correct": case["correct"],
        "outcome": _outcome(case),
        "time": _interval(ours) if ours else "",
        "against": [_speedup(case, name) for name in BASELINES],
        "errors": f"{errors['rms_candidate']:.1e} / {errors['rms_reference']:.1e}"
        if errors
        else "",
        "roofline": f"{share:.2f}" if share is not None else "",
        "algebra": ", ".join(case.get("algebra", ())),
        "rewrites": ", ".join(case.get("rewrites", ())),
        "graph": f"{share_of_graph(case):.2f}" if case.get("graph") else "",
        "seconds": f"{case['seconds']:.0f}" if "seconds" in case else "",
        "candidates": case.get("candidates", ""),
    }


def _outcome(case: Record) -> str:
    if case["correct"]:
        return str(case["code"]) + ("" if is_kept(case) else ", not kept")
    return f"{case['code']}: {case['message'][:200]}"


def _interval(timing: Record) -> str:
    low, high = milliseconds(timing["low_ms"]), milliseconds(timing["high_ms"])
    return f"{milliseconds(timing['median_ms'])} ({low} to {high})"


def _speedup(case: Record, baseline: str) -> str:
    """The ratio with its interval, or why there is none."""
    ratio = speedup(case, baseline)
    if ratio is None:
        return "fails" if baseline in case.get("baselines_failed", {}) else ""
    low, high = case["speedup_intervals"][baseline]
    return f"{ratio:.2f} ({low:.2f} to {high:.2f})"
