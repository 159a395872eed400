"""kernelwright: PyTorch programs in, verified Triton kernels out.

Importing this package is light: torch is loaded when `optimize` or `verify` is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.search.api import optimize as optimize

__version__ = "0.1.0.dev0"
__all__ = ["__version__", "optimize"]


def __getattr__(name: str) -> Any:
    if name == "optimize":
        from kernelwright.search.api import optimize

        return optimize
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
