"""Importing an `optimized.py` of our own."""

import importlib.util
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelwright.sandbox.shared import own_folders

Compute = Callable[..., list[torch.Tensor]]
"""A `fused_operator`: inputs of a program -> its outputs."""
_numbers = itertools.count()


def import_file(path: Path, *, is_unique: bool = False) -> ModuleType:
    """The module in a file. It runs in this process, so it must be trusted code.

    Args:
        is_unique: the module gets a name of its own: Dynamo remembers modules by name.
    """
    name = f"{path.stem}_{next(_numbers)}" if is_unique else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported_function(source: str) -> Compute:
    """The `fused_operator` of a source. Triton reads kernels from a file, so the source gets a
    folder that lives as long as the function. Also after a kill, no folder stays."""
    folder = own_folders.make("optimized")
    path = folder / f"optimized_{next(_numbers)}.py"
    path.write_text(source, encoding="utf-8")
    function: Compute = import_file(path).fused_operator
    weakref.finalize(function, own_folders.remove, folder)  # at exit at the latest
    return function


@contextmanager
def importable(name: str, values: Mapping[str, Any]) -> Iterator[None]:
    """A module of an imported file has its name for the time being: Dynamo imports by name what a
    function reads.

    Args:
        name: of the module, as its functions have it in `__module__`.
        values: what the module holds.
    """
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
