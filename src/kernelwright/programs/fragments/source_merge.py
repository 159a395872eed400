"""Merges the sources of several candidates into one module without name clashes."""

import ast
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from kernelwright.core.plan import lines_of

_PLAN_OF = re.compile(r"^(# Plan of )(\w+)$", re.MULTILINE)

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Merged:
    imports: tuple[str, ...]
    """Import statements, each once, in order of first use."""
    body: str
    """Every kernel and wrapper, comments kept."""
    names: tuple[dict[str, str], ...]
    """For each merged source, the new names of what it defines."""


@dataclass(frozen=True, slots=True)
class _Piece:
    names: tuple[str, ...]
    text: str
    is_function: bool = False

    def rests_on(self, names: Set[str]) -> bool:
        """Whether the text contains one of the names, other than the names that it defines."""
        return bool(set(_WORD.findall(self.text)) & (names - set(self.names)))


def merge(sources: Sequence[tuple[str, str]]) -> Merged:
    """Joins sources into one module, each given as (wanted name of its entry, source).

    The entry `fused_operator` of each source gets its wanted name. A top-level name that another
    source has taken gets a number. Comments above a definition move with the definition.

    Equal sources are emitted once. Equal helpers are emitted once too: functions that use no other
    definition of their source.
    """
    imports: dict[str, None] = {}
    taken: set[str] = set()
    texts: list[str] = []
    helpers: dict[str, dict[str, str]] = {}
    emitted: dict[str, dict[str, str]] = {}
    for wanted, source in sources:
        if source in emitted:
            continue
        source_imports, pieces = _split(source)
        imports |= dict.fromkeys(source_imports)
        # Equal texts mean the same function only if they use no name of their source: the same name
        # may mean another kernel in another source.
        own = {name for piece in pieces for name in piece.names}
        new = [piece for piece in pieces if piece.text not in helpers or piece.rests_on(own)]
        renames = {
            name: _free(wanted if name == "fused_operator" else name, taken)
            for piece in new
            for name in piece.names
        }
        for piece in pieces:
            if piece not in new:
                renames |= helpers[piece.text]
            elif piece.is_function and not piece.rests_on(own):
                helpers[piece.text] = {name: renames[name] for name in piece.names}
        changed = {old: name for old, name in renames.items() if old != name}
        texts += [rename(piece.text, changed) for piece in new]
        emitted[source] = renames
    names = tuple(emitted[source] for _, source in sources)
    return Merged(tuple(imports), "\n\n\n".join(texts), names)


def unmergeable(source: str) -> str:
    """The first statement of a module that `merge` would lose, or "" if nothing is lost."""
    lines = lines_of(source)
    lost = (node.lineno for node in ast.parse(source).body if not _is_kept(node))
    return next((f"line {number}: {lines[number - 1].strip()}" for number in lost), "")


def _is_kept(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.FunctionDef() | ast.ClassDef():
            return True
        case ast.ImportFrom():
            return node.module != "__future__"
        case ast.Assign():
            return all(isinstance(target, ast.Name) for target in node.targets)
        case ast.AnnAssign():
            return isinstance(node.target, ast.Name)
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring
    return False


@lru_cache(64)  # cuts of a program share parts
def _split(source: str) -> tuple[list[str], list[_Piece]]:
    """The imports of a source, and its definitions with the comments above them."""
    lines = lines_of(source)
    imports, pieces = [], []
    end = 0  # lines already consumed
    for node in ast.parse(source).body:
        text = "\n".join(lines[end : node.end_lineno]).strip("\n")
        end = node.end_lineno or end
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(ast.unparse(node))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            is_function = isinstance(node, ast.FunctionDef)
            pieces.append(_Piece((node.name,), text, is_function))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = tuple(t.id for t in targets if isinstance(t, ast.Name))
            pieces.append(_Piece(names, text))
    return imports, pieces


def _free(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def rename(text: str, renames: dict[str, str]) -> str:
    """The text with new names for its definitions and their uses.

    Edits go by position in the text, so layout and comments stay. Only the name in the first line
    of a plan's comment is replaced too.
    """
    # To parse a text takes far longer than to look for the words of it.
    if renames.keys().isdisjoint(_WORD.findall(text)):
        return text
    edits: list[tuple[int, int, bytes]] = []  # (line, column in bytes, old name)
    nodes = list(ast.walk(ast.parse(text)))
    # A parameter of the same name hides the definition inside its function.
    shadowed = {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in renames.keys() - shadowed:
            edits.append((node.lineno, node.col_offset, node.id.encode()))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in renames:
            keyword = "def " if isinstance(node, ast.FunctionDef) else "class "
            edits.append((node.lineno, node.col_offset + len(keyword), node.name.encode()))
    lines = [line.encode() for line in lines_of(text)]
    # From the end: an edit then does not move the columns of edits that are still to come.
    for row, column, old in sorted(edits, reverse=True):
        line, new = lines[row - 1], renames[old.decode()].encode()
        lines[row - 1] = line[:column] + new + line[column + len(old) :]
    renamed = b"\n".join(lines).decode()
    return _PLAN_OF.sub(lambda match: match[1] + renames.get(match[2], match[2]), renamed)
