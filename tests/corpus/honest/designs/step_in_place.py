# what: updates two inputs and returns both, with a flag for the kind of step
# task: momentum_step

import torch
import triton
import triton.language as tl


@triton.jit
def step_kernel(
    parameter, gradient, momentum, n, rate, decay, NESTEROV: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slope = tl.load(gradient + i, i < n)
    speed = tl.load(momentum + i, i < n) * decay + slope
    tl.store(momentum + i, speed, i < n)
    step = slope + decay * speed if NESTEROV else speed
    tl.store(parameter + i, tl.load(parameter + i, i < n) - rate * step, i < n)


def fused_operator(parameter, gradient, momentum, rate, decay, nesterov):
    if not (parameter.is_contiguous() and momentum.is_contiguous()):
        raise ValueError("contiguous parameters are needed")
    if not parameter.shape == gradient.shape == momentum.shape:
        raise ValueError("inputs of one shape are needed")
    n = parameter.numel()
    step_kernel[(triton.cdiv(n, 128),)](
        parameter,
        gradient.contiguous(),
        momentum,
        n,
        rate,
        decay,
        NESTEROV=bool(nesterov),
        BLOCK=128,
    )
    return [parameter, momentum]
