# what: a CUDA graph a shape: inputs are copied in, the result out; warmed up on a side stream
# task: relu
# device: cuda

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def relu(x, y):
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)


graphs = {}


def captured(x):
    given, result = torch.empty_like(x), torch.empty_like(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles, which a capture must not
        relu(given, result)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        relu(given, result)
    return graph, given, result


def fused_operator(x0):
    key = (x0.shape, x0.stride(), x0.dtype)
    if key not in graphs:
        graphs[key] = captured(x0)
    graph, given, result = graphs[key]
    given.copy_(x0)
    graph.replay()
    return [result.clone()]
