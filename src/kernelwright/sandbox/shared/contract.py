"""The requests of the host to a guest and the replies, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelwright.sandbox.shared.manner import WATCHED, Manner
from kernelwright.sandbox.shared.tensors import TensorMeta

GIB = 1 << 30


class GuestFault(Exception):
    """A fault of the candidate, for the judge to turn into a verdict. Never our fault.

    `kind` is one of: load, missing_entry, compile, runtime, out_of_memory, out_of_bounds (the guest
    lives on), crashed, timeout, malformed (the guest is dead).
    """

    def __init__(
        self, kind: str, message: str, *, line: int | None = None, detail: str = ""
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message, self.line, self.detail = kind, message, line, detail


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The resources that a guest may use before it is ended."""

    wall_s: float = 60.0
    """Per request."""
    memory_bytes: int = 8 * GIB
    """Address space on CPU; on CUDA the size of all outputs of one call."""
    cpu_s: int = 600
    """Over the guest's life."""
    own_code_s: float | None = None
    """CPU time of a candidate's own code in a request to compile, without the compilation. It is
    for loops that hang: code that defies it is ended by `wall_s`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    name: str
    entry: str
    """"fused_operator" or "ModelNew"."""
    kernels: tuple[str, ...]
    """Names of the `@triton.jit` functions the source defines."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling a candidate for some inputs."""

    usage: dict[str, dict[str, int]]
    """Kernel -> registers, shared_bytes, spills; empty unless measured."""
    signatures: tuple[object, ...]
    """The signatures of the kernels, as the guest writes them: see `launchers.plain_signature`."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A parameter or buffer of a loaded `ModelNew`."""

    kind: str
    """"parameter" or "buffer"."""
    meta: TensorMeta
    value: torch.Tensor | None
    """Only where asked for."""


@dataclass(frozen=True, slots=True)
class GuestCall:
    """A call of a candidate."""

    inputs: Sequence[Any]
    """Tensors on the server's device, or plain numbers, bools, None."""
    seed: int
    """The seed of the generators that the call may draw from."""
    poison: float = float("nan")
    """The value that memory fresh from the allocator holds."""
    skip_kernels: Sequence[str] = ()
    """Names of kernels whose launches do nothing, to see what depends on them."""
    manner: Manner = WATCHED
    wanted_inputs: Sequence[int] = ()
    """Positions of inputs to bring back as the call left them."""
    is_held: bool = False
    """The guest keeps the outputs until `Guest.let_go`: later calls must not write to them."""
    like: Sequence[torch.Tensor] | None = None
    """Tensors that the outputs should be like. Values of other types, shapes or spans are not
    brought. None: all values are brought."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessState:
    """The state of a guest's process, as the guest says: to be compared with its state at birth."""

    settings: dict[str, str] = field(default_factory=dict)
    """Process-wide switches by name."""
    running: dict[str, int] = field(default_factory=dict)
    """Counts of threads, processes, open files and streams with work."""
    objects: dict[str, str] = field(default_factory=dict)
    """Digests of functions, classes, modules and hooks by group; empty after a mere call."""
    changed: tuple[str, ...] = ()
    """Objects the guest itself finds changed, for the message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One call, as the guest reports it."""

    outputs: tuple[torch.Tensor, ...]
    """The tensors of the returned value in order, host-owned, with the guest's strides. Tensors
    that the host did not expect are on the meta device: their values stay in the guest."""
    structure: str
    """The returned value as text, e.g. "[T,(T,None)]" (`sandbox.shared.tensors.flatten`)."""
    changed_inputs: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...]
    """(output, input) pairs that share memory."""
    shared: tuple[tuple[int, int], ...] = ()
    """Pairs of outputs that share memory, the smaller number first."""
    held: tuple[int, ...] = ()
    """Outputs that share memory with a parameter or buffer."""
    inference: tuple[int, ...] = ()
    """Outputs that are inference tensors, outside of inference mode."""
    grad: tuple[int, ...] = ()
    """Outputs that require gradients of their own, outside of inference mode."""
    overwritten: tuple[int, ...] = ()
    """Outputs that earlier calls returned and that this call wrote to, or shares memory with."""
    kept_bytes: int = 0
    """After a call whose outputs are held: the bytes of all tensors that the candidate keeps,
    without held outputs. 0 after other calls."""
    inputs_after: tuple[torch.Tensor, ...] = ()
    """Inputs that were asked for, as the call left them."""
    launches: dict[str, int] = field(default_factory=dict)
    """Own kernels that were launched: name -> count."""
    suppressed: dict[str, int] = field(default_factory=dict)
    """Own kernels that were to be launched and were not, because the host said so."""
    overrun: bool = False
    """Something was written just before or behind a tensor (CUDA)."""
    operators: dict[str, int] = field(default_factory=dict)
    """ATen operators that ran: "aten.add.Tensor" -> count."""
    process: ProcessState = field(default_factory=ProcessState)
    """Settings and what is left running, right after the call."""
    wall_ms: float = 0.0
    """On the host's clock, around the request."""
    has_changed: bool = False
    """Timed calls: the outputs were written after the call had ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """One timed call, cold L2, or several."""

    time_ms: float
    """In all, by events, as the guest reports it."""
    wall_ms: float
    """On the host's clock, around the request."""
    queued_ms: float = 0.0
    """The longest time in which a call was queued, as the guest reports it. It decides only how
    long the device pauses before a call."""
