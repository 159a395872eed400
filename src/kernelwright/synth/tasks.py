"""Programs that are tasks: drawn, their inputs' draws chosen, refused where they are no good."""

from dataclasses import replace

from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal
from kernelwright.synth.sample import Sample, Sampler


class TaskSampler(Sampler):
    """Draws programs that pass the recipe's quality: uniform among those that do."""

    def draw(self, level: int, seed: int, index: int, attempt: int) -> Sample:
        """The task of this stream, or why there is none.

        Raises:
            UsageError: the recipe has no program of this level.
        """
        sample = super().draw(level, seed, index, attempt)
        if sample.program is None:
            return sample
        program = with_inits(sample.program)
        if found := refusal(program, self.recipe.quality):
            return replace(sample, program=None, refused=found.reason.value)
        return replace(sample, program=program)
