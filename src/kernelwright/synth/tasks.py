"""Programs that are tasks: drawn, their inputs' draws chosen, refused where they are no good."""

import random
from dataclasses import replace

from kernelwright.core.seed import derive
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.loosened import loosened
from kernelwright.synth.quality import refusal
from kernelwright.synth.sample import Sample, Sampler


class TaskSampler(Sampler):
    """Draws programs that pass the recipe's quality: uniform among those that do, before some of
    them get other numbers and more results."""

    def draw(self, level: int, seed: int, index: int, attempt: int) -> Sample:
        """The task of this stream, or why there is none.

        Raises:
            UsageError: the recipe has no program of this level.
        """
        sample = super().draw(level, seed, index, attempt)
        if sample.program is None:
            return sample
        recipe = self.recipe
        rng = random.Random(derive(seed, "loosened", level, index, attempt))
        changed = loosened(sample.program, rng, numbers=recipe.numbers, outputs=recipe.outputs)
        is_uniform = sample.is_uniform and changed == sample.program
        program = with_inits(changed)
        if refused := refusal(program, self.recipe.quality):
            return replace(sample, program=None, refused=refused.reason.value)
        return replace(sample, program=program, is_uniform=is_uniform)
