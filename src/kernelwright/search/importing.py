"""Importing an `optimized.py` of our own."""

import importlib.util
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

Compute = Callable[..., list[torch.Tensor]]
"""A `fused_operator`: inputs of a program -> its outputs."""
_numbers = itertools.count()


def import_file(path: Path) -> ModuleType:
    """The module in a file. It runs in this process, so it must be trusted code."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported_function(source: str) -> Compute:
    """The `fused_operator` of a source. Triton reads kernels from a file, so the source gets a
    folder that lives as long as the function."""
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-optimized-"))
    path = folder / f"optimized_{next(_numbers)}.py"
    path.write_text(source, encoding="utf-8")
    function: Compute = import_file(path).fused_operator
    weakref.finalize(function, shutil.rmtree, folder, ignore_errors=True)  # at exit at the latest
    return function
