# what: rows lie along the second axis of a tile, and the mask is multiplied
# task: affine_layer_norm

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x, weight, bias, y, rows, columns, eps, R: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    column = tl.arange(0, C)[:, None]
    place = row.to(tl.int64) * columns + column
    inside = (row < rows) & (column < columns)
    keep = (column < columns).to(tl.float32)
    values = tl.load(x + place, inside, 0.0)
    mean = tl.sum(values, 0) / columns
    centred = (values - mean) * keep
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    factor = tl.load(weight + column, column < columns, 0.0)
    offset = tl.load(bias + column, column < columns, 0.0)
    tl.store(y + place, centred * scale * factor + offset, inside)


def fused_operator(x, weight, bias):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    layer_norm_kernel[(triton.cdiv(rows, 2),)](
        x,
        weight.contiguous(),
        bias.contiguous(),
        y,
        rows,
        columns,
        1e-5,
        R=2,
        C=triton.next_power_of_2(columns),
    )
    return [y]
