"""Draws programs that can serve as tasks: with draws of their inputs, and checked for quality."""

import random
from dataclasses import replace

from kernelwright.core.seed import derive
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.loosened import loosened
from kernelwright.synth.quality import refusal
from kernelwright.synth.sample import Sample, Sampler


class TaskSampler(Sampler):
    """Draws programs that pass the quality checks of the recipe.

    The draw is uniform among such programs. After that, some programs get other numbers and more
    results (`synth.loosened`), and are marked as not uniform.
    """

    def draw(self, level: int, seed: int, index: int, attempt: int) -> Sample:
        """Draw the task of the stream (seed, level, index, attempt), or return the reason why there
        is no task.

        Raises:
            UsageError: the recipe has no program of this level.
        """
        sample = super().draw(level, seed, index, attempt)
        if sample.program is None:
            return sample
        recipe = self.recipe
        rng = random.Random(derive(seed, "loosened", level, index, attempt))
        # Changed before the checks: other numbers can leave a domain or overflow a dtype.
        changed = loosened(sample.program, rng, numbers=recipe.numbers, outputs=recipe.outputs)
        is_uniform = sample.is_uniform and changed == sample.program
        program = with_inits(changed)
        if refused := refusal(program, self.recipe.quality):
            return replace(sample, program=None, refused=refused.reason.value)
        return replace(sample, program=program, is_uniform=is_uniform)
