"""The guards that hold on this machine, found by starting a guest that tries to leave its
confinement."""

import ctypes
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault

GUARDS = {
    "userns": "rights of its own over nothing outside: user namespace",
    "netns": "no network: network namespace",
    "ipcns": "no System V memory of others: IPC namespace",
    "pidns": "no other process can be signalled; all it starts ends with it: PID namespace",
    "procfs": "no other process can be seen: its own /proc",
    "pdeathsig": "guests die with their server",
    "nonewprivs": "no setuid program gives a guest more rights",
    "rlimits": "CPU time, file size, core files; address space on CPU",
    "landlock": "writes only in its scratch folder; on CPU reads only system and packages",
    "nocaps": "no capabilities, even where root starts it",
    "seccomp": "no ptrace, mounts, namespaces, keys, bpf, io_uring, connections; no change of"
    " modes, owners, times or attributes of files",
    "signals": "no signal to a process of others: PID namespace or seccomp",
}
"""Every guard, and what it keeps a guest from."""

ESSENTIAL = frozenset({"nonewprivs", "rlimits", "landlock", "nocaps", "seccomp", "signals"})
"""Without these a candidate can change files, reach the network, or end processes of the user."""
WEAK_VARIABLE = "KERNELWRIGHT_WEAK_SANDBOX"
"""Environment variable: "allow" runs other people's candidates without essential guards."""

_IPC_RMID = 0
_ATTEMPTS = Path(__file__).with_name("attempts.py")


_CONTROL = """\
import triton
import triton.language as tl

@triton.jit
def doubled(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i))

def fused_operator(x):
    y = x.new_empty(16)
    doubled[(1,)](x, y, BLOCK=16)
    return y
"""


def check(device: str) -> None:
    """Runs a candidate of our own in a new guest.

    Raises:
        InfraError: the candidate fails, so our side is broken.
    """
    x = torch.arange(16, dtype=torch.float32, device=device)
    try:
        with shared(device).guest(patient=True) as guest:
            guest.load(_CONTROL)
            (output,) = guest.run("candidate", GuestCall([x], seed=0)).outputs
    except GuestFault as fault:
        raise InfraError(f"a candidate of our own fails too: {fault}") from fault
    if not torch.equal(output, 2 * x):
        raise InfraError("a candidate of our own computes wrong values")


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    held: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_full(self) -> bool:
        return not self.missing


def isolation_level(device: str = "cpu") -> IsolationLevel:
    """Returns the guards that hold in a guest on this machine, and those that do not. A guard holds
    if the guest reports it, and its own attempt to get past the guard failed.

    Raises:
        InfraError: no guest can be started at all.
    """
    with shared(device).guest() as guest, _targets(device) as host:
        reported = guest.isolation.split("+")
        try:
            guest.load(_ATTEMPTS.read_text(encoding="utf-8"))
            (answer,) = guest.run("candidate", GuestCall([json.dumps(host)], seed=0)).outputs
            withstood = json.loads(bytes(answer.tolist()))
        except (GuestFault, ValueError) as error:
            raise InfraError(f"the guards cannot be probed: {error}") from error
    active = tuple(guard for guard in GUARDS if guard in reported and withstood.get(guard) is True)
    return IsolationLevel(active, tuple(guard for guard in GUARDS if guard not in active))


@cache
def require_guards(device: str) -> None:
    """Checks that foreign code may run on this machine; asks once in a process.

    Raises:
        UsageError: an essential guard is missing, and the user has not allowed that.
        InfraError: no guest can be started.
    """
    with shared(device).guest(patient=True) as guest:
        missing = sorted(ESSENTIAL - set(guest.isolation.split("+")))
    if missing and os.environ.get(WEAK_VARIABLE) != "allow":
        raise UsageError(
            f"the sandbox lacks {', '.join(missing)} on this machine, so that a candidate could"
            " harm files or processes",
            remedy=f"see `kernelwright doctor` and docs/trust.md; or set {WEAK_VARIABLE}=allow for"
            " candidates that you would run yourself",
        )


@contextmanager
def _targets(device: str) -> Iterator[dict[str, Any]]:
    """Gives the guest objects of the host to reach for: a process, a file, shared memory,
    namespaces."""
    libc = ctypes.CDLL(None)
    shared_memory = libc.shmget(0, ctypes.c_size_t(4096), 0o600)
    with tempfile.NamedTemporaryFile("w", prefix="kernelwright-probe-") as file:
        try:
            yield {
                "pid": os.getpid(),
                "on_gpu": device == "cuda",
                "file": file.name,
                "shared_memory": shared_memory,
                "namespaces": {
                    name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "net", "pid")
                },
            }
        finally:
            libc.shmctl(shared_memory, _IPC_RMID, None)
