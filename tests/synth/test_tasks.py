"""Tasks are the programs drawn, less those that are no good, which say why."""

from dataclasses import replace

import pytest

from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import Reason, refusal
from kernelwright.synth.recipe import DrawRecipe, ProgramBounds, Quality, SizeLimits
from kernelwright.synth.sample import Sampler
from kernelwright.synth.tasks import TaskSampler

RECIPE = DrawRecipe(
    operators=("relu", "log", "softmax", "add", "exp", "sum", "rsub", "square"),
    dtypes=("float32",),
    max_rank=2,
    sizes=SizeLimits(low=16, high=64),
    bounds=ProgramBounds(bytes=(0, 1 << 20)),
)


@pytest.mark.slow
def test_what_is_drawn_is_a_task_or_is_refused_for_what_it_is():
    plain, tasks = Sampler(RECIPE), TaskSampler(RECIPE)
    passed, reasons = 0, set()
    for index in range(60):
        sample, task = plain.draw(2, 1, index, 0), tasks.draw(2, 1, index, 0)
        if sample.program is None:
            assert task == sample
            continue
        program = with_inits(sample.program)
        found = refusal(program, RECIPE.quality)
        if found is None:
            assert task == replace(sample, program=program)
            passed += 1
        else:
            assert (task.program, task.refused) == (None, found.reason)
            reasons.add(found.reason)
    assert passed > 10
    assert Reason.DEGENERATE in reasons


def test_without_quality_every_program_is_one():
    bare = Quality(ranges=False, lint=False, avoid_benchmarks=False)
    recipe = replace(RECIPE, quality=bare)
    plain, tasks = Sampler(recipe), TaskSampler(recipe)
    for index in range(60):
        assert tasks.draw(2, 1, index, 0).refused == plain.draw(2, 1, index, 0).refused
