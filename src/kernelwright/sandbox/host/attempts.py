"""Attempts to get past each guard, made as a candidate makes them: a guest loads this file."""

import ctypes
import errno
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p

_PR_GET_PDEATHSIG, _PR_GET_NO_NEW_PRIVS = 2, 39
_NEWUSER, _IO_URING_SETUP = 0x10000000, 425
_SIGKILL = 9


def fused_operator(facts: str) -> list[torch.Tensor]:
    """Which guards withstood, as JSON in bytes.

    Args:
        facts: JSON with what of the host's to reach for (`probe.isolation_level`).
    """
    host = json.loads(facts)
    attempts: dict[str, Callable[[], bool]] = {
        "userns": lambda: _is_other("user", host),
        "netns": lambda: _is_other("net", host) and _interfaces() == ["lo"],
        "ipcns": lambda: _attached(host["shared_memory"]) == ctypes.c_void_p(-1).value,
        "pidns": lambda: _is_other("pid", host) and not _exists(host["pid"]),
        "procfs": lambda: sum(name.isdigit() for name in os.listdir("/proc")) <= 2,
        "pdeathsig": lambda: _parent_death_signal() == _SIGKILL,
        "nonewprivs": lambda: _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
        "rlimits": _cannot_raise_limits,
        "landlock": lambda: _is_kept_from_files(host),
        "nocaps": lambda: int(_status("CapEff"), 16) == int(_status("CapPrm"), 16) == 0,
        "seccomp": lambda: _are_calls_refused(host),
        "signals": lambda: _is_out_of_reach(host["pid"]),
    }
    succeeded = {}
    for guard, attempt in attempts.items():
        try:
            succeeded[guard] = attempt()
        except Exception:  # could not be tried: not shown to hold
            succeeded[guard] = False
    device = "cuda" if host["on_gpu"] else "cpu"
    return [torch.tensor(list(json.dumps(succeeded).encode()), dtype=torch.uint8, device=device)]


def _is_other(kind: str, host: dict[str, Any]) -> bool:
    hosts: str = host["namespaces"][kind]
    return os.readlink(f"/proc/self/ns/{kind}") != hosts


def _interfaces() -> list[str]:
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


def _attached(shared_memory: int) -> int | None:
    address: int | None = _libc.shmat(shared_memory, None, 0)
    return address


def _exists(pid: int) -> bool:
    return pid > 2 and os.path.exists(f"/proc/{pid}")


def _parent_death_signal() -> int:
    number = ctypes.c_int()
    _libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def _cannot_raise_limits() -> bool:
    limits = (resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    for limit in limits:
        _, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY:
            return False
        try:
            resource.setrlimit(limit, (hard, hard + 1))
        except (OSError, ValueError):
            continue
        return False
    return True


def _is_kept_from_files(host: dict[str, Any]) -> bool:
    """Writes nothing of the host's and nothing where it works; on CPU reads nothing either, also
    none of the passwords of the system."""
    modes = {host["file"]: "a" if host["on_gpu"] else "r", "torch.py": "w"}
    if not host["on_gpu"]:
        modes["/etc/shadow"] = "r"
    for name, mode in modes.items():
        try:
            with open(name, mode):
                return False
        except (PermissionError, FileNotFoundError):
            continue
    return True


def _status(field: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))


def _are_calls_refused(host: dict[str, Any]) -> bool:
    """Calls that escapes use, and calls that change attributes of a file of the host's."""
    file = host["file"].encode()
    answers = [
        _libc.ptrace(0, 0, None, None),
        _libc.unshare(_NEWUSER),
        _libc.syscall(_IO_URING_SETUP, 1, None),
        _libc.chmod(file, 0o600),
        _libc.chown(file, -1, -1),
        _libc.utimes(file, None),
        _libc.removexattr(file, b"user.kernelwright"),
    ]
    return set(answers) == {-1} and ctypes.get_errno() == errno.EPERM


def _is_out_of_reach(pid: int) -> bool:
    """A process of the host's, to which signal 0 would do nothing."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return True
    return pid <= 2  # in a PID namespace those are the holder and the guest
