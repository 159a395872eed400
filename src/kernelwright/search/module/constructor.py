"""The constructor of an optimized module: it refuses arguments that the kernels were not made for.

Kernels hold numbers of the constructor as constants. With other arguments they would return wrong
values.
"""

import ast
import inspect
import math
from typing import Any

import torch

from kernelwright.core.plan import lines_of
from kernelwright.verify.tasks.module_task import Arguments


def guarded(source: str, module: torch.nn.Module, arguments: Arguments) -> str:
    """The source with a `ModelNew` that raises ValueError for other arguments of its constructor.

    Only numbers, texts, None, and lists, tuples and dicts of these are compared.

    Args:
        source: defines the class `ModelNew`.
        module: the original, which has the constructor of `ModelNew`.
        arguments: the original was constructed with them.
    """
    model = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew"
    )
    own = [n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    if own:
        # Of several definitions of a name, Python keeps the last.
        return _inserted(source, own[-1], _checks(own[-1], module, arguments))
    if "__init__" in vars(type(module)):  # made in another way than by `def`
        return source
    return _appended(source, model, arguments)


def _checks(init: ast.FunctionDef, module: torch.nn.Module, arguments: Arguments) -> list[str]:
    """A line for each parameter of the constructor."""
    args, kwargs = arguments
    known = {node.arg for node in ast.walk(init.args) if isinstance(node, ast.arg)}
    bound = inspect.signature(type(module).__init__).bind(module, *args, **kwargs)
    bound.apply_defaults()
    # The first argument is the module itself.
    _, *values = bound.arguments.items()
    return [
        f"expect_value({name!r}, {name}, {text})"
        for name, value in values
        if name in known and (text := literal(value)) is not None
    ]


def _inserted(source: str, init: ast.FunctionDef, checks: list[str]) -> str:
    """The source with these lines at the beginning of the constructor, below its docstring."""
    if not checks:
        return source
    first = init.body[0]
    if ast.get_docstring(init) is not None and len(init.body) > 1:
        first = init.body[1]
    # A decorated statement begins at its first decorator.
    at = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))]) - 1
    lines = lines_of(source)
    # `ast` counts columns in bytes of UTF-8.
    before = lines[at].encode()[: first.col_offset].decode()
    if before.strip() in ("", "@"):  # the statement has lines of its own
        indent = before.replace("@", "")
        lines[at:at] = [indent + check for check in checks]
    else:
        # The body shares the line of `def`, so the checks come before it with semicolons.
        lines[at] = before + "; ".join([*checks, lines[at].encode()[first.col_offset :].decode()])
    return "\n".join(lines)


def _appended(source: str, model: ast.ClassDef, arguments: Arguments) -> str:
    """The source with a constructor before the one that the class inherits."""
    args, kwargs = arguments
    text = literal((tuple(args), kwargs))
    if text is None:
        return source
    indent = " " * model.body[0].col_offset
    method = [
        "",
        f"{indent}def __init__(self, *args, **kwargs):",
        f'{indent}    expect_value("the call (args, kwargs)", (args, kwargs), {text})',
        f"{indent}    super().__init__(*args, **kwargs)",
    ]
    lines = lines_of(source)
    lines[model.end_lineno : model.end_lineno] = method
    return "\n".join(lines)


def literal(value: Any) -> str | None:
    """Python text of a value; None where it is no number, no text, and no container of these."""
    kind = type(value)
    if kind in (list, tuple):
        parts = [literal(part) for part in value]
        if None in parts:
            return None
        text = ", ".join(map(str, parts))
        if kind is list:
            return f"[{text}]"
        return f"({text},)" if len(parts) == 1 else f"({text})"
    if kind is dict:
        pairs = [(literal(key), literal(part)) for key, part in value.items()]
        if any(None in pair for pair in pairs):
            return None
        return "{" + ", ".join(f"{key}: {part}" for key, part in pairs) + "}"
    if kind is float and math.isnan(value):
        return None
    if kind is float and math.isinf(value):  # it has no literal
        return f'float("{value}")'
    return repr(value) if kind in (bool, int, float, str, type(None)) else None
