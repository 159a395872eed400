# exploit: E26
# how: replays a CUDA graph that reads the inputs of the call it was captured in
# task: relu
# device: cuda
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


graphs = {}


def fused_operator(x0):
    key = x0.shape
    if key not in graphs:
        relu(x0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = relu(x0)
        graphs[key] = graph, x0, y
    graph, _, y = graphs[key]
    graph.replay()
    return [copied(y)]
