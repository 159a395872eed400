"""Takes Inductor's module apart: its kernels, and the statements that launch them."""

import ast
import re
from dataclasses import dataclass
from typing import Any

_NODES = re.compile(r"# Topologically Sorted Source Nodes: \[([^\]]*)\]")


class NotRewritten(Exception):
    """The code has something that a candidate may not have, or that is not understood. Equal
    messages are counted together, so a message is a word or two."""


@dataclass(frozen=True, slots=True)
class InductorKernel:
    """A kernel as Inductor wrote it, with the facts from its decorator."""

    name: str
    function: ast.FunctionDef
    combines: tuple[ast.FunctionDef, ...]
    """Functions that it hands to scans and reductions."""
    kind: str
    """"pointwise", "reduction", "persistent_reduction" ..."""
    hints: dict[str, int]
    """Axis ("x", "y", "r0_") -> a size that is a power of two and not below the one it was written
    for."""
    grid: str
    """"Grid1D", "Grid2D" ..."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of Inductor's function `call`."""

    node: ast.stmt
    nodes: tuple[str, ...]
    """Names in the program's function that are computed here, where Inductor says so."""


@dataclass(frozen=True, slots=True)
class Module:
    """Inductor's module: kernels by name, arguments and statements of `call`."""

    kernels: dict[str, InductorKernel]
    arguments: tuple[str, ...]
    statements: tuple[Statement, ...]


def read_module(code: str) -> Module:
    """Read Inductor's code.

    Raises:
        NotRewritten: the module has another form than that of known versions.
    """
    tree = ast.parse(code)
    kernels = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and _called(node.value) == "async_compile.triton":
            name, text = (ast.literal_eval(arg) for arg in node.value.args[:2])  # type: ignore[attr-defined]
            kernels[name] = _kernel(name, ast.parse(text))
    call = next(
        (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"), None
    )
    if call is None:
        raise NotRewritten("no call")
    # `call` begins with `arg0_1, arg1_1 = args`, the only place that names its arguments in order.
    head, *body = call.body
    if not isinstance(head, ast.Assign) or ast.unparse(head.value) != "args":
        raise NotRewritten("other arguments")
    lines = code.splitlines()
    statements = tuple(Statement(node, _nodes_above(lines, node.lineno)) for node in body)
    return Module(kernels, tuple(_names(head.targets[0])), statements)


def _kernel(name: str, tree: ast.Module) -> InductorKernel:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    *combines, function = functions
    heuristic = function.decorator_list[0]
    if function.name != name or not isinstance(heuristic, ast.Call):
        raise NotRewritten("other kernel")
    arguments = {keyword.arg: keyword.value for keyword in heuristic.keywords}
    meta = arguments["inductor_meta"]
    assert isinstance(meta, ast.Dict)
    facts = {_constant(key): value for key, value in zip(meta.keys, meta.values, strict=True)}
    return InductorKernel(
        name=name,
        function=function,
        combines=tuple(combines),
        kind=(_called(heuristic) or "").rpartition(".")[2],
        hints=ast.literal_eval(arguments["size_hints"]),
        grid=_constant(facts["grid_type"]),
    )


def _constant(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _called(node: ast.expr) -> str | None:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def _nodes_above(lines: list[str], number: int) -> tuple[str, ...]:
    """The nodes that the nearest comment above a line names. Empty if a launch or library call
    stands between, since the comment belongs to that call."""
    for line in reversed(lines[: number - 1]):
        if nodes := _NODES.search(line):
            return tuple(name.strip() for name in nodes[1].split(",") if name.strip())
        if ".run(" in line or "extern_kernels." in line:
            break
    return ()
