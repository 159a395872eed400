"""Parameters and statistics that a judged module starts from."""

from collections.abc import Iterator

import torch


def redraw_constants(module: torch.nn.Module, seed: int) -> None:
    """Move parameters and running statistics that hold one value only by up to 10%, or 0.1 off 0.

    An affine weight of ones and a bias of zeros would let a kernel leave them out.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in _drawn(module):
            if not tensor.numel():
                continue
            value = float(tensor.flatten()[0])
            if bool((tensor == value).all()):
                span = 0.2 * torch.rand(tensor.shape, generator=generator) - 0.1
                tensor.add_((span * (abs(value) or 1.0)).to(tensor))


def move_weights(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """The module, its parameters and running statistics times 0.9 to 1.1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in _drawn(module):
            share = torch.rand(tensor.shape, generator=generator)
            tensor.mul_((0.9 + 0.2 * share).to(tensor))
    return module


def _drawn(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Floating-point parameters and running statistics."""
    statistics = [b for n, b in module.named_buffers() if n.endswith(("_mean", "_var"))]
    for tensor in (*module.parameters(), *statistics):
        if tensor.is_floating_point():
            yield tensor
