"""Plans leave out no draft that goes together, and weigh each as it is drawn without a plan."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from kernelwright.synth.recipe import DrawRecipe, SizeLimits
from kernelwright.synth.sample import Sampler
from kernelwright.synth.skeletons.alike import Choices
from kernelwright.synth.skeletons.draft import Draft, DraftCall
from kernelwright.synth.skeletons.drafts import Drafts, Unfit
from kernelwright.synth.skeletons.plan import SkeletonPlan, TooMany
from kernelwright.synth.skeletons.skeleton import Skeleton
from tools.sampler.uniformity import every_draft, goodness_of_fit

LOW = 2
SAMPLER = Sampler(
    DrawRecipe(
        operators=("relu", "sub", "sum", "slice", "unsqueeze", "squeeze", "max_pool1d", "cat"),
        dtypes=("float32",),
        max_rank=2,
        menus={"sub": {"alpha": (1,), "other": (2.0,)}},
        broadcast=(2, 1),
        sizes=SizeLimits(low=LOW),
    )
)
MANY = 10_000
"""Branches, more than any of these plans has."""


def skeletons(level: int, num: int) -> list[Skeleton]:
    rng = Random(level)
    return [SAMPLER.skeletons.sample(level, rng) for _ in range(num)]


def plan_of(
    skeleton: Skeleton, choices: Choices, *, is_coarse: bool, most: int = MANY
) -> SkeletonPlan:
    fits = [SAMPLER.skeletons.fits(call) for call in skeleton.calls]
    return SkeletonPlan(skeleton.calls, fits, choices, LOW, most=most, is_coarse=is_coarse)


def accepted(skeleton: Skeleton, plan: SkeletonPlan, rng: Random) -> Iterator[Draft]:
    """Planned drafts that do not contradict themselves."""
    while True:
        draft = Draft()
        try:
            for call, (fit, arranged) in zip(skeleton.calls, plan.draw(rng), strict=True):
                draft.add(call, fit, arranged)
                draft.check_free(LOW)
        except ValueError:
            continue
        yield draft


def text(draft: Draft) -> str:
    def call_text(call: DraftCall) -> str:
        shapes = [draft.shapes[value] for value in (*call.reads, *call.results)]
        return f"{call.form.slots} {call.attributes} {shapes}"

    return "\n".join(map(call_text, draft.calls))


def shares(skeleton: Skeleton) -> dict[str, float]:
    """Every draft that goes together -> how often it should be drawn."""
    weights: dict[str, float] = defaultdict(float)
    for draft, weight in every_draft(skeleton, SAMPLER.skeletons, LOW):
        weights[text(draft)] += weight
    total = sum(weights.values())
    return {draft: weight / total for draft, weight in weights.items()}


@pytest.mark.slow
@pytest.mark.parametrize("is_coarse", [True, False], ids=["coarse", "fine"])
def test_planned_drafts_are_distributed_as_drafts_are(is_coarse):
    choices, rng, tested = Choices(), Random(1), 0
    for skeleton in skeletons(3, 100):
        expected = shares(skeleton)
        if len(expected) > 1 and (num := round(5 / min(expected.values()))) < 1000:
            plan = plan_of(skeleton, choices, is_coarse=is_coarse)
            texts = [text(draft) for draft in islice(accepted(skeleton, plan, rng), num)]
            fit = goodness_of_fit(expected, texts)
            assert fit.p > 1e-4, (skeleton, fit)
            tested += 1
    assert tested > 10


def test_plans_find_out_what_does_not_fit():
    choices, unfit, found = Choices(), 0, 0
    for skeleton in skeletons(3, 100):
        fits = any(every_draft(skeleton, SAMPLER.skeletons, LOW))
        for is_coarse in (True, False):
            is_open = plan_of(skeleton, choices, is_coarse=is_coarse).total > 0
            assert is_open or not fits
        unfit += not fits
        found += not is_open
    assert found > 0.8 * unfit > 4


def test_plans_stop_growing():
    skeleton = skeletons(3, 1)[0]
    with pytest.raises(TooMany):
        plan_of(skeleton, Choices(), is_coarse=True, most=1)


def test_drafts_of_what_does_not_fit_come_to_an_end():
    drafts, ends = Drafts(SAMPLER.skeletons, LOW), 0
    for skeleton in skeletons(3, 100):
        if any(every_draft(skeleton, SAMPLER.skeletons, LOW)):
            continue
        of_skeleton, rng = drafts.of(skeleton), Random(0)
        for _ in range(20):
            try:
                of_skeleton.draw(rng)
            except Unfit:
                ends += 1
                break
            except ValueError:
                continue
    assert ends > 3
