"""Kernels of one sum of products with what is fused around it, whatever the factors are.

Forms: `tiled`, one kernel; `split_k`, partial sums over slices of K, then a kernel that adds them
and applies the epilogue.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.contraction.parts import ROUND_TO_TF32, ROUNDED, Product, ProductSchedule
from kernelwright.teacher.contraction.schedules import fitted, persistent, sliced
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.source import Buffer, Kernel
from kernelwright.teacher.tile.index import factor, mask, offset, parts
from kernelwright.teacher.tile.program import finish, out_buffers

TileForm = Callable[[Product, ProductSchedule], Candidate]
_COMBINE = ProductSchedule(
    block_m=4, block_n=256, block_k=1, num_warps=4, why="memory-bound: long rows"
)


def tiled(product: Product, schedule: ProductSchedule) -> Candidate:
    """One kernel: a program computes one tile of the product with its epilogue, or many in turn.

    Raises:
        NotWritable: a call after the product has no kernel text.
    """
    program = product.program
    body = product.body(product.view())
    product.epilogue(body, product.after())
    sums = product.accumulate(schedule)
    lines = [
        *sums,
        "# Epilogue on the accumulator, still in registers.",
        *finish(body, program.outputs, sums),
    ]
    loop, grid = product.loop(schedule), f"({product.num_tiles()},)"
    if schedule.programs:
        loop, lines = f"{loop}_persistent", product.walked(lines)
        grid = f"(min(NUM_PROGRAMS, {product.num_tiles()}),)"
    tiled_kernel = product.kernel(
        schedule.choice, loop, program.calls, lines, grid, computed=product.constants
    )
    return _assembled(product, schedule, [tiled_kernel], out_buffers(body, program.outputs))


def split_k(product: Product, schedule: ProductSchedule) -> Candidate:
    """Two kernels: partial sums over slices of K, then their sum and the epilogue.

    The partial sums are in fp32 and have the shape (SPLIT_K, elements of the result).

    Raises:
        NotWritable: a call after the product has no kernel text.
    """
    view = product.view()
    place = offset(product.index, view, product.out.layout)
    sums = product.accumulate(schedule)
    # The sums may have computed slices of "b" already; the store needs the slices of all axes.
    lines = [
        *sums,
        *(line for line in parts(view) if line not in sums),
        "# Each slice of K has its own plane of partial sums: no atomics, one order of addition.",
        # All planes together may pass 2^31 elements where the result alone does not.
        f"plane = tl.program_id(1).to(tl.int64) * {factor(product.numel)}",
        f"inside = {mask(list(view), view)}",
        f"tl.store(partial_ptr + plane + {place}, acc, mask=inside)",
    ]
    calls, grid = behind(product.program, product.call.outputs), f"({product.num_tiles()}, SPLIT_K)"
    split = product.kernel(
        schedule.choice, product.loop(schedule), calls, lines, grid,
        suffix="split", computed=product.constants,
    )  # fmt: skip
    # The epilogue need not be linear, so it has to wait until all slices are added.
    combine, results = _combine(product, schedule)
    partial = Buffer(name="partial", sizes=(str(schedule.split_k), product.numel))
    return _assembled(product, schedule, [split, combine], [partial, *results])


def tile_forms(
    product: Product,
    tiles: Iterable[ProductSchedule],
    shared_bytes: Callable[[ProductSchedule], int],
) -> Iterator[tuple[TileForm, ProductSchedule]]:
    """Yields every (form, schedule) of tiles that fit into shared memory: one program a tile,
    programs that walk tiles, slices of K."""
    # Tiles that were cut to fewer stages may be equal to others.
    for schedule in dict.fromkeys(one for tile in tiles for one in fitted(tile, shared_bytes)):
        yield tiled, schedule
        yield from ((tiled, walking) for walking in persistent(product, schedule))
        yield from ((split_k, slices) for slices in sliced(product, schedule))


def _combine(product: Product, schedule: ProductSchedule) -> tuple[Kernel, list[Buffer]]:
    """The kernel that adds the slices' partial sums and applies the epilogue, and its results."""
    program, view = product.program, product.view()
    place, inside = offset(product.index, view, product.out.layout), mask(list(view), view)
    body = product.body(view, inside=inside)
    product.epilogue(body, product.after())
    place_tile = product.position(_COMBINE)
    head = [*place_tile, *(line for line in parts(view) if line not in place_tile)]
    lines = [
        *head,
        f"inside = {inside}",
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for part in range(SPLIT_K):",
        f"    plane = partial_ptr + tl.cast(part, tl.int64) * {factor(product.numel)}",
        f"    acc += tl.load(plane + {place}, mask=inside, other=0)",
        *finish(body, program.outputs, head),
    ]
    # The plan shows SPLIT_K in place of BLOCK_K, because this kernel loops over slices.
    tiles = {"BLOCK_M": 4, "BLOCK_N": 256, "SPLIT_K": schedule.split_k, "num_warps": 4}
    calls = behind(program, program.outputs, until=product.call)
    choice, grid = replace(_COMBINE.choice, tiles=tiles), f"({product.num_tiles()},)"
    combining = product.kernel(
        choice, "pointwise", calls, lines, grid, suffix="combine", computed=product.constants
    )
    return combining, out_buffers(body, program.outputs)


def _assembled(
    product: Product, schedule: ProductSchedule, kernels: list[Kernel], buffers: list[Buffer]
) -> Candidate:
    extra = ROUND_TO_TF32 if schedule.precision == ROUNDED else ""
    return product.assembled(kernels, buffers, extra=extra)
