"""Schedules of sums of products on tensor cores: tiles, slices of K, a coarse estimate of time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, sqrt

from kernelwright.programs.traffic import LAUNCH_S
from kernelwright.teacher.contraction.parts import ROUNDED, Product, ProductSchedule

NUM_SMS = 132
"""The processors of an H200; twice as many programs keep the GPU busy."""
TILED_BYTES_PER_S = 4.3e12
"""90% of the 4.8 TB/s that an H200 has by its data sheet. Ranks tiles of one product only, and is
no measured throughput as that of the cost model."""
L1_BYTES_PER_S = 20e12
"""The bytes a second that loads that hit L1 bring on an H200, all SMs together."""
SM_BYTES_PER_S = 100e9
"""The bytes a second that loads of tiles bring to one SM of an H200, from L2 or memory."""
SHARED_BYTES = 227 << 10
"""The shared memory of one program on Hopper."""
_FLOPS_PER_S = {
    "ieee": 35e12, "tf32x3": 160e12, "bf16x3": 190e12, "tf32": 400e12, ROUNDED: 230e12,
    "half": 650e12,
}  # fmt: skip
"""The FLOPs a second that a large Triton product reaches on an H200; "half" stands for fp16 and
bf16 factors."""
_LEAST_K = 16
"""The least BLOCK_K of `tl.dot`."""
_WALKED = 1.05
"""Time of programs that walk many tiles, over that of one program a tile."""

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


def power_of_two(size: int) -> int:
    """The least power of two that is not below `size`."""
    return 1 << max(0, size - 1).bit_length()


def tile_schedules(product: Product, mode: str) -> list[ProductSchedule]:
    """The tiles that make sense at the product's sizes, in one precision mode.

    Args:
        mode: a `tl.dot` precision, or ROUNDED.
    """
    # Two tiles of the table can be equal after K has cut them.
    return list(dict.fromkeys(_tile_schedules(product, mode)))


def _tile_schedules(product: Product, mode: str) -> Iterator[ProductSchedule]:
    m, n, k = (product.lengths[axis] for axis in ("m", "n", "k"))
    # A longer block would be padding: a product over 8 elements computed 128 (`matmul`, bfloat16).
    longest_k = max(_LEAST_K, power_of_two(k))
    for block_m, block_n, units, warps, stages in _tiles_for(product, mode):
        # Units are bytes, so one table serves elements of two and of four bytes.
        block_k = min(units * 64 // product.element_bytes, longest_k)
        schedule = ProductSchedule(
            block_m=block_m,
            block_n=block_n,
            block_k=block_k,
            num_warps=warps,
            # With one block of K, there is nothing to load ahead.
            num_stages=stages if k > block_k else 2,
            # Walking in groups of eight changes the order only if there are at least two groups.
            group_m=8 if block_m * 16 <= m else 1,
            precision=mode,
            why=_reason(block_m, block_n),
        )
        # At least half of a tile that is twice as long as the matrix would be padding.
        # Blocks up to 32 always stay, or the smallest matrices would have no tile.
        is_wasteful = block_m > max(32, 2 * m - 1) or block_n > max(32, 2 * n - 1)
        if not is_wasteful:
            yield schedule


def _tiles_for(product: Product, mode: str) -> tuple[tuple[int, ...], ...]:
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


def sliced(product: Product, schedule: ProductSchedule) -> Iterator[ProductSchedule]:
    """Yields the schedule with K in 2 to 16 slices, if all of them are at most two waves.

    A slice has at least four blocks of K.
    """
    tiles = _num_tiles(product, schedule)
    for slices in (2, 4, 8, 16):
        is_long = product.lengths["k"] >= 4 * slices * schedule.block_k
        if is_long and tiles * slices <= 2 * NUM_SMS:
            # All tiles run at the same time, so no order of them shares more operands in L2.
            why = "few tiles leave SMs idle: slices of K fill them"
            yield replace(schedule, split_k=slices, group_m=1, why=why)


def persistent(product: Product, schedule: ProductSchedule) -> Iterator[ProductSchedule]:
    """Yields the schedule with as many programs as run at once, if its tiles make more than two
    waves."""
    # A processor runs one program of eight warps at a time, or two of four warps.
    programs = NUM_SMS * max(1, 8 // schedule.num_warps)
    tiles = _num_tiles(product, schedule)
    if tiles > 2 * programs:
        why = "programs walk many tiles each: none starts or ends between two waves"
        yield replace(schedule, programs=programs, why=f"{schedule.why}; {why}")


def fitted(
    schedule: ProductSchedule, shared_bytes: Callable[[ProductSchedule], int]
) -> Iterator[ProductSchedule]:
    """Yields the schedule with as many pipeline stages as fit in shared memory.

    Yields nothing if fewer than two stages fit: loads could not run ahead of the product.

    Args:
        shared_bytes: schedule -> bytes of shared memory for its tiles.
    """
    for stages in range(schedule.num_stages, 1, -1):
        fewer = replace(schedule, num_stages=stages)
        if shared_bytes(fewer) <= SHARED_BYTES:
            yield fewer
            return


def _num_tiles(product: Product, schedule: ProductSchedule) -> int:
    m, n = product.lengths["m"], product.lengths["n"]
    batches = product.lengths.get("b", 1)
    return batches * ceil(m / schedule.block_m) * ceil(n / schedule.block_n)


def estimate_s(product: Product, schedule: ProductSchedule, memory_s: float) -> float:
    """Coarse time of a tiled kernel in seconds, for ranking only: the slowest of memory, products
    and loads of tiles.

    Launch and partial sums are added. The constants are those of an H200.

    Args:
        memory_s: seconds to read the factors and write the result once.
    """
    m, n, k = (product.lengths[axis] for axis in ("m", "n", "k"))
    memory_s *= 1.25  # tiles wait for their pipeline to fill
    is_half = product.dtype != "float32"
    flops_per_s = _FLOPS_PER_S["half" if is_half else schedule.precision] / NUM_SMS
    # A tile loads m + n elements for m * n products, so this is products an element loaded.
    reuse = schedule.block_m * schedule.block_n / (schedule.block_m + schedule.block_n)
    best_reuse = 64 if "x3" in schedule.precision else 85  # tiles of 128 x 128, 128 x 256
    efficiency = min(1.0, sqrt(reuse / best_reuse))
    # A wave takes as long as one tile on one processor.
    waves = ceil(_num_tiles(product, schedule) * schedule.split_k / NUM_SMS)
    tile_flops = 2 * schedule.block_m * schedule.block_n * k / schedule.split_k
    extra_s = 0.0
    if schedule.split_k > 1:
        # Each partial sum is written once and read once, 4 bytes each time.
        batches = product.lengths.get("b", 1)
        extra_s = LAUNCH_S + 8 * schedule.split_k * batches * m * n / TILED_BYTES_PER_S
    compute_s = waves * tile_flops / flops_per_s / efficiency
    # Few programs that walk a long K load less at once than the memory could bring.
    tile_bytes = (schedule.block_m + schedule.block_n) * k / schedule.split_k
    loads_s = waves * tile_bytes * product.element_bytes / SM_BYTES_PER_S
    # Whether walking tiles pays is for measuring to say: beside the best, not in their place.
    unsure = _WALKED if schedule.programs else 1.0
    return LAUNCH_S + extra_s + unsure * max(memory_s, compute_s, loads_s)
