"""Cases that the candidates of one task share under the grade `recycled`.

Cases, inputs and answers of a task are drawn anew every `REFRESH` candidates. Every kind of probe
that correctness needs is there, at the task's shapes and at one other. The other shapes keep each
size's power of two and its divisibility by 16 where they can, so that the kernels that were
compiled for the task serve them. Other odd sizes, strided inputs and times of CUDA graphs are for
`fresh`.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kernelwright.core.seed import derive
from kernelwright.programs.draws.families import FAMILIES
from kernelwright.sandbox.shared.manner import WATCHED
from kernelwright.timing.stages import stage
from kernelwright.verify.guests import fitting
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.cases import (
    ADVISORY,
    PART_CHANGED,
    PERMUTED,
    Case,
    Cases,
    Posed,
    case_of,
    poison,
)
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import at_aligned_shapes
from kernelwright.verify.tasks.task import META, Task
from kernelwright.verify.tasks.variation import other_weights, variations

REFRESH = 64
"""Candidates judged on the same inputs before others are drawn."""
MAX_POSED_BYTES = {"cpu": 1 << 29, "cuda": 1 << 30}
"""Inputs and answers of a judge that are kept, by device; a GPU has several judges."""
NUM_FAMILIES, NUM_VARIANTS = 5, 2
"""The number of families in a draw of cases, and of variants of each kind."""
MAX_TASKS = 1024
"""Tasks whose shapes are remembered."""
MAX_TOGETHER_BYTES = 1 << 28
"""Inputs and answers of cases that go to a guest in one request."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """A task at the sizes it is judged at."""

    task: Task
    """As it was given."""
    variants: dict[str, Task]
    """"base", and others by the shapes of their inputs."""
    examples: list[list[Any]]
    """Inputs to compile for."""

    @property
    def base(self) -> Task:
        return self.variants["base"]


@dataclass(slots=True)
class SharedCases(Cases):
    """Cases that several candidates of a task are judged on; answers are kept."""

    num_uses: int = 0
    _kept: dict[Case, Posed | None] = field(default_factory=dict)

    shape: str = "base"
    """The variant at other shapes, where there is one."""

    def all(self) -> Iterator[Case]:
        """Yields plain values of every variant; the first ones with a part changed or in another
        order; some of the other families at other shapes; plain values of the base again under the
        other poison. Each draw of cases takes other families; `fresh` takes them all."""
        dice = random.Random(derive(self.seed, "families"))
        families = dice.sample([f for f in FAMILIES if f not in ("plain", *ADVISORY)], NUM_FAMILIES)
        kinds = [(name, "plain") for name in self.variants]
        kinds += [("base", PART_CHANGED), ("base", PERMUTED)]
        kinds += [(self.shape, family) for family in families]
        for number, kind in enumerate(kinds):
            yield case_of(self.seed, number, *kind)
        last = case_of(self.seed, len(kinds))
        yield replace(last, poison=poison(last.seed, is_nan=False), manner=WATCHED)

    def pose_if_defined(self, case: Case) -> Posed | None:
        if case not in self._kept:
            self._kept[case] = Cases.pose_if_defined(self, case)
        return self._kept[case]

    @property
    def num_bytes(self) -> int:
        return sum(posed.num_bytes for posed in self._kept.values() if posed is not None)


class CaseStore:
    """Shapes and cases of the tasks at hand, the latest ones.

    Args:
        seed: secret; inputs derive from it.
    """

    def __init__(self, rules: Rules, seed: int) -> None:
        self.rules, self.seed = rules, seed
        self._shapes_of: OrderedDict[Task, Shapes] = OrderedDict()
        self._cases_of: OrderedDict[Task, SharedCases] = OrderedDict()
        self._num_drawn = 0

    def shapes(self, task: Task) -> Shapes:
        """Returns the sizes to judge a task at, which are remembered.

        Call this in the main thread alone: user code runs under seeds and a default type that
        PyTorch shares between threads.

        Raises:
            UsageError: the task cannot make inputs.
        """
        if task not in self._shapes_of:
            small = fitting(task, self.rules.device, is_generic=False)
            others = at_aligned_shapes(small, self.seed)
            examples = [variant.example(META) for variant in (task, *others.values())]
            if isinstance(task, ModuleTask):
                task.init()  # builds the module
            self._shapes_of[task] = Shapes(task, {"base": small, **others}, examples)
            if len(self._shapes_of) > MAX_TASKS:
                self._shapes_of.popitem(last=False)
        return self._shapes_of[task]

    @stage("pose")
    def cases(self, shapes: Shapes) -> SharedCases:
        """Returns the cases that the last candidate of this task was judged on; new cases after
        `REFRESH` uses."""
        base = shapes.base
        # Popped and put back at the end: the oldest task's answers are dropped first.
        cases = self._cases_of.pop(base, None)
        if cases is None or cases.num_uses >= REFRESH:
            self._num_drawn += 1
            seed = derive(self.seed, "recycled", self._num_drawn)
            cases = self._drawn(shapes, seed)
        self._drop_oldest()
        cases.num_uses += 1
        self._cases_of[base] = cases
        return cases

    def _drawn(self, shapes: Shapes, seed: int) -> SharedCases:
        """Draws cases under this seed, with some of the weights and some of the task's other
        variants."""
        base, dice = shapes.base, random.Random(seed)
        variants, device = dict(shapes.variants), self.rules.device
        if isinstance(base, ModuleTask) and base.is_redrawn:
            weights = other_weights(base, device, seed)
            # Each draw of cases takes some of the weights, so all of them come up in turn.
            variants |= dict(dice.sample([*weights.items()], min(NUM_VARIANTS, len(weights))))
        varied = variations(base, self.rules, seed)
        varied = dice.sample(varied, min(NUM_VARIANTS, len(varied)))
        variants |= {variation.name: variation.task for variation in varied}
        foreign = frozenset(variation.name for variation in varied if variation.is_foreign)
        # The last of the shapes is another than the base, if the task has another shape.
        return SharedCases(variants, self.rules, seed, foreign, shape=[*shapes.variants][-1])

    def _drop_oldest(self) -> None:
        limit = MAX_POSED_BYTES[self.rules.device.type]
        while self._cases_of and sum(c.num_bytes for c in self._cases_of.values()) > limit:
            self._cases_of.popitem(last=False)


def groups(posed: Iterable[Posed]) -> Iterator[list[Posed]]:
    """Yields cases in a row in groups whose tensors fit into one request (`MAX_TOGETHER_BYTES`)."""
    group: list[Posed] = []
    for one in posed:
        if group and sum(p.num_bytes for p in group) + one.num_bytes > MAX_TOGETHER_BYTES:
            yield group
            group = []
        group.append(one)
    if group:
        yield group
