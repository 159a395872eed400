"""Tables and page of a run of `eval models`, from its records alone."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kernelwright.core import record
from kernelwright.core.commits import named, with_commits
from kernelwright.core.delivered import COMPILE, EAGER
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.fields import TimingFields
from kernelwright.core.kinds.models import ModelBlocksLine, ModelCaseLine, ModelsRunLine
from kernelwright.core.scores import geometric_mean
from kernelwright.report.format import Rows, factor, quantity
from kernelwright.report.rendering import asset, template, write_page
from kernelwright.report.suite.page import PAGE, RECORDS

COMMAND = "eval models"
TIMED = "optimized"
"""The name of the backend's figures in a record."""
MOST_REASONS = 20

CaseKey = tuple[str, str, str, int, str | None]
"""Model, dtype, phase, batch size, and path of the block. The path is None for a whole model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsReport:
    """The records of a run of `eval models`."""

    run: ModelsRunLine
    cases: list[ModelCaseLine]
    commits: list[str]
    """The commit of each record of a case, in the order of the file."""


def read_models(folder: Path) -> ModelsReport:
    """The records of a run of `eval models`, from its folder.

    Raises:
        UsageError: the folder has no run of `eval models`, or the run has no case yet.
    """
    path = folder / RECORDS
    lines = list(record.read(path, whole=True)) if record.command_of(path) == COMMAND else []
    cases = last_cases(record.of_kind(lines, ModelCaseLine))
    if not cases:
        raise UsageError("no models of a run", file=str(path), remedy="run eval models for longer")
    word = record.word_of(ModelCaseLine)
    commits = [commit for line, commit in with_commits(lines) if line["record"] == word]
    run = next(record.of_kind(lines, ModelsRunLine))
    return ModelsReport(run=run, cases=cases, commits=commits)


def last_cases(lines: Iterable[ModelCaseLine]) -> list[ModelCaseLine]:
    """The last record of each case, in the order of the cases' first records."""
    return list({case_key(line): line for line in lines}.values())


def case_key(line: ModelCaseLine | ModelBlocksLine) -> CaseKey:
    """The fields that tell cases apart. The record of a model's blocks has the key of the whole
    model."""
    block = cast(ModelCaseLine, line).get("block")
    path = block["name"] if block else None
    return line["model"], line["dtype"], line["phase"], line["batch"], path


def write_models(folder: Path) -> ModelsReport:
    """Write `report.html` into the folder of a run, and return the records of the run.

    Raises:
        UsageError: as `read_models`.
    """
    report = read_models(folder)
    options, environment = report.run["options"], report.run["environment"]
    html = template("models.html").render(
        title="Models compiled with our backend",
        command=COMMAND,
        sentence=sentence(report.cases),
        facts=[
            str(environment["gpu"] or "CPU interpreter, no times").split(",")[0],
            f"torch {environment['versions']['torch']}",
            f"commit {named(report.commits)}",
            f"budget: {options['budget_s']:g} s a graph",
            *(["small sizes"] if options["is_small"] else []),
        ],
        cases=case_rows(report.cases),
        reasons=reason_rows(report.cases),
        style=asset("style.css"),
    )
    write_page(folder / PAGE, html)
    return report


def sentence(cases: Sequence[ModelCaseLine]) -> str:
    """The number of cases that ran, of correct cases, and the mean speed-ups of correct cases."""
    ran = [case for case in cases if "failed" not in case]
    correct = [case for case in ran if is_correct(case)]
    parts = [f"{len(ran)} of {len(cases)} cases ran", f"{len(correct)} correct"]
    for name, label in ((EAGER, "eager"), (COMPILE, "torch.compile")):
        ratios = [ratio for case in correct if (ratio := ratio_over(case, name)) is not None]
        if ratios:
            mean = geometric_mean(ratios).value
            parts.append(f"{factor(mean)} over {label} (geometric mean of {len(ratios)})")
    return ", ".join(parts) + "."


def is_correct(case: ModelCaseLine) -> bool:
    """Whether the values of the backend pass the judge's comparison."""
    return case.get("correct", {}).get(TIMED, False)


