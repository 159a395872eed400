"""Whether programs come out as often as they should: all those of a small recipe, by brute force.

What `synth` counts and solves is tried out here instead: every skeleton by its definition, every
form and choice, every value of every size; the operators' own rules say what is a program. So the
two have little in common but the definition (docs/csp-dag.md).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np
import torch

from kernelwright.core.record import Record
from kernelwright.ops.forms.form import Choice, Form, Menu
from kernelwright.ops.forms.registry import forms
from kernelwright.ops.sizes import Size, evaluate, variables
from kernelwright.programs.program import Program
from kernelwright.programs.text import to_text
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal_by_algebra, refusal_unrun
from kernelwright.synth.recipe import DrawRecipe, ProgramBounds, Quality, SizeLimits
from kernelwright.synth.sample import Sampler, within
from kernelwright.synth.skeletons.draft import Draft
from kernelwright.synth.skeletons.skeleton import Skeleton, Skeletons
from kernelwright.synth.skeletons.sound import SoundSkeletons
from tools.sampler.every_skeleton import every_skeleton

_BYTES = (0, 1 << 20)
_ALL = Quality(ranges=False, lint=False)
"""Sound or not."""
SPACES: Mapping[str, tuple[int, DrawRecipe]] = {
    "pointwise": (
        2,
        DrawRecipe(
            operators=("relu", "sub", "sum"),
            dtypes=("float32",),
            max_rank=1,
            menus={"sub": {"alpha": (1,), "other": (2.0,)}},
            broadcast=(2, 1),
            sizes=SizeLimits(low=1, high=3, measure="uniform"),
            bounds=ProgramBounds(bytes=_BYTES),
            quality=_ALL,
        ),
    ),
    "meetings": (
        2,
        DrawRecipe(
            operators=("sum", "sub"),
            dtypes=("float32",),
            max_rank=1,
            menus={"sub": {"alpha": (1,), "other": (2.0,)}},
            broadcast=(2, 1),
            sizes=SizeLimits(low=2, high=3, measure="uniform"),
            bounds=ProgramBounds(bytes=_BYTES),
        ),
    ),
    "products": (
        2,
        DrawRecipe(
            operators=("mm", "t", "softmax", "argmax"),
            dtypes=("float32",),
            max_rank=2,
            weights={"mm": 2},
            sizes=SizeLimits(low=1, high=4, measure="uniform", elements=(1, 9)),
            bounds=ProgramBounds(bytes=_BYTES, flops=(0, 60)),
            quality=_ALL,
        ),
    ),
    "convolutions": (
        2,
        DrawRecipe(
            operators=("conv1d", "relu"),
            dtypes=("float32",),
            max_rank=3,
            menus={
                "conv1d": {
                    "kernel_size": ((1,), (3,)),
                    "stride": ((1,), (2,)),
                    "padding": ((1,),),
                    "dilation": ((1,),),
                    "groups": (1,),
                }
            },
            sizes=SizeLimits(low=1, high=3, measure="uniform", elements=(1, 4)),
            bounds=ProgramBounds(bytes=_BYTES),
            quality=_ALL,
        ),
    ),
    "sound": (
        2,
        DrawRecipe(
            operators=("exp", "log", "relu", "sub", "logical_not"),
            dtypes=("float32",),
            max_rank=1,
            weights={"log": 3},
            menus={"sub": {"alpha": (1,), "other": (2.0,)}},
            sizes=SizeLimits(low=1, high=3, measure="uniform"),
            bounds=ProgramBounds(bytes=_BYTES),
        ),
    ),
}
"""Name -> (level, recipe) with few enough programs to try them all."""


@dataclass(slots=True)
class _Asked:
    """Stands in for `Equations`: remembers what is asked, and solves nothing."""

    pairs: list[tuple[Size, Size]] = field(default_factory=list)

    def equate(self, a: Size, b: Size) -> None:
        self.pairs.append((a, b))

    def solved(self, size: Size) -> Size:
        return size


def probabilities(recipe: DrawRecipe, level: int) -> dict[str, float]:
    """Every program of the recipe as text -> how often it should be drawn, before any is run."""
    usable = [form for form in forms(recipe.space()) if recipe.weight(form.op)]
    skeletons = Skeletons(usable)
    sound = SoundSkeletons(skeletons)
    weights: dict[str, float] = defaultdict(float)
    for skeleton in every_skeleton(usable, level, recipe.width):
        if recipe.quality.ranges and not sound.has(skeleton):
            continue
        weight = prod(recipe.weight(call.op) for call in skeleton.calls)
        for text, share in _programs(skeleton, skeletons, recipe).items():
            weights[text] += weight * share
    total = sum(weights.values())
    return {text: weight / total for text, weight in weights.items()}


def _programs(skeleton: Skeleton, skeletons: Skeletons, recipe: DrawRecipe) -> dict[str, float]:
    """The skeleton's programs and their shares: each draft that has sizes in proportion to its
    weight, and within a draft each solution alike, of those that are not refused."""
    shares: dict[str, float] = defaultdict(float)
    for draft, weight in every_draft(skeleton, skeletons, recipe.sizes.low):
        programs = list(_solutions(draft, recipe))
        for program in programs:
            if not _is_refused(program, recipe.quality):
                shares[to_text(program)] += weight / len(programs)
    total = sum(shares.values())
    return {text: share / total for text, share in shares.items()}


def every_draft(
    skeleton: Skeleton, skeletons: Skeletons, low: int
) -> Iterator[tuple[Draft, float]]:
    """The skeleton's drafts that do not contradict themselves, unsolved, and their weights."""
    for chosen in product(*(skeletons.fits(call) for call in skeleton.calls)):
        for choices in product(*(_choices(fit.form) for fit in chosen)):
            asked = Draft(equations=_Asked())  # type: ignore[arg-type]
            solved = Draft()
            try:
                for call, fit, (choice, _) in zip(skeleton.calls, chosen, choices, strict=True):
                    arranged = fit.form.arrange(choice)
                    asked.add(call, fit, arranged)
                    solved.add(call, fit, arranged)
                solved.check_free(low)
            except ValueError:
                continue
            yield asked, prod(weight for _, weight in choices)


