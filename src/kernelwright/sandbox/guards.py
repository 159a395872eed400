"""What keeps a guest from the rest of the machine. Each guard is tried; what holds is reported.

In force after `confine`: own process group, death with its parent, resource limits, user, network
and IPC namespaces, no new privileges, Landlock. None needs root. A guard the kernel refuses is
missing from the report and stops nothing.
"""

import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 1, 38, 36
_SIGKILL = 9
_CLONE_NEWUSER, _CLONE_NEWIPC, _CLONE_NEWNET = 0x10000000, 0x08000000, 0x40000000

# linux/landlock.h
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_MAKE_AND_REMOVE = 0x1FF0  # bits 4..12
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Confinement:
    """What one guest may use."""

    folder: Path
    """The only folder it may write, with `cache` where given."""
    cache: Path | None = None
    memory_bytes: int
    """Address space beyond what the fork server already maps; not limited where `on_gpu`, since
    CUDA reserves address space far beyond what it uses."""
    cpu_s: int
    on_gpu: bool


def confine(limits: Confinement) -> list[str]:
    """Put the calling process under every guard that works here; return their names."""
    guards: list[tuple[str, Callable[[], None]]] = [
        ("netns+ipcns", lambda: _new_namespaces(_CLONE_NEWNET | _CLONE_NEWIPC)),
        ("pdeathsig", lambda: _prctl(_PR_SET_PDEATHSIG, _SIGKILL)),
        ("nonewprivs", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1)),
        ("landlock", lambda: _landlock(limits)),
        ("rlimits", lambda: _resource_limits(limits)),
    ]
    held = []
    for name, guard in guards:
        try:
            guard()
        except OSError:
            continue
        held.append(name)
    return held


def adopt_orphans() -> None:
    """Make the caller the parent of whatever its children leave behind, so it can end them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _new_namespaces(flags: int) -> None:
    """A user namespace first: that is what lets an ordinary user make the others."""
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(_CLONE_NEWUSER | flags))
    for path, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path("/proc/self", path).write_text(text)


def _resource_limits(limits: Confinement) -> None:
    def limit(which: int, value: int, spare: int = 0) -> None:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value, spare = min(value, hard), min(spare, hard - min(value, hard))
        resource.setrlimit(which, (value, value + spare))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 1 << 30)
    limit(resource.RLIMIT_CPU, limits.cpu_s, spare=5)  # SIGXCPU first, then SIGKILL
    if not limits.on_gpu:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit(resource.RLIMIT_AS, mapped + limits.memory_bytes)


def _landlock(limits: Confinement) -> None:
    """Write only `folder`; on CPU also read only the interpreter, the system and `folder`.

    With CUDA reads stay open: which files a driver reads is not ours to list.
    """
    abi = _checked(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))
    write = _WRITE_FILE | _MAKE_AND_REMOVE
    write |= (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    read = _EXECUTE | _READ_FILE | _READ_DIR
    handled = write if limits.on_gpu else write | read
    scoped = _SCOPE_SIGNAL if limits.on_gpu else _SCOPE_SIGNAL | _SCOPE_ABSTRACT_SOCKET
    # struct landlock_ruleset_attr: handled_access_fs, handled_access_net (ABI 4), scoped (ABI 6)
    attributes = struct.pack("QQQ", handled, 0, scoped)[: 24 if abi >= 6 else 8]
    ruleset = _checked(
        _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    )
    try:
        own = [limits.folder, *([limits.cache] if limits.cache else [])]
        _allow(ruleset, own, handled)
        _allow(ruleset, _device_files(limits.on_gpu), handled & (write | read))
        if not limits.on_gpu:
            _allow(ruleset, _readable(), read)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[Path], access: int) -> None:
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this machine
        try:
            rights = access if path.is_dir() else access & _ON_FILES
            rule = struct.pack("=Qi", rights, handle)
            _checked(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
        finally:
            os.close(handle)


def _device_files(on_gpu: bool) -> list[Path]:
    names = [Path("/dev/null")]
    if on_gpu:
        # /dev/shm holds the counters of shared device memory; the driver names its threads by
        # writing to /proc/self/task, and reports error 304 where it cannot.
        names += [Path("/dev/shm"), Path("/proc/self"), *Path("/dev").glob("nvidia*")]
    return names


def _readable() -> list[Path]:
    """System, interpreter and the packages already imported; not the user's files."""
    system = "/usr /lib /lib64 /lib32 /bin /sbin /etc /proc /sys /dev/urandom /dev/random"
    interpreter = [sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()]
    packages = [
        folder
        for name, module in list(sys.modules.items())
        if "." not in name
        for folder in vars(module).get("__path__", ())
    ]
    return [Path(name) for name in (*system.split(), *interpreter, *packages)]
