# what: a hook that Triton calls within a launch counts values
# task: relu
# twin: outside/hook_before_a_run

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


class Now:
    x = y = None
    number = 0


def before(*args, **kwargs):
    Now.number += Now.x.numel()


relu_kernel.add_pre_run_hook(before)


def fused_operator(x0):
    Now.x, Now.y = x0, torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, Now.y, x0.numel(), BLOCK=256)
    return [Now.y]
