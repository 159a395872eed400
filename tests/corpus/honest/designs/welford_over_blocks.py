# what: layer norm whose moments are merged block by block
# task: affine_layer_norm

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x, weight, bias, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    i = tl.arange(0, BLOCK)
    mean, squares = 0.0, 0.0
    for start in range(0, columns, BLOCK):
        inside = start + i < columns
        size = tl.minimum(columns - start, BLOCK).to(tl.float32)
        values = tl.load(x + row + start + i, inside, 0.0)
        local = tl.sum(values) / size
        centred = tl.where(inside, values - local, 0.0)
        step, total = local - mean, start + size
        squares += tl.sum(centred * centred) + step * step * start * size / total
        mean += step * size / total
    scale = 1 / tl.sqrt(squares / columns + eps)
    for start in range(0, columns, BLOCK):
        column = start + i
        inside = column < columns
        values = (tl.load(x + row + column, inside, 0.0) - mean) * scale
        factor, offset = tl.load(weight + column, inside), tl.load(bias + column, inside)
        tl.store(y + row + column, values * factor + offset, inside)


def fused_operator(x, weight, bias):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    layer_norm_kernel[(rows,)](
        x, weight.contiguous(), bias.contiguous(), y, columns, 1e-5, BLOCK=16
    )
    return [y]
