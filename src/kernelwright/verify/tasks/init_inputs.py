"""The part of a reference's text that a guest needs to construct a candidate's `ModelNew`.

A guest must not hold the reference: a candidate could call the reference for its own outputs.
"""

import ast
from collections.abc import Sequence
from functools import lru_cache

MAX_TEXTS = 256
"""References whose parts are remembered."""


@lru_cache(MAX_TEXTS)
def init_inputs_text(reference: str) -> str:
    """Returns the text of `get_init_inputs`, with imports and the constants that the function
    reads. Classes and other functions are left out."""
    tree = ast.parse(reference)
    kept: list[ast.stmt] = [node for node in tree.body if _is_function(node, "get_init_inputs")]
    read = _names(kept)
    # Backwards, because a constant may read constants that are assigned above it.
    for node in reversed(tree.body):
        is_constant = bool(_names(_targets(node)) & read)
        if is_constant:
            read |= _names([node])
        if is_constant or isinstance(node, ast.Import | ast.ImportFrom):
            kept.insert(0, node)
    tree.body = kept
    return ast.unparse(tree)


def _is_function(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _targets(node: ast.stmt) -> list[ast.expr]:
    """The targets of an assignment; none of other statements."""
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return [node.target]
    return node.targets if isinstance(node, ast.Assign) else []


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that are read or written anywhere in these."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}
