"""A candidate's source text as rules read it: a syntax tree whose names are resolved."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

IMPORTERS = {"__import__", "importlib.import_module"}


@dataclass(frozen=True, slots=True)
class Source:
    tree: ast.Module
    names: dict[str, str]
    """Local name -> dotted origin, e.g. {"tl": "triton.language"}."""
    local: frozenset[int]
    """id() of the `Name` nodes that mean a variable, so that one called `input` is no builtin."""

    def dotted(self, node: ast.AST) -> str:
        """ "torch.cuda.Stream" for an expression that names one; "" for any other."""
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            return "" if id(node) in self.local else node.id
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call) and node.args:
            texts = [a.value if isinstance(a, ast.Constant) else None for a in node.args]
            called = self.dotted(node.func)
            if called == "getattr" and len(texts) > 1 and isinstance(texts[1], str):
                base = self.dotted(node.args[0])
                return f"{base}.{texts[1]}" if base else ""
            if called in IMPORTERS and isinstance(texts[0], str):
                return texts[0]
        return ""

    def uses(self) -> Iterator[tuple[int, str]]:
        """(line, dotted name) of every name, attribute chain and constant `getattr`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name | ast.Attribute | ast.Call):
                name = self.dotted(node)
                if name:
                    yield node.lineno, name

    def root(self, node: ast.AST) -> str:
        """The variable an attribute or subscript chain starts from."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        return node.id if isinstance(node, ast.Name) else ""

    def top_level_names(self) -> set[str]:
        """What the module defines: functions, classes, assigned names."""
        names = {n.name for n in self.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assigns = [node for node in self.tree.body if isinstance(node, ast.Assign)]
        return names | {name for node in assigns for name in _stored(node)}


def parse(text: str) -> Source:
    """The source without its `if __name__ == "__main__"` blocks, which never run in a guest.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse` does.
    """
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not _is_main_guard(node)]
    names = _imported(tree)
    source = Source(tree, names, frozenset())
    assigned = [
        (node.targets[0].id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
    ]
    variables = _stored(tree) | _defined(tree)
    for _ in range(len(assigned)):  # aliases of aliases, in any order
        before = len(names)
        for name, value in assigned:
            origin = source.dotted(value)
            if origin and name not in names and origin.split(".")[0] not in variables - {name}:
                names[name] = origin
        if len(names) == before:
            break
    return Source(tree, names, frozenset(_local_nodes(tree)))


def _is_main_guard(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) in {"__name__ == '__main__'", "'__main__' == __name__"}
    )


def _imported(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _stored(tree: ast.AST) -> set[str]:
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _defined(tree: ast.Module) -> set[str]:
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def _local_nodes(tree: ast.Module) -> Iterator[int]:
    """Names that a definition of the module or a variable of the enclosing function shadows."""
    top = _defined(tree)
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            top |= _stored(statement)
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module):
            bound = top
        elif isinstance(scope, ast.FunctionDef | ast.Lambda):
            bound = _stored(scope)
        else:
            continue
        for node in ast.walk(scope):
            if isinstance(node, ast.Name) and node.id in bound:
                yield id(node)
