# what: block and warps worked out by triton.heuristics
# task: softmax

import torch
import triton
import triton.language as tl


@triton.heuristics(
    {
        "BLOCK": lambda args: triton.next_power_of_2(args["columns"]),
        "EVEN": lambda args: args["columns"] == triton.next_power_of_2(args["columns"]),
        "num_warps": lambda args: 8 if args["columns"] > 2048 else 4,
    }
)
@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if EVEN:
        values = tl.load(x + row * columns + i)
    else:
        values = tl.load(x + row * columns + i, i < columns, float("-inf"))
    powers = tl.exp(values - tl.max(values))
    tl.store(y + row * columns + i, powers / tl.sum(powers), i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    softmax_kernel[(x0.shape[0],)](x0, y, x0.shape[1])
    return [y]
