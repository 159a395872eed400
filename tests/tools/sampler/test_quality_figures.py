"""Every program drawn is counted once: passed, or refused for one reason."""

import pytest

from kernelwright.synth.recipe import DrawRecipe, ProgramBounds, SizeLimits
from kernelwright.synth.tasks import TaskSampler
from tools.sampler.quality import quality

RECIPE = DrawRecipe(
    operators=("abs", "log", "isnan", "logical_or"),
    dtypes=("float32",),
    max_rank=2,
    sizes=SizeLimits(low=16, high=64),
    bounds=ProgramBounds(bytes=(0, 1 << 20)),
)


@pytest.mark.slow
def test_counts_are_those_of_the_sampler_of_tasks():
    found = quality(RECIPE, 1, 30, seed=3, workers=1, say=lambda _: None)
    assert found["attempts"] == 30 == found["passed"] + sum(found["refused"].values())
    tasks = TaskSampler(RECIPE)
    drawn = [tasks.draw(1, 3, index, 0) for index in range(30)]
    assert found["passed"] == sum(sample.program is not None for sample in drawn) > 0
    assert {name.partition(":")[0] for name in found["refused"]} == {
        sample.refused for sample in drawn if sample.refused
    }
    assert "degenerate: constant_output" in found["refused"]
    assert found["cpu_ms"].keys() == {"draw", "inits", "unrun", "run"}
    assert found["vocabulary"] > 0
