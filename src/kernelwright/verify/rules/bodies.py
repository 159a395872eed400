"""Rules about the bodies of kernels."""

import ast
from collections.abc import Iterator

from kernelwright.verify.rules.rule import refuse
from kernelwright.verify.rules.source import CandidateSource, starts

KERNELS_CALL = frozenset({"triton", "torch._inductor.runtime"})
"""Modules with functions for kernels; TorchInductor's kernels call the second."""
HANDLES = frozenset({"handle", "__dict__", "__getattribute__"})
"""Attributes of values in a kernel that lead to an array of the interpreter's or the compiler's."""
LOOKS_INTO = frozenset({"vars", "setattr", "delattr", "globals", "locals", "dir"})
"""Functions of Python that look into objects, as no kernel on a GPU does."""


@refuse("compute with triton.language in kernels", "E01 E07")
def host_code_in_kernel(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Triton's interpreter would run Python in a kernel that no GPU runs, NumPy's functions too."""
    for kernel in source.outer_kernels():
        for node in (node for statement in kernel.body for node in ast.walk(statement)):
            if isinstance(node, ast.Attribute) and node.attr in HANDLES:
                yield node.lineno, f"uses .{node.attr} in the kernel {kernel.name}"
            elif isinstance(node, ast.Call):
                name = source.dotted(node.func)
                is_foreign = source.is_imported(name) and not starts(name, KERNELS_CALL)
                if is_foreign or name in LOOKS_INTO or _gets_handle(source, node):
                    yield node.lineno, f"calls {name} in the kernel {kernel.name}"


def _gets_handle(source: CandidateSource, call: ast.Call) -> bool:
    """Whether a call is `getattr` with the name of a handle, or with a computed name, of a value
    and not of a module."""
    if source.dotted(call.func) != "getattr" or len(call.args) < 2:
        return False
    is_module = source.is_imported(source.dotted(call.args[0]))
    return not is_module and source.names.text(call.args[1]) in {None, *HANDLES}
