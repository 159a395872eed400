"""Kernels of one matrix product with what is fused around it.

Forms: `tiled`, one kernel; `split_k`, partial sums over slices of K, then a kernel that adds them
and applies the epilogue; `rows`, a product with a vector as a row reduction; and `row_reduce`
(teacher/tile_row_reduce.py), tiles reduced over their columns.
"""

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.tile_body import TileBody
from kernelwright.teacher.tile_contraction import Contraction
from kernelwright.teacher.tile_index import AxisText, factor, offset, parts, times
from kernelwright.teacher.tile_parts import (
    Schedule,
    accumulate,
    after,
    epilogue,
    is_plain,
    plan,
    position,
    tile_grid,
    tile_view,
    wide,
)
from kernelwright.teacher.tile_source import Buffer, assemble, finish, kernel, out_buffers

_TILE_MASK = "(offs_m[:, None] < M) & (offs_n[None, :] < N)"
_COMBINE = Schedule(block_m=4, block_n=256, block_k=1, num_warps=4, why="memory-bound: long rows")


def tiled(product: Contraction, schedule: Schedule) -> Candidate:
    """One kernel: a program computes a tile of the product and its epilogue."""
    program = product.program
    body = TileBody(program, tile_view(product))
    epilogue(product, body, after(product))
    lines = [
        *accumulate(product, schedule),
        "# Epilogue on the accumulator, still in registers.",
        *finish(body, program.outputs),
    ]
    made = kernel(
        plan(product, schedule, "matmul", program.calls), lines, tile_grid(product), product.sizes
    )
    buffers = out_buffers(body, program.outputs)
    return assemble(program, product.sizes, buffers, [made], product.is_wide)


def split_k(product: Contraction, schedule: Schedule) -> Candidate:
    """Two kernels: partial products over slices of K, then their sum and the epilogue."""
    program, view = product.program, tile_view(product)
    place = offset(product.index, product.out, view)
    numel = times(*(symbol for symbol in ("B", "M", "N") if symbol.lower() in product.lengths))
    lines = [
        *accumulate(product, schedule),
        *parts(view),
        "# Each slice of K has its own plane of partial sums: no atomics, one order of addition.",
        f"plane = tl.program_id(1).to(tl.int64) * {factor(numel)}",
        f"inside = {_TILE_MASK}",
        f"tl.store(partial_ptr + plane + {place}, acc, mask=inside)",
    ]
    split = kernel(
        plan(product, schedule, "split_k", (product.call,), "split"),
        lines,
        tile_grid(product, "SPLIT_K"),
        product.sizes,
    )
    body = TileBody(program, view, inside=_TILE_MASK)
    epilogue(product, body, after(product))
    lines = [
        *position(product, _COMBINE),
        *parts(view),
        f"inside = {_TILE_MASK}",
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for part in range(SPLIT_K):",
        f"    plane = partial_ptr + tl.cast(part, tl.int64) * {factor(numel)}",
        f"    acc += tl.load(plane + {place}, mask=inside, other=0)",
        *finish(body, program.outputs),
    ]
    tiles = {"BLOCK_M": 4, "BLOCK_N": 256, "SPLIT_K": schedule.split_k, "num_warps": 4}
    others = tuple(call for call in program.calls if call is not product.call)
    combine = kernel(
        plan(product, _COMBINE, "pointwise", others, "combine", tiles),
        lines,
        tile_grid(product),
        product.sizes,
    )
    buffers = [
        Buffer(name="partial", sizes=(str(schedule.split_k), numel)),
        *out_buffers(body, program.outputs),
    ]
    return assemble(program, product.sizes, buffers, [split, combine], product.is_wide)


def rows(product: Contraction, schedule: Schedule) -> Candidate:
    """One kernel for a product with a vector: a row reduction of elementwise products.

    Raises:
        NotWritable: neither factor is a vector.
    """
    vectors = [axis for axis in ("n", "m") if product.lengths.get(axis, 1) == 1]
    axis = "n" if vectors[:1] == ["m"] else "m"
    if not vectors or axis not in product.lengths:
        raise NotWritable("no factor is a vector")
    row, bound = AxisText(f"offs_{axis}", "[:, None]", axis.upper()), axis.upper()
    batch = {"b": AxisText("pid_b")} if "b" in product.lengths else {}
    loop = TileBody(product.program, {**batch, axis: row, "k": AxisText("ks", "[None, :]", "K")})
    a, b = (loop.value(side.value, side.index) for side in (product.lhs, product.rhs))
    term = f"{a} * {b}"
    if not all(is_plain(product, side) for side in (product.lhs, product.rhs)):
        term = f"tl.where(ks[None, :] < K, {term}, 0.0)"
    body = TileBody(product.program, {**batch, axis: AxisText(row.name, "", bound)})
    epilogue(product, body, after(product))
    block = f"BLOCK_{bound}"
    lines = [
        "pid = tl.program_id(0)",
        *_batch_position(product, bound, block),
        wide(product, row.name, f"pid * {block} + tl.arange(0, {block})"),
        f"sums = tl.zeros(({block}, BLOCK_K), dtype=tl.float32)",
        "for k in range(0, K, BLOCK_K):",
        "    ks = k + tl.arange(0, BLOCK_K)",
        *(f"    {line}" for line in (*parts(loop.view), *loop.lines)),
        f"    sums += {term}",
        "acc = tl.sum(sums, axis=1)",
        *finish(body, product.program.outputs),
    ]
    tiles = {block: schedule.block_m, "BLOCK_K": schedule.block_k}
    made = kernel(
        plan(
            product, schedule, "looped", product.program.calls, "rows",
            tiles | {"num_warps": schedule.num_warps},
        ),
        lines,
        f"({'B * ' if batch else ''}triton.cdiv({bound}, {block}),)",
        product.sizes,
    )  # fmt: skip
    buffers = out_buffers(body, product.program.outputs)
    return assemble(product.program, product.sizes, buffers, [made], product.is_wide)


def _batch_position(product: Contraction, bound: str, block: str) -> list[str]:
    if "b" not in product.lengths:
        return []
    return [
        f"num_blocks = tl.cdiv({bound}, {block})",
        wide(product, "pid_b", "pid // num_blocks"),
        "pid = pid % num_blocks",
    ]
