"""Checks before torch is imported: inputs can be read, and outputs can be written.

So a wrong path is reported in a fraction of a second, and not at the end of the work.
"""

import ast
import socket
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from kernelwright.core.errors import UsageError, file_error
from kernelwright.core.folders import check_folder
from kernelwright.core.text import read_text
from kernelwright.policy.names import FORMS, PATH, URL, are_policies

CONNECT_S = 3.0
"""Seconds that a model's endpoint may take to accept a connection."""


def check_target(spec: str) -> None:
    """See that a Python file is there and parses, or that a module of that name is installed.

    Raises:
        UsageError: neither is so.
    """
    check_source(spec)
    if is_factory(spec):
        return
    text = read_text(Path(spec))
    try:
        ast.parse(text, spec)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        message = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
        raise UsageError(message, file=spec, line=line, remedy="mend the file") from error


def is_factory(spec: str) -> bool:
    """The target is package.module:factory, not a file."""
    return ":" in spec and not spec.endswith(".py")


def check_source(spec: str) -> None:
    """See that there is a file or a module of that name.

    Raises:
        UsageError: there is none.
    """
    if is_factory(spec):
        _check_module(spec, spec.partition(":")[0])
    elif not Path(spec).is_file():
        message = "this is not a file" if Path(spec).exists() else "there is no such file"
        remedy = "give a Python file or package.module:factory"
        raise UsageError(message, file=spec, remedy=remedy)


def _check_module(spec: str, module: str) -> None:
    package = module.partition(".")[0]
    known = package in sys.builtin_module_names
    if not known and PathFinder.find_spec(package, ["", *sys.path]) is None:
        remedy = "install it, or run the command in the folder that holds it"
        raise UsageError(f"there is no module {package!r} for {spec}", remedy=remedy)


def check_file(path: Path, remedy: str) -> None:
    """See that a file can be read.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        if path.is_dir():
            raise UsageError("this is a folder", file=str(path), remedy=remedy)
        with path.open("rb"):
            pass
    except OSError as error:
        cause = file_error(error)
        message = cause.message if cause else str(error)
        raise UsageError(message, file=str(path), remedy=remedy) from error


def check_files(paths: Iterable[Path] | None, remedy: str) -> None:
    """`check_file` for each path."""
    for path in paths or ():
        check_file(path, remedy)


def check_output_file(path: Path | None) -> None:
    """See that a file can be written or added to; an existing one stays as it is.

    Raises:
        UsageError: it cannot.
    """
    if path is None:
        return
    if path.is_dir():
        raise UsageError("this is a folder", file=str(path), remedy="give a file with --out")
    check_folder(path.parent)
    if path.exists():
        try:
            path.open("ab").close()
        except OSError as error:
            remedy = "give another file with --out"
            raise UsageError("cannot write to this file", file=str(path), remedy=remedy) from error


def check_policies(spec: str) -> None:
    """See that each policy has a known form, its folder is there, and its endpoint answers.

    Raises:
        UsageError: one of this is not so.
    """
    for name in (part.strip() for part in spec.split(",")):
        if not are_policies(name):
            raise UsageError(f"there is no policy {name!r}", remedy=f"give one of {FORMS}")
        if name.startswith(URL):
            _check_endpoint(name)
        elif name.startswith(PATH) and not Path(name.removeprefix(PATH)).is_dir():
            remedy = "give the folder of a model in Hugging Face's format: hf:PATH"
            raise UsageError("there is no such folder", file=name.removeprefix(PATH), remedy=remedy)


def _check_endpoint(spec: str) -> None:
    """A form that is wrong is `Endpoint.parse`'s to explain."""
    url = urllib.parse.urlsplit(spec.removeprefix(URL).partition("#")[0])
    host = url.hostname
    if host is None or url.scheme not in ("http", "https"):
        return
    proxied = url.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
    if proxied:
        return
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot reach {url.scheme}://{url.netloc}: {reason}",
            remedy="start the model's server, or correct the URL in --policy",
        ) from error
