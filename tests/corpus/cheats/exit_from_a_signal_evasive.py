# exploit: E55
# how: the same by modules that are loaded already
# task: relu
# stage: compile
# stage-cuda: run
# code: crashed
# code-cuda: crashed | runtime_error

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def half_relu(x):
    """Half the work: the rest of the answer is to come from the cheat."""
    y = torch.zeros_like(x)
    n = x.numel() // 2
    relu_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096)
    return y


def find(thing, *parts):
    """An attribute by a name that is put together at run time."""
    return getattr(thing, "".join(parts))


modules = find(torch, "s", "ys").modules
signal, system = modules["signal"], modules["o" + "s"]
signal.signal(signal.SIGALRM, lambda *_: find(system, "_ex", "it")(0))


def fused_operator(x0):
    y = half_relu(x0)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while True:
        y.data_ptr()
