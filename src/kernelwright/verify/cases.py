"""The cases one candidate is judged on, and the memory it finds when it runs."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.families import FAMILIES
from kernelwright.timing.stages import stage
from kernelwright.verify.compare import Precision
from kernelwright.verify.judging import Rules
from kernelwright.verify.task import Answer, Task

KEPT_BYTES = 1 << 30
"""A first case larger than that is posed again where it is needed: memory is dearer than time."""
PART_CHANGED = "part changed"
PART = 256
TELLING = ("spikes", "last_tile")
OTHER_WEIGHTS = "other weights"
"""The variant of a module in which its parameters have moved."""


@dataclass(frozen=True, slots=True)
class Case:
    variant: str
    """"base", or what differs: other shapes, other weights."""
    family: str
    seed: int
    poison: float
    """What fresh memory holds: NaN, or something finite that no kernel can know."""

    @property
    def name(self) -> str:
        kind = "nan" if math.isnan(self.poison) else "finite"
        return f"{self.variant}/{self.family}/seed {self.seed}/{kind} poison"


@dataclass(frozen=True, slots=True)
class Posed:
    """A case with its inputs and the reference's answer."""

    case: Case
    inputs: list[Any]
    answer: Answer

    @property
    def num_bytes(self) -> int:
        """Of inputs and answer."""
        inputs = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in inputs) + self.answer.num_bytes


@stage("pose")
def pose(task: Task, case: Case, rules: Rules) -> Posed:
    """Draw a case's inputs and answer it by the reference.

    Raises:
        UsageError: the reference fails on these inputs.
    """
    return answered(task, case, task.inputs(case.seed, case.family, rules.device), rules)


def answered(task: Task, case: Case, inputs: list[Any], rules: Rules) -> Posed:
    """The case with these inputs.

    Raises:
        UsageError: the reference fails on them.
    """
    tf32 = rules.precision is Precision.TF32
    posed = Posed(case, inputs, task.expected(inputs, case.seed, rules.device, tf32=tf32))
    if rules.device.type == "cuda" and posed.num_bytes > KEPT_BYTES:
        torch.cuda.empty_cache()  # what fp64 took; the guest has an allocator of its own
    return posed


@dataclass(slots=True)
class Cases:
    """The cases of one task and its variants; "base" is the task itself."""

    variants: dict[str, Task]
    rules: Rules
    seed: int
    is_large: bool = field(default=False, init=False)
    """The first case, once it was posed, is larger than KEPT_BYTES."""
    ignored: tuple[str, ...] | None = field(default=None, init=False)
    """Calls that do not matter, once `ignored_calls` has been asked."""
    _first: Posed | None = field(default=None, init=False)

    @property
    def base(self) -> Task:
        return self.variants["base"]

    def all(self) -> Iterator[Case]:
        """The plain case of every variant first, then the first one with a part of its values
        changed, then the base's other families, then plain values again."""
        kinds = [(variant, "plain") for variant in self.variants]
        kinds.append(("base", PART_CHANGED))
        kinds += [("base", family) for family in FAMILIES if family != "plain"]
        kinds.append(("base", "plain"))
        return (case_of(self.seed, i, *kind) for i, kind in enumerate(kinds))

    def first(self) -> Posed:
        """The base's plain case."""
        if self._first is not None:
            return self._first
        posed = pose(self.base, next(self.all()), self.rules)
        self.is_large = posed.num_bytes > KEPT_BYTES
        if not self.is_large:
            self._first = posed
        return posed

    def first_inputs(self) -> list[Any]:
        """Of the base's plain case, drawn again."""
        return self.base.inputs(next(self.all()).seed, "plain", self.rules.device)

    def pose_if_defined(self, case: Case) -> Posed | None:
        """None where a family leaves the domain of the reference: it raises, is not finite in
        float64, or overflows in every element that it returns."""
        if case == next(self.all()):
            return self.first()
        task = self.variants[case.variant]
        if case.family == "plain":
            return pose(task, case, self.rules)
        try:
            posed = (
                self._part_changed(case)
                if case.family == PART_CHANGED
                else pose(task, case, self.rules)
            )
        except UsageError:
            return None
        return posed if posed.answer.is_finite else None

    def _part_changed(self, case: Case) -> Posed:
        """The first case again but for a short run of each input's values: a result kept under a
        sample of its inputs is stale."""
        firsts = self.first_inputs()
        others = self.base.inputs(case.seed, "plain", self.rules.device)
        inputs = [
            with_part_of(mine, other, case.seed) for mine, other in zip(firsts, others, strict=True)
        ]
        del firsts, others
        return answered(self.base, case, inputs, self.rules)

    def telling(self) -> Iterator[Case]:
        """The first case, then those where a kernel shows that the first does not need: one that
        packs weights matters when they change, one for outliers where there are some. In `pure`
        mode other shapes too, where what is lost in a long product shows in a short one; beside
        PyTorch, a candidate could compute there and pretend here."""
        first, *others = self.all()
        yield first
        is_pure = self.rules.mode == "pure"
        for case in others:
            is_shape = case.variant != "base" and case.family == "plain"
            if case.family in TELLING or case.variant == OTHER_WEIGHTS or (is_pure and is_shape):
                yield case


def with_part_of(value: Any, other: Any, seed: int) -> Any:
    """A copy of a tensor with 1 in 256 of its values, in a row somewhere, from another one; not the
    first or last value, where there are more: a cheat may know its inputs by these."""
    if not isinstance(value, torch.Tensor) or not value.numel() or value.shape != other.shape:
        return value
    length = math.ceil(value.numel() / PART)
    margin = int(value.numel() >= length + 2)
    begin = random.Random(seed).randrange(margin, value.numel() - length + 1 - margin)
    at = torch.arange(begin, begin + length, device=value.device)
    mixed = torch.empty_like(value).copy_(value)
    return mixed.put_(at, other.take(at))


def case_of(seed: int, number: int, variant: str = "base", family: str = "plain") -> Case:
    """Poison alternates, so that neither a NaN that stays nor a value that stays goes unseen."""
    case_seed = derive(seed, "case", number) % (1 << 31)
    return Case(variant, family, case_seed, poison(case_seed, is_nan=number % 2 == 0))


def poison(seed: int, *, is_nan: bool) -> float:
    """NaN, or a finite value of a size that shows in any sum."""
    return math.nan if is_nan else random.Random(seed).uniform(100.0, 1000.0)
