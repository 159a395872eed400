"""Launchers: the C functions through which Triton 3.6 starts kernels, one for each kind of
signature.

A C compiler makes a launcher in half a second, so each is made once for all guests of all processes
of a machine. The host makes them and not a guest, because hostile code shares them. A signature
comes from a guest. It is first reduced to a few known words, from which Triton writes the C source.
From 3.7 on Triton has one launcher, in the module of its driver, which is made here too.
"""

import fcntl
import hashlib
import os
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.core.errors import infra
from kernelwright.sandbox.shared import own_folders

FOLDER_VARIABLE = "KERNELWRIGHT_LAUNCHERS"
"""Names the folder to the worker processes that this process starts."""

MAX_ARGUMENTS = 256
_SCALARS = frozenset(
    "i1 i8 i16 i32 i64 u1 u8 u16 u32 u64 fp16 bf16 fp32 f32 fp64 constexpr".split()  # noqa: SIM905
)
_MODULE, _LAUNCHER = "cuda_utils", "__triton_launcher"


def folder() -> Path:
    """Returns the folder of this machine's launchers: given by the process that started this one,
    or made now and removed when this process ends."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen is None:
        os.environ[FOLDER_VARIABLE] = chosen = str(own_folders.make("launchers"))
    return Path(chosen)


def plain_signature(types: object) -> tuple[str, ...] | None:
    """Returns the types of a kernel's arguments as Triton's words. None if a type is no scalar or
    pointer, or if there are more than MAX_ARGUMENTS.

    The argument comes from a guest and may be any object. Every pointer becomes "*i8", because the
    C source is the same.
    """
    if not isinstance(types, list) or len(types) > MAX_ARGUMENTS:
        return None
    words = ["*i8" if type(t) is str and t.startswith("*") else t for t in types]
    # Words become C source that the host compiles: only known words may pass.
    if any(type(word) is not str or (word not in _SCALARS and word != "*i8") for word in words):
        return None
    return tuple(words)


def make(signature: tuple[str, ...]) -> None:
    """Makes the launcher of a plain signature, unless it is there.

    Raises:
        InfraError: there is no C compiler, or Triton changed.
    """
    with infra("building a kernel launcher"):
        for name, source in _sources(signature):
            _build(name, source)


@cache
def _sources(signature: tuple[str, ...]) -> Sequence[tuple[str, str]]:
    from triton.backends.nvidia import driver

    sources = [(_MODULE, Path(driver.__file__).with_name("driver.c").read_text())]
    if hasattr(driver, "make_launcher"):
        sources.append((_LAUNCHER, driver.make_launcher({}, dict(enumerate(signature)), None)))
    return sources


def _build(name: str, source: str) -> None:
    """Compiles one module to where Triton's cache looks for it."""
    from triton.runtime.build import platform_key
    from triton.runtime.cache import _base32

    key = _base32(hashlib.sha256((source + platform_key()).encode()).hexdigest())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = folder() / key / f"{name}{suffix}"
    if target.exists():
        return
    with _locked(folder() / f"{key}.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=folder()) as work:
                library = _compiled(name, source, work)
                target.parent.mkdir(exist_ok=True)
                os.replace(library, target)


def _compiled(name: str, source: str, work: str) -> Any:
    from triton.backends.nvidia import driver
    from triton.runtime.build import _build as build

    path = Path(work, f"{name}.c")
    path.write_text(source)
    libraries = getattr(driver, "libraries", ["libcuda.so.1"])
    return build(name, str(path), work, driver.library_dirs(), driver.include_dirs, libraries, [])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock among all processes that use the folder."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
