"""Draws one program from a seed: first a skeleton, then forms and choices, then sizes."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.ops.operator import DTYPE_BYTES
from kernelwright.ops.sizes import Var
from kernelwright.programs.program import Program
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import Refusal, refusal_by_algebra, refusal_unrun
from kernelwright.synth.recipe import DrawRecipe, Interval, ProgramBounds
from kernelwright.synth.sizes.draw import DrawnSizes, NoSizes, draw_sizes
from kernelwright.synth.sizes.system import Total
from kernelwright.synth.skeletons.draft import Draft
from kernelwright.synth.skeletons.drafts import Drafts, Unfit
from kernelwright.synth.skeletons.skeleton import Skeleton, Skeletons
from kernelwright.synth.skeletons.sound import SoundSkeletons
from kernelwright.synth.space import usable_forms

DRAFTS_A_CALL = 10
"""The most drafts of a skeleton, for each of its calls. Planned drafts mostly fit if any draft
fits. A skeleton of which fewer than 1 in 50 drafts fits is drawn too rarely."""
MOST_REFUSED = 10
"""The most programs of a skeleton that may be refused without a run. Then another skeleton is
drawn."""
MOST_UNFIT = 10
"""The most skeletons in a row without a draft that fits. Then the attempt ends."""
NO_SIZES = "no_sizes"
GARBAGE = 200_000
"""The number of new objects between garbage collections. With Python's own 700, collections take a
fifth of the time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of one attempt."""

    program: Program | None
    refused: str | None = None
    """The reason why there is no program."""
    is_uniform: bool = True
    """Whether the program is a uniform draw: no search for the sizes of an earlier draft ended
    undecided."""
    drafts: int = 1
    """The number of draws of forms and choices, up to the draw that fits."""
    proposals: int = 0
    """The number of proposed assignments of sizes."""
    accepted: int = 0
    """The number of proposals within all bounds."""
    skeletons: int = 1
    """The number of drawn skeletons, up to a sound skeleton with a draft that fits."""


class Sampler:
    """Draws programs by one recipe.

    The constructor is cheap. The first draw of a level is slow, because it counts the skeletons.
    """

    def __init__(self, recipe: DrawRecipe) -> None:
        self.recipe = recipe

    @cached_property
    def skeletons(self) -> Skeletons:
        usable = usable_forms(self.recipe)
        weights = {form.op: self.recipe.weight(form.op) for form in usable}
        skeletons = Skeletons(usable, weights=weights, width=self.recipe.width)
        gc.freeze()  # a million objects that stay: collections need not look at them
        gc.set_threshold(GARBAGE)
        return skeletons

    @cached_property
    def _sound(self) -> SoundSkeletons:
        return SoundSkeletons(self.skeletons)

    @cached_property
    def _drafts(self) -> Drafts:
        return Drafts(self.skeletons, self.recipe.sizes.low)

    def draw(self, level: int, seed: int, index: int, attempt: int) -> Sample:
        """Draw the program of the stream (seed, level, index, attempt), or return the reason why
        there is no program.

        Args:
            level: the number of calls.

        Raises:
            UsageError: the recipe has no program of this level.
        """
        stream = derive(seed, "program", level, index, attempt)
        rng, sizes_rng = Random(stream), np.random.default_rng(stream)
        if not self.skeletons.count(level):
            raise UsageError(
                f"the recipe has no program of {level} calls", remedy="allow more operators"
            )
        # A skeleton without sizes says little about its level: draw another. After MOST_UNFIT
        # skeletons the attempt ends, so that a recipe without solutions ends too.
        skeletons = drafts = 0
        for _ in range(MOST_UNFIT):
            skeleton, number = self._skeleton(level, rng)
            skeletons += number
            if skeleton is None:
                return Sample(None, "unsound", drafts=drafts, skeletons=skeletons)
            sample = self._of(skeleton, rng, sizes_rng)
            drafts += sample.drafts
            if sample.refused != NO_SIZES:
                break
        return replace(sample, drafts=drafts, skeletons=skeletons)

    def _skeleton(self, level: int, rng: Random) -> tuple[Skeleton | None, int]:
        """(A skeleton, or None if no sound one was found; the number of skeletons drawn)."""
        if self.recipe.quality.ranges:
            return self._sound.sample(level, rng)
        return self.skeletons.sample(level, rng), 1

    def _of(self, skeleton: Skeleton, rng: Random, sizes_rng: np.random.Generator) -> Sample:
        """A program of the skeleton, or the reason why there is none."""
        of_skeleton = self._drafts.of(skeleton)
        refused, num_refused = NO_SIZES, 0
        is_decided, most = True, DRAFTS_A_CALL * len(skeleton.calls)
        for drafts in range(1, most + 1):
            try:
                draft = of_skeleton.draw(rng)
            except Unfit:
                return Sample(None, NO_SIZES, drafts=drafts)
            except ValueError:  # an operator refuses a choice, or sizes cannot be equal
                continue
            try:
                program, drawn = self._sized(draft, sizes_rng)
            except ValueError as error:
                # NoSizes means that the search gave up, not that there are none. Then later drafts
                # are more likely than they should be, and the sample must not be called uniform.
                is_decided &= not isinstance(error, NoSizes)  # no proof that there are none
                of_skeleton.refuse()
                continue
            # Only now: the rules need sizes, and sizes cost more than forms.
            if refusal := self._refusal(program):
                refused, num_refused = refusal.reason.value, num_refused + 1
                if num_refused == MOST_REFUSED:
                    break
                continue
            return Sample(program, None, is_decided, drafts, drawn.proposals, drawn.accepted)
        return Sample(None, refused, drafts=drafts)

    def _refusal(self, program: Program) -> Refusal | None:
        """The refusal of a program by the checks that do not run it; None if it passes."""
        rules = self.recipe.quality
        if rules.ranges and (unrun := refusal_unrun(with_inits(program))):
            return unrun
        return refusal_by_algebra(program) if rules.lint else None

    def _sized(self, draft: Draft, rng: np.random.Generator) -> tuple[Program, DrawnSizes]:
        """The program of a draft with drawn sizes.

        Raises:
            NoSizes: no sizes were found; there may be some.
            ValueError: there are no sizes.
        """
        programs: list[Program] = []

        def accept(values: Mapping[Var, int]) -> bool:
            try:
                program = draft.program(values.__getitem__)
            except ValueError:
                return False
            if not within(program, self.recipe.bounds):
                return False
            # The accepted program is kept: to build the program again would double the cost.
            programs.append(program)
            return True

        element_bytes = [DTYPE_BYTES[kind.dtype] for kind in draft.kinds]
        drawn = draw_sizes(
            draft.shapes,
            draft.equations,
            self.recipe.sizes,
            rng,
            total=Total(element_bytes, self.recipe.bounds.bytes),
            accept=accept,
        )
        return programs[-1], drawn


def within(program: Program, bounds: ProgramBounds) -> bool:
    """Whether bytes, FLOPs and FLOPs for each byte of a program are within the bounds."""
    flops, moved = program.flops(), program.bytes_fused()
    return (
        _in(bounds.bytes, num_bytes(program))
        and _in(bounds.flops, flops)
        and _in(bounds.intensity, flops / moved if moved else 0.0)
    )


def num_bytes(program: Program) -> int:
    """The bytes of all inputs and all results of calls, including results that nobody reads."""
    results = (result_type.num_bytes for call in program.calls for result_type in call.types)
    return sum(value.type.num_bytes for value in program.inputs) + sum(results)


def _in(interval: Interval, value: float) -> bool:
    return interval[0] <= value <= interval[1]
