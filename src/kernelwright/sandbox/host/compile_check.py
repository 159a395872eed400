"""Compiles a candidate's kernels for the target GPU, on a machine without one, to see whether they
are legal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.timing.stages import stage


@dataclass(frozen=True, slots=True)
class KernelUsage:
    """The GPU resources of one compiled kernel."""

    registers: int
    """Per thread."""
    shared_bytes: int
    spills: int
    """Bytes of local memory per thread."""


@dataclass(frozen=True, slots=True)
class CompileReport:
    kernels: dict[str, KernelUsage]
    """Every kernel the candidate launched on these inputs."""


@stage("compile")
def compile_check(
    source: str,
    inputs: Sequence[Any],
) -> CompileReport:
    """Compiles the kernels that a candidate launches for sm_90; nothing runs on any GPU.

    Args:
        inputs: tensors (only their shapes, strides and types are used; meta tensors will do) or
            plain numbers.

    Raises:
        GuestFault: the candidate does not load or compile ("compile" with the line), or its host
            code fails.
        InfraError: our side broke.
    """
    with shared("compile").guest() as guest:
        load_to_compile(guest, "candidate", source)
        return CompileReport(
            {name: KernelUsage(**usage) for name, usage in guest.compile(inputs).usage.items()}
        )


@stage("load")
def load_to_compile(
    guest: Guest, name: str, source: str, init: Mapping[str, Any] | None = None
) -> None:
    """Loads a candidate into a guest of the "compile" server, for `Guest.compile`.

    Raises:
        GuestFault: it does not load.
    """
    guest.load(source, name, None if init is None else {**init, "device": "meta"})
