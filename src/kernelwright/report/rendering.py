"""Templates of the pages: what goes into them is escaped, but for files of ours."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from kernelwright.report import format as text


def template(name: str) -> Template:
    return _templates().get_template(name)


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


def asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup(files("kernelwright.report").joinpath("templates", name).read_text())


def write_page(path: Path, html: str) -> None:
    """Write a page. Records may quote what UTF-8 does not have: HTML spells that out."""
    path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")
