"""The page of a training run, and the one that lays the curves of several over each other."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from kernelwright.core.kinds.training import AuditLine, ExampleLine
from kernelwright.report import words
from kernelwright.report.curves import MOST_POINTS, number
from kernelwright.report.format import factor, quantity
from kernelwright.report.naming import names_of
from kernelwright.report.rendering import asset, template, write_page
from kernelwright.report.sections import code
from kernelwright.report.suite.page import PAGE
from kernelwright.report.training.curves import charts, comparisons
from kernelwright.report.training.run import Training
from kernelwright.report.training.tables import (
    ending_rows,
    flat,
    part_rows,
    recipe_rows,
    validation_rows,
    value_rows,
    values,
)

COMPARISON = "comparison.html"
"""In the folder of the first of the runs that are compared."""
NUM_TILES = 4
MOST_AUDITS = 40
_CALL = re.compile(r"= (?:torch|F|torch\.nn\.functional)\.(\w+)\(")


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer or a source, with the verdict on it."""

    step: int
    text: Markup
    outcome: str
    is_accepted: bool
    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The program of an answer."""

    name: str
    text: Markup


@dataclass(frozen=True, slots=True)
class Audit:
    program: Asked
    reward: str
    judged: Judged
    agrees: bool


@dataclass(frozen=True, slots=True)
class Example:
    """The answers to one program, early and late."""

    program: Asked
    before: Judged
    after: Judged


def write_training(run: Training) -> Path:
    """Write `report.html` into the run's folder, and return its path."""
    path = run.folder / PAGE
    write_page(path, page(run))
    return path


def write_comparison(runs: Sequence[Training]) -> Path:
    """Write `comparison.html` into the first run's folder, and return its path.

    Args:
        runs: of the same command.
    """
    path = runs[0].folder / COMPARISON
    write_page(path, comparison(runs))
    return path


def page(run: Training, home: str = "") -> str:
    """The page of a run as HTML text.

    Args:
        home: the first page of the site that the page is part of, as a relative path.
    """
    name = run.folder.resolve().name
    part = run.parts[-1]
    return template("training.html").render(
        run=run,
        home=home,
        name=name,
        facts=_facts(run),
        tiles=values(run)[:NUM_TILES],
        values=value_rows([(name, run)]),
        charts=charts(run),
        most_points=MOST_POINTS,
        validations=validation_rows(run) if run.validations else [],
        endings=ending_rows(run) if run.is_rl else [],
        audits=_audits(run),
        examples=_examples(run),
        recipe=recipe_rows([("value", run)]),
        data=[("", "value"), *flat(part.get("data", {})).items()],
        environment=[("", "value"), *flat(part["environment"]).items()],
        parts=part_rows(run),
        style=asset("style.css"),
    )


def comparison(runs: Sequence[Training], home: str = "") -> str:
    """The page that compares runs of one command, as HTML text.

    Args:
        home: the first page of the site that the page is part of, as a relative path.
    """
    named = list(zip(names_of([run.folder for run in runs]), runs, strict=True))
    return template("comparison.html").render(
        home=home,
        command=runs[0].command,
        names=[name for name, _ in named],
        values=value_rows(named),
        differing=recipe_rows(named, differing=True),
        charts=comparisons(named),
        most_points=MOST_POINTS,
        style=asset("style.css"),
    )


def _facts(run: Training) -> list[str]:
    """The settings that all figures rest on."""
    part = run.parts[-1]
    environment, recipe = part["environment"], part["recipe"]
    gpu, processes = environment["gpu"], part["processes"]
    several = f"{processes} x " if processes > 1 else ""
    resumed = len(run.parts) - 1
    hours, peak = run.gpu_hours, run.summary.get("gpu_peak_bytes")
    return [
        several + (str(gpu).split(",")[0] if gpu else "CPU"),
        f"{run.steps[-1]['step']} steps",
        *([f"{hours:.3g} GPU-hours"] if hours is not None else []),
        *([f"{quantity(peak, 'B')} at most on a GPU"] if peak else []),
        *([f"resumed {resumed}x"] if resumed else []),
        f"seed {recipe['seed']}",
        f"torch {environment['versions']['torch']}",
        f"commit {environment['commit']}",
        *([] if run.summary else ["not ended"]),
    ]


def _audits(run: Training) -> list[Audit]:
    """The audits, the most rewarded answers first, at most MOST_AUDITS."""
    first = sorted(run.audits, key=lambda line: -line["reward"])[:MOST_AUDITS]
    return [
        Audit(
            program=_asked(line["program"], f"p{i}"),
            reward=number(line["reward"]),
            judged=_judged(line, line["source"], f"a{i}"),
            agrees=line["agrees"],
        )
        for i, line in enumerate(first)
    ]


def _examples(run: Training) -> list[Example]:
    """The first and the last answer to each program that was asked more than once."""
    by_program: dict[str, list[ExampleLine]] = {}
    for line in sorted(run.examples, key=lambda line: line["step"]):
        by_program.setdefault(line["program"], []).append(line)
    return [
        Example(
            program=_asked(program, f"q{i}"),
            before=_judged(lines[0], lines[0]["text"], f"b{i}"),
            after=_judged(lines[-1], lines[-1]["text"], f"c{i}"),
        )
        for i, (program, lines) in enumerate(by_program.items())
        if len(lines) > 1
    ]


def _judged(line: AuditLine | ExampleLine, text: str, name: str) -> Judged:
    verdict = line["verdict"]
    outcome, message = "no candidate in it", ""
    if verdict is not None:
        outcome, message = words.outcome(verdict["code"]), words.message(verdict["message"])
        if verdict["accepted"]:
            speedup = verdict.get("speedup")
            outcome = f"accepted, {factor(speedup)}" if speedup else "accepted"
            message = ""
    return Judged(
        step=line["step"],
        text=code(text, name),
        outcome=outcome,
        is_accepted=verdict is not None and verdict["accepted"],
        message=message,
    )


def _asked(program: str, name: str) -> Asked:
    """A program with its operators as name. A text without calls is the name itself."""
    calls = _CALL.findall(program.partition("def fused_operator(")[2])
    return Asked(", ".join(calls) or program, code(program, name))