def _is_refused(program: Program, rules: Quality) -> bool:
    """Without a run."""
    if rules.ranges and refusal_unrun(with_inits(program)):
        return True
    return rules.lint and refusal_by_algebra(program) is not None


def _choices(form: Form) -> Iterator[tuple[Choice, float]]:
    for values in product(*(_shares(menu) for menu in form.menus.values())):
        picked = dict(zip(form.menus, (value for value, _ in values), strict=True))
        yield picked, prod(share for _, share in values)


def _shares(menu: Menu) -> list[tuple[object, float]]:
    weights = menu.weights or (1,) * len(menu.values)
    return [(v, w / sum(weights)) for v, w in zip(menu.values, weights, strict=True)]


def _solutions(draft: Draft, recipe: DrawRecipe) -> Iterator[Program]:
    """The draft's programs, by trying all values of all variables."""
    asked: Sequence[tuple[Size, Size]] = draft.equations.pairs  # type: ignore[attr-defined]
    sizes = [size for shape in draft.shapes for size in shape]
    everything = [*sizes, *(size for pair in asked for size in pair)]
    names = list(dict.fromkeys(v for size in everything for v in variables(size)))
    low, high = recipe.sizes.low, recipe.sizes.high
    values = np.arange(low, high + 1)
    grid = np.stack(np.meshgrid(*[values] * len(names), indexing="ij")).reshape(len(names), -1)
    column = {name: grid[i] for i, name in enumerate(names)}

    def at(size: Size) -> np.ndarray:
        return np.broadcast_to(evaluate(size, column.__getitem__), grid.shape[1:])

    fits = np.ones(grid.shape[1:], bool)
    for one, other in asked:
        fits &= at(one) == at(other)
    for size in sizes:
        fits &= ((1 if isinstance(size, int) else low) <= at(size)) & (at(size) <= high)
    for shape in draft.shapes:
        numel = prod((at(size) for size in shape), start=np.ones(grid.shape[1:], int))
        fits &= (recipe.sizes.elements[0] <= numel) & (numel <= recipe.sizes.elements[1])
    for solution in grid[:, fits].T:
        assignment = dict(zip(names, map(int, solution), strict=True))
        try:
            program = draft.program(assignment.__getitem__)
        except ValueError:
            continue
        if within(program, recipe.bounds):
            yield program


@dataclass(frozen=True, slots=True)
class UniformityFit:
    """How well draws agree with what they should be."""

    programs: int
    """That there are."""
    draws: int
    reached: int
    """Programs drawn at least once."""
    strange: int
    """Draws of what is no program of the recipe."""
    chi2: float
    p: float
    """That draws of the right distribution are this far off or more."""

    def to_json(self) -> Record:
        return {name: getattr(self, name) for name in self.__slots__}


def goodness_of_fit(expected: Mapping[str, float], texts: Sequence[str]) -> UniformityFit:
    """Pearson's chi-square test of draws against the probabilities of all programs."""
    seen = Counter(texts)
    strange = sum(count for text, count in seen.items() if text not in expected)
    terms = [
        (seen[text] - share * len(texts)) ** 2 / (share * len(texts))
        for text, share in expected.items()
    ]
    halves = torch.tensor([(len(terms) - 1) / 2, sum(terms) / 2], dtype=torch.float64)
    p = float(torch.special.gammaincc(halves[0], halves[1])) if len(terms) > 1 else 1.0
    reached = sum(text in seen for text in expected)
    return UniformityFit(
        len(expected), len(texts), reached, strange, sum(terms), p if not strange else 0.0
    )


def draws(recipe: DrawRecipe, level: int, num: int, seed: int) -> list[str]:
    """Programs as `synth` draws them, before any is refused for its quality."""
    sampler = Sampler(recipe)
    samples = (sampler.draw(level, seed, index, 0) for index in range(num))
    return [to_text(sample.program) for sample in samples if sample.program is not None]
