"""Importing an `optimized.py` of our own."""

import importlib.util
from pathlib import Path
from types import ModuleType


def import_file(path: Path) -> ModuleType:
    """The module in a file. It runs in this process, so it must be trusted code."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
