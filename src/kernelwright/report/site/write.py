"""Writes a site: the first page, and pages of runs, tasks, comparisons and training runs."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.core.progress import Say
from kernelwright.core.record import damage_in
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
    SiteRecords,
    SiteRun,
    read_records,
)
from kernelwright.report.site.summary import LevelSummary, summaries
from kernelwright.report.site.texts import read_texts
from kernelwright.report.suite.compare import Key, key_of
from kernelwright.report.suite.page import RECORDS
from kernelwright.report.suite.rows import case_name
from kernelwright.report.training import page as training_page

INDEX, STYLE = "index.html", "style.css"
MARK = "/* The style of a site that kernelwright report wrote. */"
"""The first line of a site's style sheet. A folder without this line is no site, and is never
overwritten."""
STAGED = ".new"
"""In the folder of a site: pages that are being written."""
SEARCHES = "searches"
"""In the folder of a run: the pages of the searches for its tasks."""


def write_site(paths: Sequence[Path], out: Path, say: Say) -> Summaries:
    """Write the site of some files and folders of records.

    Pages of an earlier site in the folder are overwritten. Other pages in the folder are kept. If
    an error ends the writing, the folder stays as it was.

    Args:
        paths: files of records, or folders that hold `records.jsonl`.
        out: the folder of the site.
        say: gets a line of progress for each run.

    Returns:
        Each run with the summaries of its levels.

    Raises:
        UsageError: a path has no records; a line is no record, or lacks a field; or the folder of
            the site holds other files.
    """
    check_site_folder(out)
    records = read_records(paths)
    with _staged(out) as folder:
        return _write_pages(records, folder, say)


def _write_pages(records: SiteRecords, out: Path, say: Say) -> Summaries:
    links = {site_run.slug: _links(site_run) for site_run in records.runs}
    levels: list[tuple[SiteRun, list[LevelSummary]]] = []
    write_page(out / STYLE, f"{MARK}\n{asset(STYLE)}")
    for site_run in records.runs:
        folder, pages = out / site_run.slug, links[site_run.slug]
        with damage_in(site_run.file):
            levels.append((site_run, summaries(site_run)))
            write_page(folder / INDEX, run.page(*levels[-1], pages))
            _write_tasks(site_run, list(pages.values()), folder)
        say(f"{site_run.name}: {len(site_run.cases)} tasks")
    pairs = pair.pairs_of(records.runs)
    for run_pair in pairs:
        write_page(out / COMPARED / f"{run_pair.slug}.html", pair.page(run_pair, links))
    for module in records.modules:
        with damage_in(module.file):
            write_page(out / MODULES / f"{module.slug}.html", run_page(module.run, f"../{INDEX}"))
    comparisons = list(_write_trainings(records.trainings, out / TRAININGS))
    write_page(out / INDEX, index.page(records, levels, pairs, comparisons))
    return levels


def check_site_folder(folder: Path) -> None:
    """Check that a site can be written to a folder, which need not exist yet.

    Raises:
        UsageError: the folder cannot be written to, or holds other files than a site.
    """
    check_folder(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if [path.name for path in folder.iterdir()] == [STAGED]:  # a run was killed
        return
    style = folder / STYLE
    if not style.is_file() or not style.read_bytes().startswith(MARK.encode()):
        remedy = "give a new folder with --out, or the folder of an earlier site"
        raise UsageError("the folder holds other files", file=str(folder), remedy=remedy)


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A folder whose files are moved to `out` in the end, unless an error ends the block."""
    staged, is_new = out / STAGED, not out.exists()
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    try:
        yield staged
        for path in sorted(staged.rglob("*")):
            target = out / path.relative_to(staged)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                path.replace(target)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # the folder has the pages
                out.rmdir()


def _links(site_run: SiteRun) -> dict[Key, str]:
    """Case -> the page of the task, in the folder of the run; in the order of the cases."""
    slugs = Slugs(taken=("index",))
    return {key_of(case): f"{slugs.new(case_name(case))}.html" for case in site_run.cases}


def _write_tasks(site_run: SiteRun, pages: Sequence[str], folder: Path) -> None:
    """Write the page of each task, and a page for each search whose records are there.

    Args:
        pages: names of the pages, in the order of the cases.
        folder: the folder of the run in the site.
    """
    texts = read_texts(site_run.folder)
    for index_of_case, (case, name) in enumerate(zip(site_run.cases, pages, strict=True)):
        links = {}
        if index_of_case:
            links["previous"] = pages[index_of_case - 1]
        if index_of_case + 1 < len(pages):
            links["next"] = pages[index_of_case + 1]
        task_texts = texts.of(case)
        if task_texts.search is not None:
            links["search"] = f"{SEARCHES}/{name}"
            write_page(folder / SEARCHES / name, run_page(task_texts.search, f"../../{INDEX}"))
        write_page(folder / name, task.page(site_run, case, task_texts, links))


def _write_trainings(trainings: Sequence[NamedTraining], folder: Path) -> Iterator[SiteLink]:
    """Write the page of each training run. If a command has several runs, also write a page with
    all of them.

    Yields:
        A link to each page that compares runs.
    """
    home = f"../{INDEX}"
    by_command: dict[str, list[NamedTraining]] = {}
    for named in trainings:
        with damage_in(named.training.folder / RECORDS):
            write_page(folder / f"{named.slug}.html", training_page.page(named.training, home))
        by_command.setdefault(named.training.command, []).append(named)
    for command, runs in by_command.items():
        if len(runs) > 1:
            name = f"all-{command.replace(' ', '-')}.html"
            comparison = training_page.comparison([named.training for named in runs], home)
            write_page(folder / name, comparison)
            yield SiteLink(f"{TRAININGS}/{name}", command, f"{len(runs)} runs in the same charts")
