"""A sampler that is quick to make: chains of unary operators, few enough that some come twice."""

from dataclasses import dataclass
from random import Random

from kernelwright.core.seed import derive
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program

OPERATORS = ("relu", "sigmoid", "tanh")


@dataclass(frozen=True)
class FakeSample:
    program: Program | None
    refused: str | None = None
    is_uniform: bool = True
    drafts: int = 1
    proposals: int = 2
    accepted: int = 1
    skeletons: int = 1


class FakeSampler:
    """Every fifth attempt or so is refused; the rest are chains over one of `NUM_SIZES` sizes."""

    NUM_SIZES = 16

    def __init__(self, recipe):
        self.operators = recipe.operators or OPERATORS

    def draw(self, level, seed, index, attempt):
        rng = Random(derive(seed, "fake", level, index, attempt))
        if rng.random() < 0.2:
            return FakeSample(None, "domain")
        builder = Builder()
        value = builder.input(TensorType((8, rng.randint(1, self.NUM_SIZES))))
        for _ in range(level):
            (value,) = builder.call(rng.choice(self.operators), input=value)
        return FakeSample(builder.program([value]))
