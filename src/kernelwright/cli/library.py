"""`kernelwright library`: the kept results of earlier searches."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli import verbs
from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.options import JsonOption, LibraryOption
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.text import printable
from kernelwright.library.entry import LibraryEntry
from kernelwright.library.store import DATABASE, Library, Stored

SHOWN_DIGITS = 12
DAY_S = 24 * 3600
PAGE = "library.md"

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of an entry, or how the name begins.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A JSONL file of entries.")]
DaysOption = Annotated[
    float | None,
    typer.Option(
        "--older-than",
        metavar="DAYS",
        min=0,
        help="Delete entries of more than so many days.",
        show_default="no entry is too old",
    ),
]
OthersOption = Annotated[
    bool, typer.Option("--without-kernel", help="Delete entries that only say that PyTorch stays.")
]

app = verbs.group(
    "library",
    "List, share and clean up kernels that earlier searches kept.",
    PAGE,
    ("See what a library holds", "list --library kernels"),
    ("Take kernels to another machine", "export all.jsonl"),
)


def list_command(folder: LibraryOption = None, json: JsonOption = False) -> None:
    """List all entries, the newest first."""
    entries = _open(folder).stored()
    if json:
        print_json([_facts(stored) for stored in entries])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("name", "kernel", "family", "device", "precision", "why"):
        table.add_column(name, overflow="fold")
    for stored in entries:
        table.add_row(stored.digest[:SHOWN_DIGITS], *map(_safe, _cells(stored)))
    out.print(table)
    num_kernels = sum(s.entry is not None and s.entry.wins for s in entries)
    out.print(f"{len(entries)} entries, {num_kernels} with a kernel")


def show_command(
    name: NameArgument, folder: LibraryOption = None, json: JsonOption = False
) -> None:
    """Print one entry: the program, the reason, and the source of the kernel."""
    stored = _one(_open(folder), name)
    if json:
        print_json(_facts(stored, with_texts=True))
        return
    if stored.entry is None:
        out.print(f"{stored.digest}: {stored.problem}", markup=False, soft_wrap=True)
        return
    entry = stored.entry
    for label, text in (
        ("name", stored.digest),
        ("device", entry.key.device),
        ("versions", entry.key.versions),
        ("precision", f"{entry.key.precision}, {entry.key.mode}"),
        ("written by", entry.key.writers),
        ("result", entry.reason),
    ):
        out.print(_safe(f"{label:11} {text}"), soft_wrap=True)
    out.print(_safe(f"\n{entry.key.program}"), soft_wrap=True)
    if entry.wins:
        out.print(_safe(entry.source), soft_wrap=True)


def export_command(
    file: FileArgument, folder: LibraryOption = None, json: JsonOption = False
) -> None:
    """Write all entries to a file, for another machine."""
    number = _open(folder).export_to(file)
    _tell(f"{number} entries are in {file}", json, exported=number)


def import_command(
    file: FileArgument, folder: LibraryOption = None, json: JsonOption = False
) -> None:
    """Add the entries of a file. Their kernels are judged again before they are used."""
    num_new, num_known = Library(_named(folder)).import_from(file)
    sentence = f"{num_new} entries were added, {num_known} were known"
    _tell(sentence, json, added=num_new, known=num_known)


def prune_command(
    folder: LibraryOption = None,
    older_than: DaysOption = None,
    without_kernel: OthersOption = False,
    json: JsonOption = False,
) -> None:
    """Delete damaged entries, and the entries that an option names."""
    library = _open(folder)
    latest_s = time.time() - (older_than * DAY_S if older_than is not None else float("inf"))
    removed = [
        stored.digest
        for stored in library.stored()
        if stored.entry is None
        or stored.entry.created_s < latest_s
        or (without_kernel and not stored.entry.wins)
    ]
    library.remove(removed)
    _tell(f"{len(removed)} entries were deleted", json, deleted=len(removed))


def _safe(text: str) -> Text:
    """Text of an entry, which somebody else may have written, without markup and control codes."""
    return Text(printable(text, len(text)))


def _tell(sentence: str, json: bool, **facts: int) -> None:
    if json:
        print_json(facts)
    else:
        out.print(sentence, markup=False)


def _named(folder: Path | None) -> Path:
    if folder is None:
        raise UsageError(
            "no library is named", remedy="give --library FOLDER, or set KERNELWRIGHT_LIBRARY"
        )
    return folder


def _open(folder: Path | None) -> Library:
    """An existing library: a mistyped folder is not made."""
    folder = _named(folder)
    if not (folder / DATABASE).is_file():
        raise UsageError(
            f"there is no library in {folder}",
            remedy="a search makes one: kernelwright optimize FILE --library FOLDER",
        )
    return Library(folder, lambda message: note(message, "yellow"))


def _one(library: Library, name: str) -> Stored:
    matches = library.stored(name)
    if len(matches) != 1:
        raise UsageError(
            f"{len(matches)} entries have a name that begins with {name!r}",
            remedy="see the names with kernelwright library list",
        )
    return matches[0]


def _cells(stored: Stored) -> tuple[str, ...]:
    if (entry := stored.entry) is None:
        return "skipped", "", "", "", stored.problem
    return _kernel(entry), entry.family, entry.key.device, entry.key.precision, entry.reason


def _kernel(entry: LibraryEntry) -> str:
    if not entry.wins:
        return "none"
    return "not judged here" if entry.is_imported else "accepted"


def _facts(stored: Stored, *, with_texts: bool = False) -> Record:
    """An entry as JSON; the program's and the kernel's text where asked for."""
    if (entry := stored.entry) is None:
        return {"name": stored.digest, "problem": stored.problem}
    facts = {"name": stored.digest, "kernel": _kernel(entry), **asdict(entry.key)}
    facts |= {key: getattr(entry, key) for key in ("family", "reason", "saving", "created_s")}
    if with_texts:
        return facts | {"source": entry.source}
    del facts["program"]
    return facts


verbs.add(app, "list", list_command, PAGE, ("See what a library holds", "--library kernels"))
verbs.add(app, "show", show_command, PAGE, ("See a kernel", "3f2a --library kernels"))
verbs.add(app, "export", export_command, PAGE, ("Take all to another machine", "all.jsonl"))
verbs.add(
    app, "import", import_command, PAGE, ("Add what was exported", "all.jsonl --library kernels")
)
verbs.add(app, "prune", prune_command, PAGE, ("Forget what is old", "--older-than 30"))
