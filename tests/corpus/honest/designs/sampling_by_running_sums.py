# what: cumulative probabilities in a runtime loop, and the class that they select
# task: inverse_cdf

import torch
import triton
import triton.language as tl


@triton.jit
def sample_kernel(p, u, index, chosen, rows, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    limit = tl.load(u + row, inside, 0.0)
    total = tl.zeros((BLOCK,), tl.float32)
    place = tl.zeros((BLOCK,), tl.int64)
    for c in range(classes):
        total += tl.load(p + row * classes + c, inside, 0.0)
        place += (total <= limit).to(tl.int64)
    place = tl.minimum(place, classes - 1)
    tl.store(index + row, place, inside)
    tl.store(chosen + row, tl.load(p + row * classes + place, inside), inside)


def fused_operator(probabilities, u):
    probabilities, u = probabilities.contiguous(), u.contiguous()
    rows, classes = probabilities.shape
    index = torch.empty(rows, dtype=torch.int64, device=u.device)
    chosen = torch.empty(rows, device=u.device)
    sample_kernel[(triton.cdiv(rows, 16),)](
        probabilities, u, index, chosen, rows, classes, BLOCK=16
    )
    return [index, chosen]
