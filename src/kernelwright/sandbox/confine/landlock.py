"""Landlock: the guard that says which files a guest may read and write. It needs no rights."""

import os
import struct
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kernelwright.sandbox.confine import kernel

# linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_MAKE_AND_REMOVE = 0x1FF0  # bits 4..12
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2


_CONFIGURATION = [
    f"/etc/{name}"
    for name in (
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "localtime",
        "timezone", "locale.alias", "nsswitch.conf", "passwd", "group", "ssl/certs",
    )
]  # fmt: skip
"""Files that the loader, the C library and compilers read. Other files of /etc may hold secrets,
and a guest of root could read them."""


def restrict(
    readable: Iterable[Path], writable: Iterable[Path], *, on_gpu: bool, own_proc: bool
) -> None:
    """Lets this process write only `writable`; on CPU also read only that, `readable`, the system
    and packages.

    With CUDA reads stay open: we cannot list the files that a driver reads.

    Args:
        own_proc: /proc shows the guest's own processes only, and so may be read.

    Raises:
        OSError: the kernel has no Landlock.
    """
    abi = kernel.system_call(_CREATE_RULESET, None, 0, 1)
    write = _WRITE_FILE | _MAKE_AND_REMOVE
    # A right that the kernel does not know makes the whole rule set invalid.
    write |= (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    read = _EXECUTE | _READ_FILE | _READ_DIR
    handled = write if on_gpu else write | read
    scoped = _SCOPE_SIGNAL if on_gpu else _SCOPE_SIGNAL | _SCOPE_ABSTRACT_SOCKET
    # struct landlock_ruleset_attr: handled_access_fs, handled_access_net (ABI 4), scoped (ABI 6)
    attributes = struct.pack("QQQ", handled, 0, scoped)[: 24 if abi >= 6 else 8]
    ruleset = kernel.system_call(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(ruleset, writable, handled)
        _allow(ruleset, _device_files(on_gpu), handled)
        if not on_gpu:
            _allow(ruleset, [*readable, *_system(own_proc)], read)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[Path], access: int) -> None:
    """Adds a rule for each path that exists: these rights on the path and everything below."""
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this machine
        try:
            # The kernel refuses rights of folders, such as MAKE_DIR, in a rule for a file.
            rights = access if path.is_dir() else access & _ON_FILES
            rule = struct.pack("=Qi", rights, handle)
            kernel.system_call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(handle)


def _device_files(on_gpu: bool) -> list[Path]:
    names = [Path("/dev/null")]
    if on_gpu:
        # /dev/shm holds the counters of shared device memory; the driver names its threads by
        # writing to /proc/self/task, and reports error 304 where it cannot.
        names += [Path("/dev/shm"), Path("/proc/self"), *Path("/dev").glob("nvidia*")]
    return names


def _system(own_proc: bool) -> list[Path]:
    """Returns paths of the system, the interpreter and the imported packages, and no files of the
    user's."""
    system = "/usr /lib /lib64 /lib32 /bin /sbin /sys /dev/urandom /dev/random"
    shared_proc = "/proc/self /proc/cpuinfo /proc/meminfo /proc/stat /proc/filesystems /proc/sys"
    interpreter = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()]
    proc = ["/proc"] if own_proc else shared_proc.split()
    names = (*system.split(), *_CONFIGURATION, *proc, *interpreter, *packages())
    return [Path(name) for name in names]


@cache
def packages() -> list[str]:
    """Returns the folders of the packages that are imported. The fork server calls this first, for
    all its guests."""
    return [
        folder
        for name, module in list(sys.modules.items())
        if "." not in name
        for folder in vars(module).get("__path__", ())
    ]
