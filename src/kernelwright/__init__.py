"""kernelwright: PyTorch programs in, verified Triton kernels out.

Importing the package loads no torch: the first use of a function such as `optimize` or `verify`
loads torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kernelwright.core.errors import InfraError, SearchInterrupted, UsageError

if TYPE_CHECKING:
    from kernelwright.compile.explain import explain as explain
    from kernelwright.deploy.package import export as export
    from kernelwright.search.api import optimize as optimize
    from kernelwright.search.optimized import source as source
    from kernelwright.search.optimized import summary as summary
    from kernelwright.search.saving import load as load
    from kernelwright.search.saving import save as save
    from kernelwright.verify.api import verify as verify
    from kernelwright.verify.testing import assert_kernel as assert_kernel

__version__ = "0.1.0"
__all__ = [
    "InfraError",
    "SearchInterrupted",
    "UsageError",
    "__version__",
    "assert_kernel",
    "explain",
    "export",
    "load",
    "optimize",
    "save",
    "source",
    "summary",
    "verify",
]
_HOMES = {
    "assert_kernel": "verify.testing",
    "explain": "compile.explain",
    "export": "deploy.package",
    "load": "search.saving",
    "optimize": "search.api",
    "save": "search.saving",
    "source": "search.optimized",
    "summary": "search.optimized",
}
"""The module of each function: importing these modules loads torch."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"kernelwright.{_HOMES[name]}"), name)
    if name == "verify":  # the package, which can be called
        return import_module("kernelwright.verify")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
