"""The common parts of every `--help`: flags shown as flags, `-h`, examples and a link to a page."""

from importlib import metadata
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

HELP_NAMES: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def docs_folder() -> str:
    """Where the documentation lies: the address in the package's metadata, else the folder."""
    try:
        urls = metadata.metadata("kernelwright").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        urls = []
    addresses = dict(url.split(", ", 1) for url in urls if ", " in url)
    return str(addresses.get("Documentation", "docs")).rstrip("/")


DOCS = docs_folder()


def epilog(page: str, *examples: tuple[str, str]) -> str:
    """The end of a verb's help.

    Args:
        page: a page of the documentation, for example "verifier.md".
        examples: a sentence and the command that does what it says.
    """
    blocks = [f"  {escape(said)}\n  [bold]$ {escape(line)}[/bold]" for said, line in examples]
    return "\n".join(["[bold]Examples[/bold]", *blocks, "", f"Documentation: {DOCS}/{page}"])


def _plain(params: list[Any]) -> list[Any]:
    """Parameters whose flags are shown without a type: `<bool>` reads as if they took a value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Verb(TyperCommand):
    """A command with plain flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class VerbGroup(TyperGroup):
    """A group of commands with plain flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


def group(text: str, page: str, *examples: tuple[str, str], **options: Any) -> typer.Typer:
    """A group of verbs; its arguments are those of `epilog`."""
    return typer.Typer(
        cls=VerbGroup,
        help=text,
        epilog=epilog(page, *examples),
        context_settings=HELP_NAMES,
        pretty_exceptions_enable=False,
        **options,
    )


def add(app: typer.Typer, name: str, command: Any, page: str, *examples: tuple[str, str]) -> None:
    """Add a verb to a group; the other arguments are those of `epilog`."""
    decorate = app.command(
        name, cls=Verb, epilog=epilog(page, *examples), context_settings=HELP_NAMES
    )
    decorate(command)
