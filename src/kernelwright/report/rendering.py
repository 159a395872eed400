"""Templates of the pages. All values are escaped, except our own style and script files."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, UndefinedError
from jinja2.utils import missing
from markupsafe import Markup

from kernelwright.report import format as text


class UnknownFieldError(UndefinedError, LookupError):
    """A template reads a field that a record lacks: the record is damaged (`record.damage_in`)."""


class _UnknownField(StrictUndefined):
    """A value that is not there. Its use raises `UnknownFieldError`."""

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[UndefinedError] = UnknownFieldError,
    ) -> None:
        super().__init__(hint, obj, name, exc)


def template(name: str) -> Template:
    return _templates().get_template(name)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("kernelwright.report"),
        autoescape=True,
        undefined=_UnknownField,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        count=text.count, quantity=text.quantity, milliseconds=text.milliseconds, factor=text.factor
    )
    return templates


def asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup(files("kernelwright.report").joinpath("templates", name).read_text())


def write_page(path: Path, html: str) -> None:
    """Write a page as UTF-8, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Records may quote lone surrogates, which UTF-8 cannot hold: they become HTML references.
    path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace")
