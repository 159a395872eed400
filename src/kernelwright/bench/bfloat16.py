"""Casts tasks of a suite to bfloat16: rewrites their files so that model and inputs are cast.

The search, the judge and the user's `optimized.py` see the cast file alone.
"""

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelwright.bench.suite import SuiteCase
from kernelwright.core.errors import UsageError
from kernelwright.core.levels import in_bfloat16, level_number
from kernelwright.core.plan import lines_of
from kernelwright.programs.fragments.source_merge import rename

DTYPE = "bfloat16"
_DRAWN = "get_inputs_as_drawn"
"""The name of the task's own `get_inputs` in the cast file."""
_INPUTS = f'''

def get_inputs():
    """The inputs as drawn, floating-point ones in bfloat16."""
    return [
        value.bfloat16() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in {_DRAWN}()
    ]
'''
_REMEDY = "leave the task out: name the others with --only"


def cast_tasks(tasks: Sequence[SuiteCase], folder: Path) -> list[SuiteCase]:
    """The tasks with their files cast to bfloat16, at levels of their own, such as "L2-bf16".

    Args:
        folder: for the cast files, levelN/NAME.py; files that are there are written anew.

    Raises:
        UsageError: a task cannot be cast, or the folder cannot be written.
    """
    cast = []
    for task in tasks:
        path = folder / f"level{level_number(task.level)}" / f"{task.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = cast_source(Path(task.spec).read_text(encoding="utf-8"), task.spec)
        path.write_text(text, encoding="utf-8")
        cast.append(replace(task, level=in_bfloat16(task.level), spec=str(path)))
    return cast


def cast_source(source: str, file: str) -> str:
    """Rewrite a file in KernelBench's format so that its model casts itself when constructed.

    Parameters, buffers and inputs of floating-point types become bfloat16; all else stays. A file
    that is not Python is returned unchanged: loading it gives the error.

    Args:
        source: text of the file.
        file: its name, for errors.

    Raises:
        UsageError: the file has no class `Model` or no function `get_inputs` of its own, or the
            constructor of `Model` returns before its end.
    """
    try:
        names = _defined(ast.parse(source))
    except SyntaxError:
        return source
    if missing := {"Model", "get_inputs"} - names:
        what = " and no ".join(sorted(missing))
        raise UsageError(f"defines no {what} to cast to bfloat16", file=file, remedy=_REMEDY)
    text = _with_cast_model(rename(source, {"get_inputs": _DRAWN}), file).rstrip() + "\n"
    if "torch" not in names:
        text += "\n\nimport torch\n"
    return text + _INPUTS


def _defined(tree: ast.Module) -> set[str]:
    """Names of classes, functions and whole modules that are defined or imported at the top."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _with_cast_model(source: str, file: str) -> str:
    """The source with a cast at the end of the constructor of `Model`.

    Raises:
        UsageError: the constructor returns before its end, and so before the cast.
    """
    lines = lines_of(source)
    model = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Model"
    )
    indent = " " * model.body[0].col_offset
    own = [n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    if not own:
        inherited = (
            "def __init__(self, *args, **kwargs):",
            "    super().__init__(*args, **kwargs)",
            "    self.bfloat16()",
        )
        lines[model.end_lineno : model.end_lineno] = ["", *(indent + line for line in inherited)]
        return "\n".join(lines)
    init = own[-1]
    if any(map(_returns, init.body)):
        message = "the constructor of Model returns before its end, so it cannot be cast"
        raise UsageError(message, file=file, line=init.lineno, remedy=_REMEDY)
    first = min([init.lineno, *(decorator.lineno for decorator in init.decorator_list)])
    receiver = [*init.args.posonlyargs, *init.args.args][0].arg
    init.body.append(ast.parse(f"{receiver}.bfloat16()").body[0])
    lines[first - 1 : init.end_lineno] = textwrap.indent(ast.unparse(init), indent).split("\n")
    return "\n".join(lines)


def _returns(node: ast.AST) -> bool:
    """Whether a statement may return from its function. Functions within the statement do not
    count: they return from themselves."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return False
    return isinstance(node, ast.Return) or any(map(_returns, ast.iter_child_nodes(node)))
