"""The rules that every candidate of one judge is held to."""

from dataclasses import dataclass

import torch

from kernelwright.core.verdict import INTERPRETER, Checks, Contract, Precision


@dataclass(frozen=True, slots=True)
class Rules:
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
