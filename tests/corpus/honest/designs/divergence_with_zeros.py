# what: terms of probability zero count nothing, by a mask inside the logarithm
# task: distillation

import torch
import triton
import triton.language as tl


@triton.jit
def divergence_kernel(student, teacher, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    p = tl.load(teacher + row * columns + i, i < columns, 0.0)
    q = tl.load(student + row * columns + i, i < columns, 0.0)
    entropy = tl.where(p == 0, 0.0, p * tl.log(tl.where(p == 0, 1.0, p)))
    tl.store(y + row, tl.sum(entropy - p * q))


def fused_operator(student, teacher):
    rows, columns = student.shape
    y = torch.empty(rows, device=student.device)
    block = triton.next_power_of_2(columns)
    divergence_kernel[(rows,)](student.contiguous(), teacher.contiguous(), y, columns, BLOCK=block)
    return [y]
