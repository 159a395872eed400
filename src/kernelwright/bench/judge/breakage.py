"""Breaks right candidates on purpose, so that a benchmark of the judge has some to refuse."""

import ast
from collections.abc import Callable
from enum import StrEnum


class Breakage(StrEnum):
    """The ways to break a candidate."""

    WRONG_VALUES = "wrong_values"
    COMPILE_ERROR = "compile_error"
    ILLEGAL_ADDRESS = "illegal_address"
    HANG = "hang"


FAR = 1 << 36
"""Elements beyond a tensor, where no memory is mapped."""


def broken(source: str, how: Breakage) -> str:
    """The source of a teacher's candidate, broken at its last store; to hang, in its wrapper."""
    tree = ast.parse(source)
    if how is Breakage.HANG:
        entry = next(
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name == "fused_operator"
        )
        return _replaced(source, entry.body[0], lambda text: f"while True: pass\n    {text}")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    stores = [call for call in calls if ast.unparse(call.func) == "tl.store"]
    pointer, value = max(stores, key=lambda call: call.lineno).args[:2]
    match how:
        case Breakage.WRONG_VALUES:  # wrong for every value there is, bool too
            return _replaced(source, value, lambda text: f"({text}) == 0")
        case Breakage.COMPILE_ERROR:
            return _replaced(source, value, lambda text: f"tl.no_such_function({text})")
        case Breakage.ILLEGAL_ADDRESS:
            return _replaced(source, pointer, lambda text: f"{text} + {FAR}")


def _replaced(source: str, node: ast.expr | ast.stmt, change: Callable[[str], str]) -> str:
    """The source with the text of one node changed."""
    # Columns of syntax trees are bytes; the teacher's sources are ASCII, so bytes are characters.
    text = ast.get_source_segment(source, node)
    assert text is not None
    lines = source.splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    return source[:begin] + change(text) + source[begin + len(text) :]
