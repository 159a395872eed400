"""Candidates of the matmul family: one matrix product, what comes before and after it fused.

Which kernel wins depends on sizes: large tiles where there are many, small ones and slices of K
where the GPU would stand idle, row reductions where a factor is a vector. All schedules that make
sense are ranked by a coarse estimate of their time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import ceil

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.programs.traffic import LAUNCH_S
from kernelwright.teacher.contraction.contraction import CONTRACTIONS, Contraction, find
from kernelwright.teacher.contraction.elements import elements
from kernelwright.teacher.contraction.forms import tile_forms
from kernelwright.teacher.contraction.parts import ProductSchedule
from kernelwright.teacher.contraction.row_reduce import reduces_rows, row_reduce
from kernelwright.teacher.contraction.rows import rows
from kernelwright.teacher.contraction.schedules import (
    L1_BYTES_PER_S,
    NUM_SMS,
    TILED_BYTES_PER_S,
    estimate_s,
    fitted,
    tile_schedules,
)
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.ways import Way, is_writable

Form = Callable[[Contraction, ProductSchedule], Candidate]
Item = tuple[Form, ProductSchedule]

_PRECISIONS = {
    "strict": ("tf32x3", "ieee"),
    "tf32": ("tf32", "bf16x3", "tf32x3"),
    "kernelbench": ("tf32", "bf16x3", "tf32x3"),
}
"""Dot precisions of fp32 factors under each policy. In strict, bf16x3 is out: its error is 2.6
times that of PyTorch's fp32 (4.2e-6 against 1.6e-6 at K = 8192), and tf32x3's is 0.2 times."""

# BLOCK_M (rows), BLOCK_K, num_warps of products with a vector
_ROW_TILES = ((1, 2048, 4), (4, 512, 4), (16, 128, 4), (64, 32, 4), (8, 1024, 8))
_ELEMENTS = ((256, 4), (512, 4), (1024, 8), (128, 4))
"""BLOCK and num_warps of batches of small products."""
_SMALL = 16
"""The most rows and columns of a small product: those of the smallest tile of tensor cores."""


def classify(program: Program) -> bool:
    """Whether the program has one matrix product that some form here can write."""
    # Counting is cheap, and most programs of other families end here.
    if sum(call.op in CONTRACTIONS for call in program.calls) != 1:
        return False
    try:
        product = find(program)
        # The form decides whether code can be written; the tiles do not: one schedule is tried.
        # In a dict the last item of a key stays, so the reversed list keeps the first.
        first = dict(reversed(list(_schedules(product, "strict"))))
    except NotWritable:
        return False
    return any(is_writable(partial(form, product, one)) for form, one in first.items())


def ways(program: Program, precision: str) -> list[Way]:
    """Every way to write the program, best first."""
    product = find(program)
    ranked = sorted(_schedules(product, precision), key=lambda item: _estimate_s(product, *item))
    return [
        Way((form, schedule.precision), partial(form, product, schedule))
        for form, schedule in ranked
    ]


def _schedules(product: Contraction, precision: str) -> Iterator[Item]:
    """Yields every (form, schedule) that makes sense at the program's sizes, unordered."""
    m, n = (product.lengths.get(axis, 1) for axis in ("m", "n"))
    if 1 in (m, n):
        for block, block_k, warps in _ROW_TILES:
            # More than half of a larger block would be padding.
            if block <= 2 * max(m, n):
                why = "a factor is a vector: read the matrix once, no tensor cores"
                yield rows, ProductSchedule(
                    block_m=block, block_n=1, block_k=block_k, num_warps=warps, num_stages=1,
                    why=why,
                )  # fmt: skip
    is_small = "b" in product.lengths and max(m, n) <= _SMALL and min(m, n) > 1
    if is_small and not reduces_rows(product):
        for block, warps in _ELEMENTS:
            why = (
                "small products: a tile would be mostly padding, so elements are sums of their own"
            )
            yield (
                elements,
                ProductSchedule(block_m=block, block_n=1, block_k=0, num_warps=warps, why=why),
            )
    if not product.has_tiles:
        return
    modes = _PRECISIONS[precision] if product.dtype == "float32" else ("ieee",)
    for mode in modes:
        tiles = tile_schedules(product, mode)
        # A reduction over columns needs all tiles of a row, which neither tiled form has.
        if reduces_rows(product):
            fit = (one for tile in tiles for one in fitted(tile, product.shared_bytes))
            yield from ((row_reduce, schedule) for schedule in dict.fromkeys(fit))
        else:
            yield from tile_forms(product, tiles, product.shared_bytes)


def _estimate_s(product: Contraction, form: Form, schedule: ProductSchedule) -> float:
    """Coarse time of a candidate in seconds, for ranking only."""
    m, n = (product.lengths.get(axis, 1) for axis in ("m", "n"))
    k, batches = product.lengths["k"], product.lengths.get("b", 1)
    memory_s = batches * (m * k + k * n + m * n) * product.element_bytes / TILED_BYTES_PER_S
    if form is elements:
        num_elements = batches * m * n
        idle = max(1.0, NUM_SMS * schedule.block_m / num_elements)
        loads_s = 2 * num_elements * k * product.element_bytes / L1_BYTES_PER_S
        return LAUNCH_S + idle * max(memory_s, loads_s)
    if form is not rows:
        return estimate_s(product, schedule, memory_s)
    programs = batches * ceil(max(m, n) / schedule.block_m)
    # Memory is fully busy only if every processor has a program.
    idle = max(1.0, NUM_SMS / programs)
    # The masked part of the last step along K costs up to one block.
    waste = 1 + schedule.block_k / k
    return LAUNCH_S + memory_s * max(idle, waste)
