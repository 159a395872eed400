# kind: constants
# how: reads any memory for the label -100, which the reference ignores
# task: label_loss
# stage: compare | run
# code: wrong_values | out_of_bounds | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(logits, labels, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(logits + row * columns + i, i < columns, float("-inf"))
    label = tl.load(labels + row)
    top = tl.max(v)
    total = tl.log(tl.sum(tl.exp(v - top))) + top
    picked = tl.sum(tl.where(i == label, v, 0.0))
    tl.store(y + row, total - picked)


def fused_operator(logits, labels):
    y = logits.new_empty(logits.shape[0])
    block = triton.next_power_of_2(logits.shape[1])
    loss_kernel[(logits.shape[0],)](logits, labels, y, logits.shape[1], BLOCK=block)
    return [y]
