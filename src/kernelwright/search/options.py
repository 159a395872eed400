"""The options of a search: the choices of a user, which the run record holds."""

from dataclasses import dataclass

from kernelwright.core.record import Record
from kernelwright.policy.names import DEFAULT, DEFAULT_MODE
from kernelwright.verify.judging import JudgeOptions

JUDGING_SHARE = 0.2
"""The share of the budget for the cases that judge the whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """How a target is searched, and what is written."""

    device: str = "auto"
    precision: str = "strict"
    mode: str = DEFAULT_MODE
    policy: str = DEFAULT
    """The writers of candidates; several with commas (`search.sources`)."""
    budget_s: float = 600.0
    """Seconds on the clock for everything from loading to writing."""
    training: bool | None = None
    """Train mode (True) or eval mode (False). None: the mode in which the target's code leaves its
    module."""
    dynamic: tuple[str, ...] = ()
    """Sizes that vary from call to call: "x:0", "x:0=batch" or "x:0=batch:1-256"."""
    with_slower: bool = False
    """Where nothing is worth keeping, write `slower.py` with a right kernel all the same. The
    result's "slower" has its verdict."""
    beside_compile: bool = True
    """On a GPU, time torch.compile beside the result in the rest of the budget."""

    @property
    def rules(self) -> dict[str, str]:
        """The options that a judge takes too."""
        return {"device": self.device, "precision": self.precision, "mode": self.mode}

    @property
    def judging(self) -> JudgeOptions:
        """The options of the search's judges: a candidate may take a share of the budget."""
        return JudgeOptions(
            device=self.device,
            precision=self.precision,
            mode=self.mode,
            budget_s=JUDGING_SHARE * self.budget_s,
        )

    def to_record(self) -> Record:
        """The "options" of the run record."""
        return self.rules | {
            "budget_s": self.budget_s,
            "policy": self.policy,
            "training": self.training,
            "dynamic": list(self.dynamic),
        }
