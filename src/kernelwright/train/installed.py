"""Checks that the libraries for training are installed."""

from importlib.util import find_spec

from kernelwright.core.errors import UsageError

NEEDED = ("trl", "transformers", "accelerate", "datasets", "peft")


def check_installed() -> None:
    """Check that the libraries of the extra `train` are installed.

    Raises:
        UsageError: a library is missing.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        remedy = "pip install 'kernelwright[train]'"
        raise UsageError(f"training needs {', '.join(missing)}", remedy=remedy)
