"""Sizes of one system from `synth` and from CP-SAT: how fast, and how many different ones."""

from collections.abc import Iterator
from time import process_time

import numpy as np

from kernelwright.core.record import Record
from kernelwright.ops.sizes import Size, Var
from kernelwright.synth.recipe import ProgramBounds, SizeLimits
from kernelwright.synth.sizes.draw import draw_sizes
from kernelwright.synth.sizes.equations import Equations
from kernelwright.synth.sizes.measure import Measure
from kernelwright.synth.sizes.reading import read_system
from kernelwright.synth.sizes.system import Total
from tools.sampler.feasible import decide

Shape = tuple[Size, ...]


def comparison(num_seeds: int, seed: int = 0, num_draws: int = 1000) -> Iterator[Record]:
    """Under each measure: the system drawn `num_draws` times, and solved under `num_seeds` seeds.

    Raises:
        UsageError: OR-tools is not installed.
    """
    shapes = _shapes()
    total = Total([4] * len(shapes), ProgramBounds().bytes)
    asked = read_system(shapes, Equations(), SizeLimits(), total)
    begin_s = process_time()
    solutions = {decide(asked, seed=solver_seed) for solver_seed in range(num_seeds)}
    solver_ms = 1e3 * (process_time() - begin_s) / num_seeds
    for measure in Measure:
        limits, rng = SizeLimits(measure=measure), np.random.default_rng(seed)
        begin_s = process_time()
        draws = [
            draw_sizes(shapes, Equations(), limits, rng, total=total) for _ in range(num_draws)
        ]
        draw_ms = 1e3 * (process_time() - begin_s) / num_draws
        yield {
            "record": "solver",
            "measure": measure.value,
            "variables": len(asked.roots),
            "tensors": len(shapes),
            "draws": num_draws,
            "different_draws": len({tuple(drawn.values.values()) for drawn in draws}),
            "proposals_a_draw": sum(drawn.proposals for drawn in draws) / num_draws,
            "draw_cpu_ms": draw_ms,
            "solver_seeds": num_seeds,
            "different_solutions": len(solutions),
            "solver_cpu_ms": solver_ms,
        }


def _shapes() -> list[Shape]:
    """Convolution, residual, convolution of stride 2, flattened, linear layer; 3 x 3 kernels."""
    n, c, h, w, middle, last, out = (Var(name) for name in "nchwmlo")
    rows, columns = (h + 1) // 2, (w + 1) // 2
    flat = last * rows * columns
    first: list[Shape] = [(n, c, h, w), (middle, c, 3, 3), (n, middle, h, w), (n, middle, h, w)]
    strided: list[Shape] = [(n, middle, h, w), (last, middle, 3, 3), (n, last, rows, columns)]
    return [*first, *strided, (n, flat), (out, flat), (out,), (n, out)]
