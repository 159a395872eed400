"""Faults that the text of an answer shows without a run: undefined names, and shapes of another
rank.

A third of the embedded model's wrong answers to synthetic-v1 fail in this way. A model
can write such an answer again from the fault on (`policy.mending`).
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.core.syntax import syntax_tree
from kernelwright.policy import flow
from kernelwright.policy.ranks import Fault, Ranks, changes_ranks
from kernelwright.programs.fragments.decompose import ENTRY
from kernelwright.programs.program import Program

_OF_MODULES = {"__file__", "__builtins__", "__annotations__", "__cached__"}
_REFLECTION = {
    "__builtins__",
    "__dict__",
    "__import__",
    "exec",
    "globals",
    "import_module",
    "modules",
    "setattr",
    "vars",
}
"""Names by which a text can bind other names, without a statement that shows these names."""
_TAKES_FUNCTION = {"reduce", "associative_scan", "map_elementwise"}
"""Functions of Triton's language that compile a function passed to them."""


def first_fault(source: str, program: Program) -> Fault | None:
    """The first statement of a candidate that is sure to fail; None if no fault is found.

    No fault may be reported for a correct candidate. So the search is cautious: it reads only
    statements that every call of the entry runs, a name that any path binds counts as bound, and
    only known ranks are compared. For a source that is not Python, no fault is reported.

    Args:
        program: the program that the candidate is for. Its inputs give the ranks of the entry's
            parameters.
    """
    try:
        tree = syntax_tree(source)
    except SyntaxError:
        return None
    if _may_bind_anything(tree):
        return None
    functions = _own_functions(tree)
    faults = _Names(tree, functions).faults_from(ENTRY)
    if not changes_ranks(tree):
        # Parameters of kernels are pointers and numbers: only host functions have ranks to follow.
        hosts = {name: body for name, body in functions.items() if not flow.is_kernel(body)}
        ranks = Ranks(hosts)
        ranks.call(ENTRY, [len(value.type.shape) for value in program.inputs])
        faults += ranks.faults
    return min(faults, key=lambda fault: fault.line, default=None)


def _may_bind_anything(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        if name in _REFLECTION or (isinstance(node, ast.alias) and node.name == "builtins"):
            return True
    return False


def _own_functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions that a name of the module surely means, with decorators that surely call them."""
    functions: dict[str, ast.FunctionDef] = {}
    later = flow.shared(tree)
    for statement in reversed(tree.body):
        is_last = not later & {getattr(statement, "name", ""), "*"}
        if isinstance(statement, ast.FunctionDef) and is_last:
            first_names = {first for first, _ in flow.decorators(statement)}
            if first_names <= {"torch", "triton", *flow.KERNEL_DECORATORS}:
                functions[statement.name] = statement
        later |= flow.bound([statement])
    return functions


@dataclass(slots=True)
class _CheckedFunction:
    """A function whose names are checked."""

    local: set[str]
    bound: set[str]
    """Names that are bound so far."""
    in_kernel: bool
    called: list[str] = field(default_factory=list)
    """Functions of the module that it surely calls."""


class _Names:
    """Finds names that no statement binds before they are read."""

    def __init__(self, tree: ast.Module, functions: Mapping[str, ast.FunctionDef]) -> None:
        self._functions = functions
        self._known = {*dir(builtins), *_OF_MODULES, *flow.bound(tree.body), *flow.shared(tree)}

    def faults_from(self, entry: str) -> list[Fault]:
        """The faults of a function, and of the functions that it surely calls, also indirectly."""
        faults: list[Fault] = []
        waiting, checked = [entry], set()
        while waiting:
            name = waiting.pop()
            function = self._functions.get(name)
            if function is None or name in checked or flow.is_generator(function):
                continue
            checked.add(name)
            scope = _CheckedFunction(
                flow.local_names(function), flow.parameters(function), flow.is_kernel(function)
            )
            faults += self._in_order(function.body, scope)
            waiting += scope.called
        return faults

    def _in_order(self, body: Sequence[ast.stmt], scope: _CheckedFunction) -> Iterator[Fault]:
        """Faults of a block's statements, in order.

        After a branch or a loop all names that it binds count as bound. In a loop they count from
        its beginning, since an earlier turn may have bound them. Names of a `with` count inside it.
        """
        for statement in body:
            if isinstance(statement, ast.For | ast.While | ast.With):
                scope.bound |= flow.bound([statement])
            scope.bound |= flow.assigned_inside(statement)
            for part in flow.sure_parts(statement):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                    if self._is_missing(part.id, scope):
                        yield Fault(part.lineno, f"{part.id} is not defined")
                elif isinstance(part, ast.Call):
                    scope.called += [name for name in _called(part) if name not in scope.local]
            block = flow.sure_block(statement, in_kernel=scope.in_kernel)
            yield from self._in_order(block, scope)
            scope.bound |= flow.bound([statement])
            if flow.leaves(statement):
                return

    def _is_missing(self, name: str, scope: _CheckedFunction) -> bool:
        if name in scope.local:
            return name not in scope.bound
        # A module that imports everything may know any name.
        return name not in self._known and "*" not in self._known


def _called(call: ast.Call) -> list[str]:
    """Names that a call of `f(...)`, `f[grid](...)` or `tl.reduce(x, axis, f)` runs."""
    function = call.func
    if isinstance(function, ast.Attribute):
        takes = call.args if function.attr in _TAKES_FUNCTION else []
        return [value.id for value in takes if isinstance(value, ast.Name)]
    owner = function.value if isinstance(function, ast.Subscript) else function
    return [owner.id] if isinstance(owner, ast.Name) else []
