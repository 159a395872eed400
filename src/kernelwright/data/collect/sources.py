"""Finds the sources of a target without running any of its code.

A target is a Python file, a folder of Python files, an installed package or module, or
"package.module:factory". A source is a file that may define modules, a file that is a whole task
(in KernelBench's form or a flat program), or a factory.
"""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Self

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

_LICENCE_PREFIX = "License :: "


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectSource:
    """A file of a target that may define modules, or a factory."""

    kind: str
    """"package": a module of an installed package; "file": a file that is imported by itself;
    "task": a file that verify.load understands; "factory"."""
    name: str
    """Its file, relative to the target or, of a package, to where packages lie; or the factory."""
    where: str
    """The object to import: dotted module, path of the file, or the factory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectTarget:
    """A target that a user named, with its sources."""

    name: str
    """The package's dotted name, or the last part of the path."""
    package: str | None = None
    """The distribution that installed it, where one did."""
    version: str | None = None
    licence: str | None = None
    """As the distribution's metadata says."""
    sources: tuple[CollectSource, ...] = ()

    @classmethod
    def find(cls, spec: str) -> Self:
        """The target that a user names: a path, or else a package or factory of that name.

        Raises:
            UsageError: there is none, or it holds no Python files.
        """
        path = Path(spec)
        if path.is_file():
            return cls(name=path.name, sources=tuple(_of_files([path], path.parent)))
        if path.is_dir():
            files = sorted(path.rglob("*.py"))
            return cls(name=path.resolve().name, sources=tuple(_of_files(files, path)))
        if ":" in spec:
            source = CollectSource(kind="factory", name=spec, where=spec)
            return cls(name=spec, sources=(source,), **_distribution(spec.partition(".")[0]))
        sources = tuple(_of_package(spec))
        return cls(name=spec, sources=sources, **_distribution(spec.partition(".")[0]))

    def facts(self) -> Record:
        """The fields of a collection's head that name the target, the same on every machine."""
        return {
            "target": self.name,
            "package": self.package,
            "version": self.version,
            "licence": self.licence,
        }


def _of_files(files: list[Path], root: Path) -> Iterator[CollectSource]:
    for file in files:
        kind = _kind(file)
        if kind is not None:
            yield CollectSource(
                kind=kind, name=str(file.relative_to(root)), where=str(file.resolve())
            )


def _of_package(dotted: str) -> Iterator[CollectSource]:
    """The modules of an installed package, sorted, without importing any of them.

    Raises:
        UsageError: there is no such package, or it holds no Python files.
    """
    top, *rest = dotted.split(".")
    spec = importlib.util.find_spec(top) if all(p.isidentifier() for p in (top, *rest)) else None
    if spec is None:
        raise UsageError(
            "no such file, folder or installed package",
            file=dotted,
            remedy="give a path, a package such as torch.nn.modules, or package.module:factory",
        )
    folders = [Path(folder).joinpath(*rest) for folder in spec.submodule_search_locations or ()]
    files = [f.with_suffix(".py") for f in folders] + [Path(spec.origin or "")] * (not rest)
    modules = {(file, dotted) for file in files if file.is_file() and file.suffix == ".py"}
    for folder in folders:
        for file in folder.rglob("*.py"):
            names = _names(file.relative_to(folder))
            if all(name.isidentifier() and name != "__main__" for name in names):
                modules.add((file, ".".join([dotted, *names])))
    if not modules:
        raise UsageError(
            "holds no Python files", file=dotted, remedy="name the package or one of its modules"
        )
    for file, module in sorted(modules):
        if _kind(file) is not None:
            depth = module.count(".") + (file.name == "__init__.py")
            name = "/".join(file.parts[-depth - 1 :])
            yield CollectSource(kind="package", name=name, where=module)


def _names(file: Path) -> list[str]:
    """The parts of a module's dotted name."""
    return [part for part in file.with_suffix("").parts if part != "__init__"]


def _kind(file: Path) -> str | None:
    """The kind of a file by its text: "task" or "file"; None if it cannot define a module."""
    try:
        text = file.read_text(encoding="utf-8")
        top = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        return "file"  # importing it says what is wrong
    defined = {node.name for node in top if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    if "get_inputs" in defined and ({"Model", "fused_operator"} & defined):
        return "task"
    has_class = any(isinstance(node, ast.ClassDef) and node.bases for node in top)
    return "file" if has_class and ("torch" in text or "def forward" in text) else None


def _distribution(top: str) -> Mapping[str, str | None]:
    """Name, version and licence of what installed a top-level package."""
    names = metadata.packages_distributions().get(top)
    if not names:
        return {}
    fields = metadata.metadata(names[0]).json
    classified = [
        value.removeprefix(_LICENCE_PREFIX).removeprefix("OSI Approved :: ")
        for value in fields.get("classifier", ())
        if value.startswith(_LICENCE_PREFIX)
    ]
    named = str(fields.get("license_expression") or fields.get("license") or "").strip()
    licence = named if named and "\n" not in named else "; ".join(classified)
    return {"package": names[0], "version": str(fields["version"]), "licence": licence or None}
