"""Pages of the documentation site that code or other files hold: start, changes, commands, reasons.

mkdocs calls the two functions `on_files` and `on_page_markdown` (mkdocs.yml, `hooks`).
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/kernelwright/kernelwright/blob/main/"
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)(\))")
PYTHON_PAGE = """# Python

The package's functions. Importing `kernelwright` loads no torch; the first use does.

::: kernelwright.search.api.optimize
::: kernelwright.verify.api.verify
::: kernelwright.verify.testing.assert_kernel
::: kernelwright.search.optimized.summary
::: kernelwright.search.optimized.source
::: kernelwright.search.saving.save
::: kernelwright.search.saving.load
::: kernelwright.deploy.package.export
::: kernelwright.compile.explain.explain
::: kernelwright.core.verdict.Verdict
::: kernelwright.core.errors
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files of docs/."""
    from mkdocs.structure.files import File

    pages = {
        "index.md": (ROOT / "README.md").read_text(),
        "reference/changes.md": (ROOT / "CHANGELOG.md").read_text(),
        "reference/commands.md": "\n".join(["# Commands", "", *_commands()]),
        "reference/python.md": PYTHON_PAGE,
        "reference/reasons.md": _reasons(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files outside of docs/ lead to the repository. README and CHANGELOG link from the
    repository's root, all other pages from their own folder."""
    del config
    source = page.file.src_uri
    is_from_root = source in ("index.md", "reference/changes.md")
    folder = "" if is_from_root else posixpath.join("docs", posixpath.dirname(source))

    def moved(match: re.Match[str]) -> str:
        target, mark, anchor = match[2].partition("#")
        path = posixpath.normpath(posixpath.join(folder, target))
        page_path = path.removeprefix("docs/")
        if path.startswith("docs/") and files.get_file_from_path(page_path) is not None:
            path = posixpath.relpath(page_path, posixpath.dirname(source) or ".")
        elif path == "CHANGELOG.md":
            path = posixpath.relpath("reference/changes.md", posixpath.dirname(source) or ".")
        else:
            path = REPOSITORY + path
        return f"{match[1]}{path}{mark}{anchor}{match[3]}"

    return LINK.sub(moved, markdown)


def _commands() -> Iterator[str]:
    """The help of every command, as text."""
    from typer.main import get_command

    from kernelwright.cli.main import app
    from kernelwright.cli.verbs import NAME

    yield from _help(get_command(app), NAME, 2)


def _help(command: Any, name: str, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    yield f"{'#' * level} {name}"
    yield ""
    yield (command.help or "").strip().partition("\f")[0]
    yield ""
    if not inner:
        yield from ("| argument or option | |", "| --- | --- |")
        for parameter in command.params:
            words = ", ".join(f"`{word}`" for word in parameter.opts)
            text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
            yield f"| {words} | {text} |"
        yield ""
    for word, subcommand in inner.items():
        if not subcommand.hidden:
            yield from _help(subcommand, f"{name} {word}", level + 1)


def _reasons() -> str:
    from kernelwright.core import reasons

    return f"# Reason codes\n\n{reasons.markdown()}\n"
