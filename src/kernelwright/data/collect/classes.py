"""Importing a source, and the module classes it defines. Runs foreign code: in a child process."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import torch

from kernelwright.core.record import Record
from kernelwright.data.collect.outcome import CollectOutcome, Refused
from kernelwright.data.collect.sources import CollectSource


def import_source(source: CollectSource) -> ModuleType:
    """Import a source, and return its module.

    A module of an installed package is imported by its name. A file is imported as a part of the
    package around it, or if there is none as a script, with its folder on the path.

    Raises:
        Refused: importing raises, or ends the process.
    """
    try:
        if source.kind == "package":
            return importlib.import_module(source.where)
        return _import_file(Path(source.where))
    except (Exception, SystemExit) as error:
        raise Refused(CollectOutcome.IMPORT_FAILED, error) from error


def _import_file(path: Path) -> ModuleType:
    # Relative imports need the package: the folders up to the first without __init__.py are it.
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    if len(names) > 1 and all(name.isidentifier() for name in names):
        return importlib.import_module(".".join(n for n in names if n != "__init__"))
    name = "kernelwright_collected"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look a class's module up
    spec.loader.exec_module(module)
    return module


def module_classes(module: ModuleType) -> list[type[torch.nn.Module]]:
    """Top-level subclasses of nn.Module that this module itself defines, in the order of the file.
    Nested classes and aliases are left out."""
    classes = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == module.__name__
        and value.__qualname__ == name
    ]
    return sorted(classes, key=lambda cls: (line_of(cls), cls.__qualname__))


def line_of(cls: type) -> int:
    """Where the class begins in its file; 0 where its source cannot be found."""
    try:
        return inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return 0


def survey(source: CollectSource) -> Record:
    """The classes of a source, as data: {"classes": [[name, line], ...]}."""
    classes = module_classes(import_source(source))
    return {"classes": [[cls.__qualname__, line_of(cls)] for cls in classes]}
