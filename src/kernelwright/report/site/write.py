"""Writes a site: the first page, and pages of runs, tasks, comparisons and training runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.core.progress import Say
from kernelwright.report.naming import Slugs
from kernelwright.report.page import page as run_page
from kernelwright.report.rendering import asset, write_page
from kernelwright.report.site import index, pair, run, task
from kernelwright.report.site.index import SiteLink, Summaries
from kernelwright.report.site.reading import (
    COMPARED,
    MODULES,
    TRAININGS,
    NamedTraining,
    SiteRun,
    read_records,
)
from kernelwright.report.site.summary import summaries
from kernelwright.report.site.texts import read_texts
from kernelwright.report.suite.compare import Key, key_of
from kernelwright.report.suite.rows import case_name
from kernelwright.report.training import page as training_page

INDEX, STYLE = "index.html", "style.css"
SEARCHES = "searches"
"""In the folder of a run: the pages of the searches for its tasks."""


def write_site(paths: Sequence[Path], out: Path, say: Say) -> Summaries:
    """Write the site of some files and folders of records.

    Files of an earlier site in the folder are overwritten, and others are kept.

    Args:
        say: gets a line about each part that is written.

    Returns:
        Each run with the summaries of its levels.

    Raises:
        UsageError: a path has no records, or a line is no record.
    """
    records = read_records(paths)
    levels = [(own, summaries(own)) for own in records.runs]
    links = {own.slug: _links(own) for own in records.runs}
    write_page(out / STYLE, asset(STYLE))
    for own, figures in levels:
        write_page(out / own.slug / INDEX, run.page(own, figures, links[own.slug]))
        _write_tasks(own, list(links[own.slug].values()), out / own.slug)
        say(f"{own.name}: {len(own.cases)} tasks")
    pairs = pair.pairs_of(records.runs)
    for two in pairs:
        write_page(out / COMPARED / f"{two.slug}.html", pair.page(two, links))
    for module in records.modules:
        write_page(out / MODULES / f"{module.slug}.html", run_page(module.run, f"../{INDEX}"))
    comparisons = list(_write_trainings(records.trainings, out / TRAININGS))
    write_page(out / INDEX, index.page(records, levels, pairs, comparisons))
    return levels


def _links(own: SiteRun) -> dict[Key, str]:
    """Case -> the page of the task, in the folder of the run; in the order of the cases."""
    slugs = Slugs(taken=("index",))
    return {key_of(case): f"{slugs.new(case_name(case))}.html" for case in own.cases}


def _write_tasks(own: SiteRun, pages: Sequence[str], folder: Path) -> None:
    """Write the page of each task. Searches of tasks have pages of their own.

    Args:
        pages: names of the pages, in the order of the cases.
    """
    texts = read_texts(own.folder)
    for number, (case, name) in enumerate(zip(own.cases, pages, strict=True)):
        links = {}
        if number:
            links["previous"] = pages[number - 1]
        if number + 1 < len(pages):
            links["next"] = pages[number + 1]
        about = texts.of(case)
        if about.search is not None:
            links["search"] = f"{SEARCHES}/{name}"
            write_page(folder / SEARCHES / name, run_page(about.search, f"../../{INDEX}"))
        write_page(folder / name, task.page(own, case, about, links))


def _write_trainings(trainings: Sequence[NamedTraining], folder: Path) -> Iterator[SiteLink]:
    """Write the page of each training run, and a page for all runs of one command.

    Yields:
        A link to each page that compares runs.
    """
    home = f"../{INDEX}"
    by_command: dict[str, list[NamedTraining]] = {}
    for own in trainings:
        write_page(folder / f"{own.slug}.html", training_page.page(own.training, home))
        by_command.setdefault(own.training.command, []).append(own)
    for command, several in by_command.items():
        if len(several) > 1:
            name = f"all-{command.replace(' ', '-')}.html"
            write_page(
                folder / name, training_page.comparison([own.training for own in several], home)
            )
            yield SiteLink(f"{TRAININGS}/{name}", command, f"{len(several)} runs over each other")
