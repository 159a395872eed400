"""How candidates are judged: the options of a judge, and the rules that they give."""

from dataclasses import dataclass, replace

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import INTERPRETER, Checks, Contract, Precision
from kernelwright.policy.names import DEFAULT_MODE
from kernelwright.sandbox.shared.contract import Limits

MODES = ("pure", "hybrid")
GRADES = ("fresh", "recycled")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that every candidate of one judge is held to."""

    device: torch.device
    precision: Precision
    mode: str
    """"pure" or "hybrid"."""
    contract: Contract = Contract.FIXED
    checks: Checks = Checks.ALL

    @property
    def compares_alone(self) -> bool:
        """Nothing but values may refuse a candidate."""
        return self.checks is Checks.VALUES

    @property
    def is_drop_in(self) -> bool:
        return self.contract is Contract.DROP_IN

    @property
    def device_name(self) -> str:
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return INTERPRETER


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeOptions:
    """All that a verdict depends on, besides task and candidate, as plain data."""

    device: str = "auto"
    """"auto" (the GPU where there is one), "cpu" or "cuda"."""
    precision: str = "strict"
    """"strict", "tf32" or "kernelbench" (see `verify.values.compare`)."""
    mode: str = DEFAULT_MODE
    """"hybrid" (library calls may stay) or "pure" (Triton kernels for all computation)."""
    contract: str = Contract.FIXED.value
    """"fixed" or "drop-in": what a verdict promises (`Contract`)."""
    grade: str = "fresh"
    """"fresh" (a guest for each candidate, for kernels that are published, served or kept) or
    "recycled" (guests serve many candidates, correctness alone: for training and wide search)."""
    checks: str = Checks.ALL.value
    """The checks that may refuse a candidate; all but "all" are for measurements."""
    seed: int | None = None
    """The seed of the inputs; None: a secret seed, another for each judge."""
    wall_s: float | None = None
    """The most seconds of each request to a guest; None: `default_limits`."""
    budget_s: float = 120.0
    """The most seconds that the judged cases of a candidate take in its guest. A slow reference
    raises the limit. The grade "fresh" has this limit, and derives the time for timing from it."""

    def check(self) -> None:
        """See that a judge knows these options, without touching a GPU.

        Raises:
            UsageError: an option that no judge knows, or a limit of no time.
        """
        for name, known in (
            ("mode", MODES),
            ("grade", GRADES),
            ("precision", tuple(Precision)),
            ("contract", tuple(Contract)),
            ("checks", tuple(Checks)),
        ):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"no such {name}: {value}", remedy=f"one of {', '.join(known)}")
        if self.checks == Checks.VALUES and self.grade == "fresh":
            remedy = 'judge with grade = "recycled", or with checks = "all"'
            raise UsageError("values alone are no evidence under the grade fresh", remedy=remedy)
        if self.wall_s is not None and not self.wall_s > 0:
            raise UsageError(f"wall_s = {self.wall_s}: no time at all", remedy="seconds above 0")

    def resolve_rules(self) -> Rules:
        """The rules of a judge with these options, on a device of this machine.

        Raises:
            UsageError: as `check`, or there is no such device.
        """
        self.check()
        return Rules(
            device_named(self.device),
            Precision(self.precision),
            self.mode,
            Contract(self.contract),
            Checks(self.checks),
        )

    def limits(self) -> Limits:
        """The limits of each guest.

        Raises:
            UsageError: there is no such device.
        """
        limits = default_limits(device_named(self.device))
        return limits if self.wall_s is None else replace(limits, wall_s=self.wall_s)


def default_limits(device: torch.device) -> Limits:
    """A minute a request; on CPU 8 GiB of address space, on CUDA half the GPU for outputs."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return Limits(wall_s=120.0, memory_bytes=total // 2)
    return Limits(wall_s=60.0, memory_bytes=8 << 30)


def device_named(name: str) -> torch.device:
    """The device of an option: "auto", "cpu" or "cuda".

    Raises:
        UsageError: there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"no such device: {name}", remedy="auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device", remedy="use --device cpu")
    return torch.device(name, 0) if name == "cuda" else torch.device(name)
