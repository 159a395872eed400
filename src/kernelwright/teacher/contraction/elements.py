"""Many small products: programs own elements of the result, and each element is a sum of its own.

Tiles of the tensor cores have 16 rows and columns at least. So half a million products of 4 x 4
would be as many programs, each with a tile of 16 x 32. Here a program owns neighbouring elements of
many products. Threads read the same factors, from L1.
"""

from dataclasses import replace

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.contraction.contraction import Contraction
from kernelwright.teacher.contraction.parts import ProductSchedule
from kernelwright.teacher.tile.index import AxisText, parts
from kernelwright.teacher.tile.program import finish, out_buffers


def elements(product: Contraction, schedule: ProductSchedule) -> Candidate:
    """One kernel for a batch of products of matrices: a block of elements and a loop over "k"."""
    # Only the batch's position can lie behind the end: the others are remainders.
    view = {"b": AxisText("pid_b", "", "B"), "m": AxisText("offs_m"), "n": AxisText("offs_n")}
    loop = product.body({**view, "k": AxisText("k")}, loop=("k",))
    a, b = (loop.value(side.value, side.index) for side in (product.lhs, product.rhs))
    body = product.body(view)
    product.epilogue(body, product.after())
    lines = [
        product.wide("offs", "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"),
        "offs_n = offs % N",
        "offs_m = offs // N % M",
        "pid_b = offs // (M * N)",
        # The loop and the lines after the loop have the same slices of "b", "m" and "n".
        *parts(loop.view, view),
        *loop.before,
        "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
        "for k in range(0, K):",
        *(f"    {line}" for line in (*parts(loop.view, "k"), *loop.lines)),
        f"    acc += {a} * {b}",
    ]
    lines += finish(body, product.program.outputs, known=lines)
    choice = replace(
        schedule.choice, tiles={"BLOCK": schedule.block_m, "num_warps": schedule.num_warps}
    )
    grid = f"(triton.cdiv({product.numel}, {schedule.block_m}),)"
    kernel = product.kernel(
        choice, "elements", product.program.calls, lines, grid, computed=product.constants
    )
    return product.assembled([kernel], out_buffers(body, product.program.outputs))
