"""The guards that keep a guest from the rest of the machine. Each guard is tried, and the guards
that hold are reported.

No guard needs root. A guard that the kernel refuses is missing from the report and stops nothing.
The namespaces are there when the guest is forked (`namespaces.fork`); `confine` adds the rest.
"""

import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.sandbox.confine import kernel, landlock, seccomp
from kernelwright.sandbox.confine.namespaces import Namespaces


@dataclass(frozen=True, kw_only=True, slots=True)
class Confinement:
    """The resources that one guest may use."""

    folder: Path
    """Where it works, and may not write."""
    scratch: Path
    """The only folder it may write, with `cache` where given."""
    cache: Path | None = None
    memory_bytes: int
    """Address space beyond what the fork server already maps; not limited where `on_gpu`, since
    CUDA reserves address space far beyond what it uses."""
    cpu_s: int
    on_gpu: bool
    namespaces: Namespaces


def confine(limits: Confinement) -> list[str]:
    """Puts the calling process under every guard that works here; returns their names, those of the
    namespaces included."""
    active = limits.namespaces.names
    own_pid = None if "pidns" in active else os.getpid()
    # seccomp comes last, because the filter refuses the calls that the other guards make.
    guards: list[tuple[str, Callable[[], object]]] = [
        ("pdeathsig", lambda: kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)),
        ("nonewprivs", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)),
        ("rlimits", lambda: _resource_limits(limits)),
        ("landlock", lambda: _landlock(limits)),
        ("nocaps", kernel.drop_capabilities),
        ("seccomp", lambda: seccomp.install(on_gpu=limits.on_gpu, own_pid=own_pid)),
    ]
    for name, guard in guards:
        try:
            guard()
        except (OSError, ValueError):  # the second of `resource`, where a limit may not be changed
            continue
        active.append(name)
    if {"pidns", "seccomp"} & set(active):
        active.append("signals")
    return active


def _resource_limits(limits: Confinement) -> None:
    """Lowers the limits of the process. A hard limit that is lower already stays."""

    def limit(which: int, value: int, spare: int = 0) -> None:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value, spare = min(value, hard), min(spare, hard - min(value, hard))
        resource.setrlimit(which, (value, value + spare))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 1 << 30)
    limit(resource.RLIMIT_CPU, limits.cpu_s, spare=5)  # SIGXCPU first, then SIGKILL
    if not limits.on_gpu:
        # A fork maps all that the server maps, so the limit is for what comes on top.
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit(resource.RLIMIT_AS, mapped + limits.memory_bytes)


def _landlock(limits: Confinement) -> None:
    landlock.restrict(
        [limits.folder],
        [limits.scratch, *([limits.cache] if limits.cache else [])],
        on_gpu=limits.on_gpu,
        own_proc=limits.namespaces.own_proc,
    )
