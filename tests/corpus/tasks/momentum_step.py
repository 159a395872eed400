import torch


def get_inputs():
    return [torch.randn(300), torch.randn(300), torch.randn(300), 0.1, 0.9, True]


def fused_operator(parameter, gradient, momentum, rate, decay, nesterov):
    """A step of SGD, in place."""
    momentum.mul_(decay).add_(gradient)
    step = gradient + decay * momentum if nesterov else momentum
    parameter.sub_(rate * step)
    return [parameter, momentum]
