# what: parts of a row leave mean and squared deviation in scratch, a second kernel merges them
# task: affine_layer_norm

import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(x, means, squares, columns, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i = part * BLOCK + tl.arange(0, BLOCK)
    inside = i < columns
    size = tl.minimum(columns - part * BLOCK, BLOCK)
    values = tl.load(x + row * columns + i, inside, 0.0)
    mean = tl.sum(values) / size
    centred = tl.where(inside, values - mean, 0.0)
    tl.store(means + row * parts + part, mean)
    tl.store(squares + row * parts + part, tl.sum(centred * centred))


@triton.jit
def merge_kernel(
    x, weight, bias, y, means, squares, columns, parts, eps, BLOCK: tl.constexpr, P: tl.constexpr
):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    p = tl.arange(0, P)
    sizes = tl.maximum(tl.minimum(columns - p * BLOCK, BLOCK), 0).to(tl.float32)
    local = tl.load(means + row * parts + p, p < parts, 0.0)
    mean = tl.sum(local * sizes) / columns
    shift = tl.where(p < parts, local - mean, 0.0)
    total = tl.sum(tl.load(squares + row * parts + p, p < parts, 0.0) + shift * shift * sizes)
    scale = 1 / tl.sqrt(total / columns + eps)
    i = part * BLOCK + tl.arange(0, BLOCK)
    inside = i < columns
    values = (tl.load(x + row * columns + i, inside) - mean) * scale
    result = values * tl.load(weight + i, inside) + tl.load(bias + i, inside)
    tl.store(y + row * columns + i, result, inside)


def fused_operator(x, weight, bias):
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    rows, columns = x.shape
    parts = triton.cdiv(columns, 32)
    y = torch.empty_like(x)
    means, squares = torch.empty((2, rows, parts), device=x.device).unbind(0)
    part_kernel[(rows, parts)](x, means, squares, columns, parts, BLOCK=32)
    merge_kernel[(rows, parts)](
        x,
        weight,
        bias,
        y,
        means,
        squares,
        columns,
        parts,
        1e-5,
        BLOCK=32,
        P=triton.next_power_of_2(parts),
    )
    return [y]
