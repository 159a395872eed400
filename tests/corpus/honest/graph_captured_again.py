# what: one graph alone, captured anew whenever shapes change; two kernels in it
# task: row_sum
# device: cuda

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x, partial, columns, HALF: tl.constexpr):
    row, half = tl.program_id(0), tl.program_id(1)
    i = half * HALF + tl.arange(0, HALF)
    tl.store(partial + row * 2 + half, tl.sum(tl.load(x + row * columns + i, i < columns, 0.0)))


@triton.jit
def finish_kernel(partial, y):
    row = tl.program_id(0)
    tl.store(y + row, tl.load(partial + row * 2) + tl.load(partial + row * 2 + 1))


class Captured:
    def __init__(self, x):
        self.shape = x.shape
        rows = x.shape[0]
        self.given = torch.empty_like(x)
        self.partial = x.new_empty((rows, 2))
        self.result = x.new_empty(rows)
        self.launch()  # compiles
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.launch()

    def launch(self):
        rows, columns = self.shape
        half = triton.next_power_of_2(triton.cdiv(columns, 2))
        partial_kernel[(rows, 2)](self.given, self.partial, columns, HALF=half)
        finish_kernel[(rows,)](self.partial, self.result)


current = None


def fused_operator(x0):
    global current
    if current is None or current.shape != x0.shape:
        current = Captured(x0)
    current.given.copy_(x0)
    current.graph.replay()
    return [current.result.clone()]
