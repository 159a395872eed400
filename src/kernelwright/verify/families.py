"""Input families: the same shapes, other distributions.

A kernel that is right on N(0, 1) only (a layer norm that copies, a sum over a sample of the rows)
is wrong on one of these. Values stay on their side of zero: what was drawn nonnegative may be a
probability, a variance or the argument of a logarithm.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map


def _scaled(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x * 10


def _shifted(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x + 5


def _spikes(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in 256, and the last, a hundred times larger; the rest small."""
    chosen = torch.rand(x.shape, generator=generator, device=x.device) < 1 / 256
    if x.numel():
        chosen.view(-1)[-1] = True
    return torch.where(chosen, 100 * x, 0.1 * x)


def _heavy_tail(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes spread over e^-4 .. e^4."""
    power = torch.randn(x.shape, generator=generator, device=x.device).clamp(-4, 4)
    return x * power.exp().to(x.dtype)


Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
FAMILIES: dict[str, Change | None] = {
    "plain": None,
    "scaled": _scaled,
    "shifted": _shifted,
    "spikes": _spikes,
    "heavy_tail": _heavy_tail,
}
"""Name -> change of a floating-point tensor; None leaves inputs as drawn."""


def apply(family: str, inputs: Any, seed: int) -> Any:
    """`inputs` with their floating-point tensors changed, dtypes and strides kept.

    Raises:
        KeyError: no such family.
    """
    change = FAMILIES[family]
    if change is None:
        return inputs
    generators: dict[torch.device, torch.Generator] = {}

    def changed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        if value.device not in generators:
            generators[value.device] = torch.Generator(value.device).manual_seed(seed)
        return torch.empty_like(value).copy_(change(value.detach(), generators[value.device]))

    return tree_map(changed, inputs)
