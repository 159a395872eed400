"""What confinement works on this machine, found by starting a guest and asking."""

from dataclasses import dataclass

from kernelwright.sandbox.forkserver import shared

GUARDS = {
    "netns+ipcns": "no network, no shared System V memory: user, network and IPC namespaces",
    "pdeathsig": "guests die with their server",
    "nonewprivs": "no setuid program gives a guest more rights",
    "landlock": "writes only in the guest's folder; on CPU reads only system and packages",
    "rlimits": "CPU time, file size, core files; address space on CPU",
}
"""Every guard, and what it keeps a guest from."""


@dataclass(frozen=True, slots=True)
class IsolationLevel:
    held: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_full(self) -> bool:
        return not self.missing


def isolation_level(device: str = "cpu") -> IsolationLevel:
    """Guards that hold in a guest on this machine, and those the kernel refuses.

    Raises:
        InfraError: no guest can be started at all.
    """
    with shared(device).guest() as guest:
        report = f"+{guest.isolation}+"
    held = tuple(guard for guard in GUARDS if f"+{guard}+" in report)
    return IsolationLevel(held, tuple(guard for guard in GUARDS if guard not in held))
