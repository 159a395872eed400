"""The cases one candidate is judged on, and the memory it finds when it runs."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.core.seed import derive
from kernelwright.programs.reference import FAMILIES


@dataclass(frozen=True, slots=True)
class Case:
    shape: str
    """"base" or the name of a shape variant."""
    family: str
    seed: int
    poison: float
    """What fresh memory holds: NaN, or something finite that no kernel can know."""

    @property
    def name(self) -> str:
        kind = "nan" if math.isnan(self.poison) else "finite"
        return f"{self.shape}/{self.family}/seed {self.seed}/{kind} poison"


def all_cases(seed: int, shapes: list[str]) -> Iterator[Case]:
    """The plain case of every shape first, then the other families, then plain values again.

    Poison alternates, so that neither a NaN that stays nor a value that stays goes unseen.
    """
    kinds = [(shape, "plain") for shape in shapes]
    kinds += [(shapes[0], family) for family in FAMILIES if family != "plain"]
    kinds.append((shapes[0], "plain"))
    for i, (shape, family) in enumerate(kinds):
        case_seed = derive(seed, "case", i) % (1 << 31)
        yield Case(shape, family, case_seed, poison(case_seed, is_nan=i % 2 == 0))


def poison(seed: int, *, is_nan: bool) -> float:
    """NaN, or a finite value of a size that shows in any sum."""
    return math.nan if is_nan else random.Random(seed).uniform(100.0, 1000.0)
