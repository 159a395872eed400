"""The recipe of a run: everything its verdicts depend on besides task and candidate.

It is the first record of a run's folder. A run goes on only under the recipe it began with.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.record import code_digest, version_of
from kernelwright.core.verdict import Checks, Contract
from kernelwright.policy.names import DEFAULT_MODE
from kernelwright.verify.judge import Judge, default_limits, device_named

_JUDGING = ("core", "ops", "programs", "timing", "sandbox", "verify")
"""Packages whose code decides what a verdict says."""


def rules_version() -> str:
    """Returns a digest of the code that judges: verdicts of two digests are not to be mixed."""
    return code_digest(_JUDGING)


def _versions() -> dict[str, str | None]:
    return {name: version_of(name) for name in ("torch", "triton")}


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeRecipe:
    """Plain data; it travels to workers as JSON."""

    device: str = "auto"
    precision: str = "strict"
    mode: str = DEFAULT_MODE
    contract: str = Contract.FIXED.value
    grade: str = "fresh"
    checks: str = Checks.ALL.value
    """The checks that may refuse a candidate; all but "all" are for measurements."""
    timing: bool = True
    """Time what is accepted; on CUDA only, as speed is never measured elsewhere."""
    timing_s: float | None = None
    """The most seconds of timing a candidate, beyond the first pairs; None: the clock's own
    limit."""
    seed: int | None = None
    """The seed of the inputs; None: a secret seed, another in each worker."""
    wall_s: float | None = None
    """Limit of each request to a guest; None: the judge's own."""
    budget_s: float = 120.0
    """No further case of a candidate is begun after this long."""
    rules: str = field(default_factory=rules_version)
    versions: dict[str, str | None] = field(default_factory=_versions)

    def resolved(self) -> Self:
        """Returns the recipe with every choice made that depends on the machine.

        Raises:
            UsageError: an option the judge does not know.
        """
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        values = self.to_json() | {"device": device, "timing": self.timing and device == "cuda"}
        resolved = type(self)(**values)
        resolved.check()
        return resolved

    def check(self) -> None:
        """Checks that there is such a judge, without touching a GPU.

        Raises:
            UsageError: an option the judge does not know, a limit of no time, or a device that is
                not there.
        """
        for name in ("timing_s", "wall_s", "budget_s"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} = {limit}: no time at all", remedy="seconds above 0")
        device_named(self.device)
        Judge(
            "cpu",
            self.precision,
            self.mode,
            contract=self.contract,
            grade=self.grade,
            checks=self.checks,
        )

    def judge(self) -> Judge:
        """Returns the judge of this recipe, without times: the clock owner takes those.

        Raises:
            UsageError: an option the judge does not know, or a device that is not there.
        """
        limits = default_limits(device_named(self.device))
        return Judge(
            self.device,
            self.precision,
            self.mode,
            contract=self.contract,
            limits=limits if self.wall_s is None else replace(limits, wall_s=self.wall_s),
            budget_s=self.budget_s,
            seed=self.seed,
            times=False,
            grade=self.grade,
            checks=self.checks,
            trusted=False,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def check_same(self, recorded: dict[str, Any], file: str) -> None:
        """Refuses to go on with a run that was begun under another recipe.

        Raises:
            UsageError: names the first field that differs.
        """
        for key, value in self.to_json().items():
            if recorded.get(key) != value:
                raise UsageError(
                    f"this run was begun with {key} = {recorded.get(key)!r}, not {value!r}",
                    file=file,
                    line=1,
                    remedy="give the recipe it was begun with, or another --out folder",
                )
