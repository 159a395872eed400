"""The report page: one HTML file that needs no network and shows only what records say.

Kernels, messages and schedules are written by models: everything goes through autoescaping.
"""

from pathlib import Path

from kernelwright.report import words
from kernelwright.report.graph import draw
from kernelwright.report.outcome import badges, ending, headline
from kernelwright.report.rendering import asset, template, write_page
from kernelwright.report.roofline import chart
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.report.sections import (
    bar_groups,
    code,
    colors_of,
    error_rows,
    facts,
    fragment_views,
)


def render(records_path: Path, html_path: Path) -> None:
    """Write the page of the last run in a records file.

    Raises:
        UsageError: the file is not a complete run's records.
    """
    write_page(html_path, page(read_run(records_path)))


def page(run: ReportedRun, home: str = "") -> str:
    """The page of one run as HTML text.

    Args:
        home: the first page of the site that the page is part of, as a relative path.
    """
    colors = colors_of(run.fragments)
    return template("page.html").render(
        run=run,
        home=home,
        result=run.result,
        verdict=run.result["verdict"],
        headline=headline(run),
        ending=ending(run),
        badges=badges(run),
        words=words,
        groups=bar_groups(run),
        picture=draw(run.program, colors),
        roofline=chart(run.program, run.fragments, colors, str(run.run["device"])),
        errors=error_rows(run),
        fragments=fragment_views(run, colors),
        module=code(run.result["source"], "m"),
        facts=facts(run),
        style=asset("style.css"),
        script=asset("table.js") + asset("page.js"),
    )
