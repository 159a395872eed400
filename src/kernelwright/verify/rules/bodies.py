"""Rules about the bodies of kernels."""

import ast
from collections.abc import Iterator

from kernelwright.verify.rules.rule import refuse
from kernelwright.verify.rules.source import CandidateSource, starts

KERNELS_CALL = frozenset({"triton", "torch._inductor.runtime"})
"""Modules with functions for kernels; TorchInductor's kernels call the second."""
HANDLES = frozenset({"handle"})
"""Attributes of values in a kernel that hold an array of the interpreter's, or the compiler's."""


@refuse("compute with triton.language in kernels", "E01 E07")
def host_code_in_kernel(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Triton's interpreter would run Python in a kernel that no GPU runs, NumPy's functions too."""
    for kernel in source.outer_kernels():
        for node in (node for statement in kernel.body for node in ast.walk(statement)):
            if isinstance(node, ast.Attribute) and node.attr in HANDLES:
                yield node.lineno, f"uses .{node.attr} in the kernel {kernel.name}"
            elif isinstance(node, ast.Call):
                name = source.dotted(node.func)
                if source.is_imported(name) and not starts(name, KERNELS_CALL):
                    yield node.lineno, f"calls {name} in the kernel {kernel.name}"
