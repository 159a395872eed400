"""The importable `optimized.py`: the composed kernels behind the original's own interface."""

import ast
import re
from dataclasses import dataclass

from kernelwright.core.plan import lines_of
from kernelwright.programs.fragments.source_merge import rename
from kernelwright.search.module.constructor import guarded
from kernelwright.search.module.forward import EXPECT_VALUE, forward_of
from kernelwright.search.module.guards import ORIGINAL, LoweredModule
from kernelwright.verify.tasks.module_task import Arguments


def model_file(
    source: str,
    traced: LoweredModule,
    composed: str,
    *,
    arguments: Arguments = ([], {}),
    is_graphed: bool = False,
    falls_back: bool = True,
) -> str:
    """`optimized.py` for a file that defines `Model`: the same file with `ModelNew`.

    Everything of the original stays, constants included. Only the class's name changes, its
    constructor refuses other arguments, and its `forward` is called `original_forward`: that
    computes all calls that the kernels do not compute.

    Args:
        source: text of the original file.
        composed: text of `fused_operator` and its kernels.
        arguments: the original was constructed with them.
        is_graphed: replay all of it as a CUDA graph.
        falls_back: keep the original forward. Else other calls raise ValueError.
    """
    docstring, rest = _opened(source)
    renamed = rename(rest, {"Model": "ModelNew"})
    kept = _Original.of(renamed)
    forward = forward_of(
        traced,
        composed,
        is_graphed=is_graphed,
        own_module=type(traced.module).__module__,
        original=kept.call if falls_back else None,
    )
    model = guarded(kept.beside(forward.method, is_kept=falls_back), traced.module, arguments)
    preamble = forward.preamble
    if "expect_value(" in model and EXPECT_VALUE not in preamble:
        preamble += f"{EXPECT_VALUE}\n\n\n"
    return f"{docstring}{preamble}{model}"


_COMPILED = """

compiled_operator = torch.compile(
    uncompiled_operator, fullgraph=True, dynamic={is_sized}{options}
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
    options = options_text(moves_layouts)
    uncompiled = rename(composed, {"fused_operator": "uncompiled_operator"})
    return uncompiled.rstrip() + _COMPILED.format(names=names, is_sized=is_sized, options=options)


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
    # From the end: numbers of lines that are still to come stay right.
    for node in reversed(ast.parse(rest).body):
        if isinstance(node, ast.FunctionDef) and node.name == "fused_operator":
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = []
    return f"{docstring}{composed}\n\n" + "\n".join(lines).strip() + "\n"


def factory_file(
    spec: str, traced: LoweredModule, composed: str, *, falls_back: bool = True
) -> str:
    """`optimized.py` for `package.module:factory`: `attach(module)` gives the factory's module a
    new forward; parameters, buffers and state_dict keys stay its own. The file imports nothing of
    the user's, so the judge reads the very file that is written."""
    forward = forward_of(traced, composed, original=f"self.{ORIGINAL}" if falls_back else None)
    return f'''{forward.preamble}{forward.method}


def attach(module):
    """The module that {spec} makes, computing with the kernels above."""
    kind = type(module)
    own = vars(module).pop("forward", None)  # it would hide the new one
    methods = {{"forward": forward, "{ORIGINAL}": kind.forward}}
    module.__class__ = type("Optimized" + kind.__name__, (kind,), methods)
    if own is not None:
        module.{ORIGINAL} = own
    return module
'''


def _opened(source: str) -> tuple[str, str]:
    """(module docstring, the rest without `if __name__ == "__main__":` blocks)."""
    lines = lines_of(source)
    body = ast.parse(source).body
    # From the end, so that the line numbers of earlier statements stay right.
    for node in reversed(body):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            lines[node.lineno - 1 : node.end_lineno] = []
    first = body[0] if body else None
    docstring, end = "", 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        end = first.end_lineno or 0
        docstring = "\n".join(lines[first.lineno - 1 : end]) + "\n\n"
    return docstring, "\n".join(lines[end:]).strip() + "\n"


@dataclass(frozen=True, slots=True)
class _Original:
    """The `forward` of the class `ModelNew` in the text of a file."""

    source: str
    model: ast.ClassDef
    definitions: tuple[ast.FunctionDef, ...]
    """The definitions of forward; empty where the class inherits or assigns forward."""

    @classmethod
    def of(cls, source: str) -> "_Original":
        text = source.rstrip()
        model = next(
            node
            for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef) and node.name == "ModelNew"
        )
        named = (node for node in model.body if isinstance(node, ast.FunctionDef))
        return cls(text, model, tuple(node for node in named if node.name == "forward"))

    @property
    def _is_inherited(self) -> bool:
        names = {
            target.id
            for node in self.model.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        return not self.definitions and "forward" not in names

    @property
    def call(self) -> str:
        """The function that computes what the original does."""
        return "super().forward" if self._is_inherited else f"self.{ORIGINAL}"

    def beside(self, method: str, *, is_kept: bool) -> str:
        """The text with a new forward.

        Args:
            is_kept: the original forward stays, under another name.
        """
        lines = lines_of(self.source)
        indent = " " * self.model.body[0].col_offset
        added = [indent + line if line else line for line in method.splitlines()]
        last = self.definitions[-1] if self.definitions else None
        end = (last.end_lineno if last else self.model.end_lineno) or 0
        start = end
        if is_kept:
            for node in self.definitions:
                at = node.lineno - 1
                # The name of the method is the first word "forward" after `def`.
                lines[at] = re.sub(r"\bforward\b", ORIGINAL, lines[at], count=1)
            # The class assigns `forward = ...`: the old value gets its new name before the method
            # hides it.
            if not self.definitions and not self._is_inherited:
                added = [f"{indent}{ORIGINAL} = forward", *added]
            added = ["", *added]
        elif last is not None:
            # The decorators of the old forward go with it.
            first = min((d.lineno for d in last.decorator_list), default=last.lineno)
            start = first - 1
        lines[start:end] = added
        return "\n".join(lines) + "\n"
