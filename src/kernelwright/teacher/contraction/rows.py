"""A product with a vector as a row reduction, with what is fused around it."""

from dataclasses import replace

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.contraction.contraction import Contraction
from kernelwright.teacher.contraction.factor import is_plain
from kernelwright.teacher.contraction.parts import ProductSchedule
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.index import AxisText
from kernelwright.teacher.tile.program import finish, out_buffers


def rows(product: Contraction, schedule: ProductSchedule) -> Candidate:
    """One kernel for a product with a vector: each row is a sum of elementwise products.

    Raises:
        NotWritable: neither factor is a vector.
    """
    # If both factors are vectors, "n" counts as the vector and the rows walk "m".
    vectors = [axis for axis in ("n", "m") if product.lengths.get(axis, 1) == 1]
    # Rows of the tile walk the matrix's own axis, so every element of the matrix is read once.
    axis = "n" if vectors[:1] == ["m"] else "m"
    if not vectors or axis not in product.lengths:
        raise NotWritable("no factor is a vector")
    row, bound = AxisText(f"offs_{axis}", "[:, None]", axis.upper()), axis.upper()
    batch = {"b": AxisText("pid_b")} if "b" in product.lengths else {}
    loop = product.body({**batch, axis: row, "k": AxisText("ks", "[None, :]", "K")})
    a, b = (loop.value(side.value, side.index) for side in (product.lhs, product.rhs))
    term = f"{a} * {b}"
    # Loads are zero beyond K. Calls that are fused in front may turn these zeros into others.
    if not all(is_plain(product, side) for side in (product.lhs, product.rhs)):
        term = f"tl.where(ks[None, :] < K, {term}, 0.0)"
    # After the sum over lanes a row has one value, so the epilogue's tile is a vector.
    body = product.body({**batch, axis: AxisText(row.name, "", bound)})
    product.epilogue(body, product.after())
    # Each lane keeps a sum of its own: the program adds up lanes once, not once a step.
    block = f"BLOCK_{bound}"
    lines = [
        "pid = tl.program_id(0)",
        *_batch_position(product, bound, block),
        product.wide(row.name, f"pid * {block} + tl.arange(0, {block})"),
        f"sums = tl.zeros(({block}, BLOCK_K), dtype=tl.float32)",
        "for k in range(0, K, BLOCK_K):",
        "    ks = k + tl.arange(0, BLOCK_K)",
        *(f"    {line}" for line in (*loop.slices(), *loop.lines)),
        f"    sums += {term}",
        "acc = tl.sum(sums, axis=1)",
        *finish(body, product.program.outputs),
    ]
    # The plan leaves out BLOCK_N and stages, because this kernel has neither.
    tiles = {block: schedule.block_m, "BLOCK_K": schedule.block_k}
    choice = replace(schedule.choice, tiles=tiles | {"num_warps": schedule.num_warps})
    grid = f"({'B * ' if batch else ''}triton.cdiv({bound}, {block}),)"
    calls = product.program.calls
    row_kernel = product.kernel(
        choice, "looped", calls, lines, grid, suffix="rows", computed=product.constants
    )
    return product.assembled([row_kernel], out_buffers(body, product.program.outputs))


def _batch_position(product: Contraction, bound: str, block: str) -> list[str]:
    if "b" not in product.lengths:
        return []
    return [
        f"num_blocks = tl.cdiv({bound}, {block})",
        product.wide("pid_b", "pid // num_blocks"),
        "pid = pid % num_blocks",
    ]
