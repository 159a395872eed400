"""kernelwright: PyTorch programs in, verified Triton kernels out.

Importing this package is light: torch is loaded when `optimize` or `verify` is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelwright.core.errors import InfraError, SearchInterrupted, UsageError

if TYPE_CHECKING:
    from kernelwright.compile.explain import explain as explain
    from kernelwright.search.api import optimize as optimize
    from kernelwright.verify.api import verify as verify
    from kernelwright.verify.testing import assert_kernel as assert_kernel

__version__ = "0.1.0.dev0"
__all__ = [
    "InfraError",
    "SearchInterrupted",
    "UsageError",
    "__version__",
    "assert_kernel",
    "explain",
    "optimize",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "optimize":
        from kernelwright.search.api import optimize

        return optimize
    if name == "explain":
        from kernelwright.compile.explain import explain

        return explain
    if name == "assert_kernel":
        from kernelwright.verify.testing import assert_kernel

        return assert_kernel
    if name == "verify":  # the package, which can be called
        return import_module("kernelwright.verify")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
