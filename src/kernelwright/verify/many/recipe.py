"""The recipe of a run: everything its verdicts depend on besides task and candidate.

It is the first record of a run's folder. A run goes on only under the recipe it began with.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kernelwright.core.errors import UsageError
from kernelwright.core.record import code_digest, version_of
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions, device_named

_JUDGING = ("core", "ops", "programs", "timing", "sandbox", "verify")
"""Packages whose code decides what a verdict says."""


def rules_version() -> str:
    """Returns a digest of the code that judges: verdicts of two digests are not to be mixed."""
    return code_digest(_JUDGING)


def _versions() -> dict[str, str | None]:
    return {name: version_of(name) for name in ("torch", "triton")}


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeRecipe(JudgeOptions):
    """Options of a run's judges and clock owners. Plain data; it travels to workers as JSON."""

    timing: bool = True
    """Time what is accepted; on CUDA only, as speed is never measured elsewhere."""
    timing_s: float | None = None
    """The most seconds that all pairs of timed calls of a candidate take, though the first batch is
    always taken; None: the clock's own limit, which no number here raises."""
    rules: str = field(default_factory=rules_version)
    versions: dict[str, str | None] = field(default_factory=_versions)

    def resolved(self) -> Self:
        """Returns the recipe with every choice made that depends on the machine.

        Raises:
            UsageError: an option the judge does not know.
        """
        device = device_named(self.device).type
        values = self.to_json() | {"device": device, "timing": self.timing and device == "cuda"}
        resolved = type(self)(**values)
        resolved.check()
        return resolved

    def check(self) -> None:
        """See that there is such a judge and such a clock, without touching a GPU.

        Raises:
            UsageError: an option that no judge knows, a limit of no time, or a device that is not
                there.
        """
        JudgeOptions.check(self)  # `super()` fails in a dataclass with slots
        for name in ("timing_s", "budget_s"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} = {limit}: no time at all", remedy="seconds above 0")
        device_named(self.device)

    def judge(self) -> Judge:
        """Returns the judge of this recipe, without times: the clock owner takes those.

        Raises:
            UsageError: an option the judge does not know, or a device that is not there.
        """
        return Judge(self, times=False, trusted=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
