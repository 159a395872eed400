"""Candidates of the matmul family: one matrix product, what comes before and after it fused.

Which kernel wins depends on sizes: large tiles where there are many, small ones and slices of K
where the GPU would stand idle, row reductions where a factor is a vector. All schedules that make
sense are ranked by a coarse estimate of their time, and the best few become candidates.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, sqrt

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.programs.program import Program
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.tile_contraction import CONTRACTIONS, Contraction, find
from kernelwright.teacher.tile_forms import split_k, tiled
from kernelwright.teacher.tile_parts import Schedule
from kernelwright.teacher.tile_row_reduce import reduces_rows, row_reduce
from kernelwright.teacher.tile_rows import rows

Form = Callable[[Contraction, Schedule], Candidate]
Item = tuple[Form, Schedule]

_NUM_SMS = 132
_BYTES_PER_S = 4.3e12
_LAUNCH_S = 4e-6
_FLOPS_PER_S = {
    "ieee": 35e12, "tf32x3": 160e12, "bf16x3": 190e12, "tf32": 400e12, "half": 650e12,
}  # fmt: skip
"""What a large Triton product reaches on an H200; "half" stands for fp16 and bf16 factors."""
_PRECISIONS = {
    "strict": ("tf32x3", "ieee"),
    "tf32": ("tf32", "bf16x3", "tf32x3"),
    "kernelbench": ("tf32", "bf16x3", "tf32x3"),
}
"""Dot precisions of fp32 factors under each policy. In strict, bf16x3 is out: its error is 2.6
times that of PyTorch's fp32 (4.2e-6 against 1.6e-6 at K = 8192), and tf32x3's is 0.2 times."""

# BLOCK_M, BLOCK_N, BLOCK_K in units of 64 bytes, num_warps, num_stages. None of them needs more
# shared memory than Hopper's 227 KiB, and only 128 x 256 spills registers, a little (sm_90, ptxas).
_TILES = (
    (128, 256, 2, 8, 3), (128, 128, 4, 8, 3), (128, 128, 2, 8, 4), (64, 256, 2, 8, 3),
    (64, 128, 2, 4, 4), (128, 64, 2, 4, 4), (64, 64, 4, 4, 3), (64, 64, 2, 4, 4),
    (32, 128, 4, 4, 3), (32, 64, 4, 4, 4), (16, 128, 4, 4, 4), (16, 64, 8, 4, 3),
    (128, 32, 4, 4, 3), (64, 32, 4, 4, 4), (128, 16, 4, 4, 4), (64, 16, 8, 4, 3),
    (32, 32, 8, 4, 3), (16, 32, 8, 4, 4), (32, 16, 8, 4, 4),
)  # fmt: skip
# The same for precisions that split factors in parts, which take registers: on an H200, tf32x3 at
# 1024 x 8192 x 8192 took 1.63 ms with the first, 1.92 with the second, 2.5 with 128 x 256.
_SPLIT_TILES = (
    (128, 128, 4, 8, 3), (128, 128, 2, 8, 3), (128, 128, 2, 8, 4), (128, 256, 2, 8, 3),
    (64, 256, 1, 8, 4), (64, 128, 2, 4, 3), (128, 64, 2, 4, 3), (64, 64, 2, 4, 4),
    (32, 128, 2, 4, 4), (32, 64, 4, 4, 4), (16, 128, 4, 4, 4), (16, 64, 4, 4, 4),
    (128, 32, 2, 4, 4), (64, 32, 4, 4, 4), (128, 16, 4, 4, 4), (64, 16, 4, 4, 4), (32, 32, 4, 4, 4),
    (16, 32, 8, 4, 4), (32, 16, 4, 4, 4),
)  # fmt: skip
# The same in fp32 on the CUDA cores, where operands pass through registers.
_IEEE_TILES = ((64, 64, 1, 4, 3), (128, 64, 1, 8, 3), (32, 64, 2, 4, 3), (16, 32, 2, 4, 3))
# BLOCK_M (rows), BLOCK_K, num_warps of products with a vector
_ROW_TILES = ((1, 2048, 4), (4, 512, 4), (16, 128, 4), (64, 32, 4), (8, 1024, 8))


def classify(program: Program) -> bool:
    """Whether `write` has a form for the program."""
    if sum(call.op in CONTRACTIONS for call in program.calls) != 1:
        return False
    try:
        product = find(program)
        return bool(next(_candidates(product, list(_schedules(product, "strict"))), None))
    except NotWritable:
        return False


def write(program: Program, *, limit: int, seed: int, precision: str) -> list[Candidate]:
    """Candidates, best first; none where no form fits.

    The last third of them is drawn from all schedules, so that a model that learns from them sees
    more than the favourites.
    """
    product = find(program)
    ranked = sorted(_schedules(product, precision), key=lambda item: _estimate_s(product, *item))
    num_drawn = limit // 3
    best = _spread(ranked, limit - num_drawn)
    rest = [item for item in ranked if item not in best]
    random.Random(derive(seed, "matmul")).shuffle(rest)
    found: list[Candidate] = []
    for candidate in _candidates(product, [*best, *rest]):
        if len(found) < limit:
            found.append(candidate)
    return found


def _candidates(product: Contraction, items: list[Item]) -> Iterator[Candidate]:
    for form, schedule in items:
        try:
            yield form(product, schedule)
        except NotWritable:
            continue


def _schedules(product: Contraction, precision: str) -> Iterator[Item]:
    """Every schedule that makes sense at the program's sizes."""
    m, n = (product.lengths.get(axis, 1) for axis in ("m", "n"))
    if 1 in (m, n):
        for block, block_k, warps in _ROW_TILES:
            if block <= 2 * max(m, n):
                why = "a factor is a vector: read the matrix once, no tensor cores"
                yield rows, Schedule(
                    block_m=block, block_n=1, block_k=block_k, num_warps=warps, num_stages=1,
                    why=why,
                )  # fmt: skip
    if "m" not in product.lengths or "n" not in product.lengths:
        return
    modes = _PRECISIONS[precision] if product.dtype == "float32" else ("ieee",)
    for mode in modes:
        for schedule in _tile_schedules(product, mode):
            if reduces_rows(product):
                yield row_reduce, schedule
                continue
            yield tiled, schedule
            yield from ((split_k, sliced) for sliced in _sliced(product, schedule))


