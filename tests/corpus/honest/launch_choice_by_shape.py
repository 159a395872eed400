# what: keeps block and warps by shape, and nothing of the values
# task: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, rows, columns, BR: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    i = tl.arange(0, BLOCK)
    inside = (r < rows) & (i < columns)
    values = tl.load(x + r * columns + i, inside, float("-inf"))
    values = tl.where(r < rows, values, 0.0)
    powers = tl.exp(values - tl.max(values, axis=1)[:, None])
    tl.store(y + r * columns + i, powers / tl.sum(powers, axis=1)[:, None], inside)


choices = {}


def choice(shape):
    if shape not in choices:
        block = triton.next_power_of_2(shape[1])
        choices[shape] = {
            "BR": max(1, min(8, 2048 // block)),
            "BLOCK": block,
            "num_warps": 8 if block > 1024 else 4,
        }
    return choices[shape]


def fused_operator(x0):
    y = torch.empty_like(x0)
    made = choice(tuple(x0.shape))
    grid = (triton.cdiv(x0.shape[0], made["BR"]),)
    softmax_kernel[grid](x0, y, *x0.shape, **made)
    return [y]