def ratio_over(case: ModelCaseLine, side: str) -> float | None:
    """The speed-up of the backend over a side: the ratio of median times. None if a time is
    missing.

    Args:
        side: `EAGER` or `COMPILE`.
    """
    timing, timing_of_backend = _timing(case, side), _timing(case, TIMED)
    if timing is None or timing_of_backend is None:
        return None
    return timing["median_ms"] / timing_of_backend["median_ms"]


def _timing(case: ModelCaseLine, side: str) -> TimingFields | None:
    timings = {EAGER: case.get("eager"), COMPILE: case.get("compiled")}
    return {**timings, TIMED: case.get("optimized")}[side]


def case_rows(cases: Sequence[ModelCaseLine]) -> Rows:
    """A heading, then a row for each case. A cell is empty if its figure was not measured."""
    head = ("model", "call", "correct", "over eager", "over torch.compile", "our share")
    rows: Rows = [(*head, "compile, s", "memory", "left to Inductor")]
    for case in cases:
        call = f"{case['phase']} {case['batch']}, {case['dtype']}"
        if "failed" in case:
            rows.append((_name(case), call, "", "", "", "", "", "", f"failed: {case['failed']}"))
            continue
        share = case.get("share")
        rows.append(
            (
                _name(case),
                call,
                "yes" if is_correct(case) else "no",
                _over(case, EAGER),
                _over(case, COMPILE),
                "" if share is None else f"{share:.0%}",
                " / ".join(_seconds(case)),
                " / ".join(_memory(case)),
                _left(case),
            )
        )
    return rows


def _name(case: ModelCaseLine) -> str:
    block = case["block"]
    if block is None:
        return case["model"]
    return f"{case['model']} {block['name']} ({block['count']}x {block['kind']})"


def _over(case: ModelCaseLine, side: str) -> str:
    ratio = ratio_over(case, side)
    if ratio is None:
        return ""
    ends = case["speedup_intervals"].get(side)
    interval = f" ({ends[0]:.2f} to {ends[1]:.2f})" if ends else ""
    return f"{factor(ratio)}{interval}"


def _seconds(case: ModelCaseLine) -> Iterator[str]:
    """Seconds of the first call, with the backend (its library is filled) and with
    torch.compile."""
    for side in (TIMED, COMPILE):
        seconds = case["compile_s"].get(side)
        yield "none" if seconds is None else f"{seconds:.1f}"


def _memory(case: ModelCaseLine) -> Iterator[str]:
    """The most GPU memory of a call, with the backend and with torch.compile."""
    peaks = case.get("peak_bytes") or {}
    return (quantity(peaks[side], "B") for side in (TIMED, COMPILE) if side in peaks)


def _left(case: ModelCaseLine) -> str:
    """The numbers of graphs without our kernels, and of fragments that Inductor's code computes."""
    if failed := case["sides_failed"].get(TIMED):
        return f"failed: {failed}"
    graphs = case["graphs"]
    without = sum(not graph["kernels"] for graph in graphs)
    fragments = sum(len(graph["left"]) for graph in graphs)
    noun = "fragment" if fragments == 1 else "fragments"
    return f"{without} of {len(graphs)} graphs, {fragments} {noun}"


def reason_rows(cases: Sequence[ModelCaseLine]) -> Rows:
    """A heading, then the reasons why Inductor's code computes graphs and fragments. The most
    frequent reasons are first."""
    graphs = [graph for case in cases for graph in case.get("graphs", [])]
    counts = Counter(("graph", _brief(g["why"])) for g in graphs if not g["kernels"])
    counts.update(("fragment", _brief(part["why"])) for g in graphs for part in g["left"])
    counts.update(("search", why) for case in cases for why in case.get("searches_failed", []))
    rows = [(part, why, str(count)) for (part, why), count in counts.most_common(MOST_REASONS)]
    return [("left to Inductor", "why", "number"), *rows]


def _brief(why: str) -> str:
    """A reason without the text in brackets, which has figures of one case."""
    return re.sub(r" \([^()]*(\([^()]*\))?[^()]*\)", "", why)
