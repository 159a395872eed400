"""Copies functions of Inductor's runtime that kernels call. A candidate may not import them."""

import ast
import inspect
from collections.abc import Iterable
from typing import Any

from torch._inductor.runtime import triton_helpers

from kernelwright.data.inductor.reading import NotRewritten

_KNOWN = frozenset({"tl", "triton", "libdevice"})
"""Names that a candidate has too."""


def runtime_functions(names: Iterable[str]) -> list[ast.FunctionDef]:
    """The functions of these names and all that they call, each before its callers.

    Raises:
        NotRewritten: a name is not a Triton function of `triton_helpers`.
    """
    functions: dict[str, ast.FunctionDef] = {}
    for name in names:
        _collect(name, functions)
    return list(functions.values())


def _collect(name: str, functions: dict[str, ast.FunctionDef]) -> None:
    if name in functions:
        return
    function = _function(name)
    parameters = {arg.arg for arg in function.args.args}
    for used in _free_names(function) - parameters - {name}:
        if used not in _KNOWN and hasattr(triton_helpers, used):
            _collect(used, functions)
    functions[name] = function


def _function(name: str) -> ast.FunctionDef:
    value: Any = getattr(triton_helpers, name, None)
    source = inspect.getsource(value.fn) if hasattr(value, "fn") else ""
    function = ast.parse(source).body[0] if source else None
    if not isinstance(function, ast.FunctionDef):
        raise NotRewritten(f"helper {name}")
    if ast.get_docstring(function) is not None:
        del function.body[0]
    return function


def _free_names(function: ast.FunctionDef) -> set[str]:
    body = ast.Module(body=function.body, type_ignores=[])
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