def _tile_schedules(product: Contraction, mode: str) -> Iterator[Schedule]:
    m, n = product.lengths["m"], product.lengths["n"]
    for block_m, block_n, units, warps, stages in _tiles_for(product, mode):
        schedule = Schedule(
            block_m=block_m,
            block_n=block_n,
            block_k=units * 64 // product.element_bytes,
            num_warps=warps,
            num_stages=stages,
            group_m=8 if block_m * 16 <= m else 1,
            precision=mode,
            why=_reason(block_m, block_n),
        )
        is_wasteful = block_m > max(32, 2 * m - 1) or block_n > max(32, 2 * n - 1)
        if not is_wasteful:
            yield schedule


def _tiles_for(product: Contraction, mode: str) -> tuple[tuple[int, ...], ...]:
    if mode == "ieee" and product.dtype == "float32":
        return _IEEE_TILES
    return _SPLIT_TILES if "x3" in mode else _TILES


def _reason(block_m: int, block_n: int) -> str:
    if block_m >= 128 and block_n >= 128:
        return "large tiles: each load is used often, the tensor cores are the limit"
    if block_n <= 32:
        return "few columns: the left factor is read once, a narrow tile wastes little"
    if block_m <= 32:
        return "few rows: the right factor is read once, many programs share its columns"
    return "medium tiles: more programs than large ones where the output is small"


def _sliced(product: Contraction, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with K in slices, where its tiles alone leave most of the GPU idle."""
    tiles = _num_tiles(product, schedule)
    for slices in (2, 4, 8, 16):
        is_long = product.lengths["k"] >= 4 * slices * schedule.block_k
        if is_long and tiles * slices <= 2 * _NUM_SMS:
            why = f"{tiles} tiles leave SMs idle: {slices} slices of K fill them"
            yield replace(schedule, split_k=slices, group_m=1, why=why)


# Ranking


def _num_tiles(product: Contraction, schedule: Schedule) -> int:
    m, n = product.lengths["m"], product.lengths["n"]
    batches = product.lengths.get("b", 1)
    return batches * ceil(m / schedule.block_m) * ceil(n / schedule.block_n)


def _estimate_s(product: Contraction, form: Form, schedule: Schedule) -> float:
    """Coarse time of a candidate: the slower of memory and waves of tiles. Only for ranking."""
    m, n = (product.lengths.get(axis, 1) for axis in ("m", "n"))
    k, batches = product.lengths["k"], product.lengths.get("b", 1)
    memory_s = batches * (m * k + k * n + m * n) * product.element_bytes / _BYTES_PER_S
    if form is rows:
        programs = batches * ceil(max(m, n) / schedule.block_m)
        idle = max(1.0, _NUM_SMS / programs)
        waste = 1 + schedule.block_k / k
        return _LAUNCH_S + memory_s * max(idle, waste)
    memory_s *= 1.25  # tiles wait for their pipeline to fill
    is_half = product.dtype != "float32"
    flops_per_s = _FLOPS_PER_S["half" if is_half else schedule.precision] / _NUM_SMS
    reuse = schedule.block_m * schedule.block_n / (schedule.block_m + schedule.block_n)
    best_reuse = 64 if "x3" in schedule.precision else 85  # tiles of 128 x 128, 128 x 256
    efficiency = min(1.0, sqrt(reuse / best_reuse))
    waves = ceil(_num_tiles(product, schedule) * schedule.split_k / _NUM_SMS)
    tile_flops = 2 * schedule.block_m * schedule.block_n * k / schedule.split_k
    extra_s = 0.0
    if schedule.split_k > 1:
        extra_s = _LAUNCH_S + 8 * schedule.split_k * batches * m * n / _BYTES_PER_S
    return _LAUNCH_S + extra_s + max(memory_s, waves * tile_flops / flops_per_s / efficiency)


def _spread(ranked: list[Item], count: int) -> list[Item]:
    """The best `count`, a form and precision the dearer the more often it was taken."""
    best: list[Item] = []
    left = list(enumerate(ranked))
    while left and len(best) < count:
        taken = Counter((form, schedule.precision) for form, schedule in best)
        rank, item = min(left, key=lambda e: e[0] + 2 * taken[e[1][0], e[1][1].precision])
        left.remove((rank, item))
        best.append(item)
    return best
