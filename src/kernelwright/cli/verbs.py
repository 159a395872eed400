"""The common parts of every `--help`: flags shown as flags, `-h`, examples and a link to a page."""

from importlib import metadata
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

NAME = "kernelwright"
"""The command."""
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


def _epilog(command: str, page: str, examples: tuple[tuple[str, str], ...]) -> str:
    """The end of the help of a command: examples, and a link to its page."""
    blocks = [
        f"  {escape(purpose)}\n  [bold]$ {escape(f'{command} {words}'.rstrip())}[/bold]"
        for purpose, words in examples
    ]
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


def group(
    name: str, text: str, page: str, *examples: tuple[str, str], runs_alone: bool = False
) -> typer.Typer:
    """A group of verbs.

    Args:
        name: `NAME` for the command itself, or the verb that the verbs of the group follow.
        text: its help.
        page: a page of the documentation, for example "verifier.md".
        examples: a sentence, and the words after the name.
        runs_alone: whether the name without a verb is a command too.
    """
    return typer.Typer(
        name=name,
        cls=VerbGroup,
        help=text,
        epilog=_epilog(_command(name), page, examples),
        context_settings=HELP_NAMES,
        pretty_exceptions_enable=False,
        invoke_without_command=runs_alone,
        no_args_is_help=not runs_alone,
    )


def add(app: typer.Typer, name: str, command: Any, page: str, *examples: tuple[str, str]) -> None:
    """Add a verb to a group; page and examples are as those of `group`."""
    ending = _epilog(f"{_command(str(app.info.name))} {name}", page, examples)
    app.command(name, cls=Verb, epilog=ending, context_settings=HELP_NAMES)(command)


def _command(group_name: str) -> str:
    """The words of the shell for a group of verbs."""
    return NAME if group_name == NAME else f"{NAME} {group_name}"
