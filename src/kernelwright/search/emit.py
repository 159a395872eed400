"""The importable `optimized.py`: the composed kernels behind the original's own interface."""

import ast

import torch

from kernelwright.core.plan import lines_of
from kernelwright.programs.lowering import Lowered
from kernelwright.programs.source_merge import rename
from kernelwright.search.constructor import guarded
from kernelwright.search.forward import EXPECT_VALUE, forward_of
from kernelwright.verify.task import Arguments


def model_file(
    source: str,
    lowered: Lowered,
    composed: str,
    *,
    module: torch.nn.Module,
    arguments: Arguments = ([], {}),
    is_for_one_mode: bool,
    is_graphed: bool = False,
) -> str:
    """`optimized.py` for a file that defines `Model`: the same file with `ModelNew`.

    Everything of the original stays, constants included; only the class's name and its `forward`
    change, and its constructor refuses other arguments.

    Args:
        source: text of the original file.
        composed: text of `fused_operator` and its kernels.
        module: the original, for its signature and its mode.
        arguments: the original was constructed with them.
        is_for_one_mode: refuse the other of train and eval mode.
        is_graphed: replay all of it as a CUDA graph.
    """
    forward = forward_of(
        lowered,
        module,
        composed,
        is_for_one_mode=is_for_one_mode,
        is_graphed=is_graphed,
        own_module=type(module).__module__,
    )
    docstring, rest = _opened(source)
    renamed = rename(rest, {"Model": "ModelNew"})
    model = guarded(_replace_forward(renamed, forward.method), module, arguments)
    preamble = forward.preamble
    if "expect_value(" in model and EXPECT_VALUE not in preamble:
        preamble += f"{EXPECT_VALUE}\n\n\n"
    return f"{docstring}{preamble}{model}"


_COMPILED = """

compiled_operator = torch.compile(
    uncompiled_operator, fullgraph=True{options}
)


def fused_operator({names}):
    with torch.no_grad():
        return compiled_operator({names})
"""


def compiled(composed: str, *, moves_layouts: bool = True, is_sized: bool = False) -> str:
    """The text with `fused_operator` inside torch.compile, as one graph: Inductor fuses and plans
    what the kernels leave.

    Args:
        composed: text of `fused_operator` and its kernels.
        moves_layouts: Inductor may change the memory layout of convolutions, which may make a
            library compute in another precision.
        is_sized: the code computes at several sizes.
    """
    entry = next(
        node
        for node in ast.parse(composed).body
        if isinstance(node, ast.FunctionDef) and node.name == "fused_operator"
    )
    names = ", ".join(argument.arg for argument in entry.args.args)
    options = ("" if is_sized else ", dynamic=False") + options_text(moves_layouts, is_sized)
    uncompiled = rename(composed, {"fused_operator": "uncompiled_operator"})
    return uncompiled.rstrip() + _COMPILED.format(names=names, options=options)


LAYOUTS_STAY = '{"layout_optimization": False}'
"""Options of torch.compile without which Inductor may choose memory layouts."""


def options_text(moves_layouts: bool, is_sized: bool = False) -> str:
    """Further arguments of torch.compile, after a comma."""
    dynamic = ", dynamic=True" if is_sized else ""
    return dynamic if moves_layouts else f"{dynamic}, options={LAYOUTS_STAY}"


def flat_file(source: str, composed: str) -> str:
    """`optimized.py` for a flat program: the same file with `fused_operator` replaced."""
    docstring, rest = _opened(source)
    lines = lines_of(rest)
    for node in ast.parse(rest).body:
        if isinstance(node, ast.FunctionDef) and node.name == "fused_operator":
            lines[node.lineno - 1 : node.end_lineno] = []
    return f"{docstring}{composed}\n\n" + "\n".join(lines).strip() + "\n"


def factory_file(
    spec: str,
    lowered: Lowered,
    composed: str,
    *,
    module: torch.nn.Module,
    is_for_one_mode: bool,
) -> str:
    """`optimized.py` for `package.module:factory`: `attach(module)` gives the factory's module a
    new forward; parameters, buffers and state_dict keys stay its own. The file imports nothing of
    the user's, so the judge reads the very file that is written."""
    forward = forward_of(lowered, module, composed, is_for_one_mode=is_for_one_mode)
    return f'''{forward.preamble}{forward.method}


def attach(module):
    """The module that {spec} makes, computing with the kernels above."""
    kind = type(module)
    vars(module).pop("forward", None)  # a forward replaced on the instance would hide the new one
    module.__class__ = type("Optimized" + kind.__name__, (kind,), {{"forward": forward}})
    return module
'''


def _opened(source: str) -> tuple[str, str]:
    """(module docstring, the rest without `if __name__ == "__main__":` blocks)."""
    lines = lines_of(source)
    body = ast.parse(source).body
    for node in reversed(body):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            lines[node.lineno - 1 : node.end_lineno] = []
    first = body[0] if body else None
    docstring, end = "", 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        end = first.end_lineno or 0
        docstring = "\n".join(lines[first.lineno - 1 : end]) + "\n\n"
    return docstring, "\n".join(lines[end:]).strip() + "\n"


def _replace_forward(source: str, method: str) -> str:
    lines = lines_of(source.rstrip())
    tree = ast.parse(source)
    model = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelNew")
    start = end = model.end_lineno or 0
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            start, end = first - 1, node.end_lineno or 0
    indent = " " * model.body[0].col_offset
    lines[start:end] = [indent + line if line else line for line in method.splitlines()]
    return "\n".join(lines) + "\n"
