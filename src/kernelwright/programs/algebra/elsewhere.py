"""Checks whether a rewritten program computes the same at other sizes too.

Some rules write sizes into the program: the number of positions of a mean, or the ends of ranges.
Such a program is right only at the sizes for which it was made.
"""

from functools import cached_property

import torch

from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import same_attributes, shape_variants

NUM_SHAPES, SEED = 3, 0
MAX_FLOPS = 1 << 20
"""The most FLOPs of a program at such sizes: the program runs for every rewriting."""
TOLERANCE = 1e-6
"""The tolerance of double results, on the scale of each. A size that does not fit is off by far
more."""

Tensors = list[torch.Tensor]


class Elsewhere:
    """A program at a few other sizes, with what it returns there."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def agrees(self, rewritten: Program) -> bool:
        """Whether a program of the same inputs returns the same there; True where the program has
        no other sizes."""
        return all(self._agrees(rewritten, *case) for case in self._cases)

    @cached_property
    def _cases(self) -> list[tuple[Program, Tensors, Tensors]]:
        """(the program at other sizes, its inputs, its results), where the program itself runs."""
        cases = []
        for variant in shape_variants(self._program, NUM_SHAPES, SEED, max_flops=MAX_FLOPS):
            if not same_attributes(variant, self._program):
                continue
            inputs = make_inputs(variant, SEED)
            try:
                cases.append((variant, inputs, _results(variant, inputs)))
            except Exception:  # sizes that PyTorch refuses say nothing about the rewriting
                continue
        return cases

    def _agrees(
        self, rewritten: Program, made: Program, inputs: Tensors, expected: Tensors
    ) -> bool:
        moved = Program(made.inputs, rewritten.calls, rewritten.outputs)
        try:
            results = _results(moved, inputs)
        except (RuntimeError, ValueError, IndexError):  # PyTorch refuses the sizes
            return False
        return all(map(_is_same, results, expected))


def _results(program: Program, inputs: Tensors) -> Tensors:
    torch.manual_seed(SEED)
    return run(program, inputs, torch.float64)


def _is_same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.shape != expected.shape:
        return False
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    scale = expected.nan_to_num(0.0, 0.0, 0.0).abs().amax().item() if expected.numel() else 0.0
    return torch.allclose(
        found, expected, rtol=TOLERANCE, atol=TOLERANCE * (1 + scale), equal_nan=True
    )
