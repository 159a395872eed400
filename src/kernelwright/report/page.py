"""The report page: one HTML file that needs no network and shows only what records say.

Kernels, messages and schedules are written by models: everything goes through autoescaping.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kernelwright.report import format as text
from kernelwright.report.graph import draw
from kernelwright.report.roofline import chart
from kernelwright.report.run import Run, read_run
from kernelwright.report.sections import (
    bar_groups,
    code,
    colors_of,
    error_rows,
    facts,
    fragment_views,
    headline,
)


def render(records_path: Path, html_path: Path) -> None:
    """Write the page of the last run in a records file.

    Raises:
        UsageError: the file is not a complete run's records.
    """
    html_path.write_text(page(read_run(records_path)), encoding="utf-8")


def page(run: Run) -> str:
    """The page of one run as HTML text."""
    colors = colors_of(run.fragments)
    return (
        _templates()
        .get_template("page.html")
        .render(
            run=run,
            result=run.result,
            verdict=run.result["verdict"],
            headline=headline(run),
            groups=bar_groups(run),
            picture=draw(run.program, colors),
            roofline=chart(run.program, run.fragments, colors, str(run.run["device"])),
            errors=error_rows(run),
            fragments=fragment_views(run, colors),
            module=code(run.result["source"], "m"),
            facts=facts(run),
            style=_asset("style.css"),
            script=_asset("page.js"),
        )
    )


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("kernelwright.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        count=text.count,
        quantity=text.quantity,
        milliseconds=text.milliseconds,
        factor=text.factor,
    )
    return templates


def _asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup(files("kernelwright.report").joinpath("templates", name).read_text())
