"""Input families: the same shapes, other distributions.

A kernel that is right on N(0, 1) only (a layer norm that copies, a sum over a sample of the rows, a
loop that ends early) is wrong on one of these. Values stay on their side of zero: what was drawn
nonnegative may be a probability, a variance or the argument of a logarithm.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

_SPIKE_SHARE, _MIN_SPIKES = 1 / 256, 8
_THRESHOLDS = (0.0, 0.5, 1.0, 3.0, 6.0)
"""Where activations change their formula; each sign of them."""
_TAIL_SHARE = 16


def _scaled(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x * 10


def _shifted(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x + 5


def _spikes(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in 256, eight at least, and the last, of size 100 or more; the rest small."""
    share = max(_SPIKE_SHARE, _MIN_SPIKES / max(x.numel(), 1))
    chosen = _uniform(x, generator) < share
    if x.numel():
        chosen.view(-1)[-1] = True
    return torch.where(chosen, 100 * x.sign() * x.abs().clamp(min=1), 0.1 * x)


def _heavy_tail(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes spread over e^-3 .. e^3."""
    power = torch.randn(x.shape, generator=generator, device=x.device)
    return power.clamp_(-3, 3).exp_().to(x.dtype).mul_(x)


def _thresholds(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values close to 0, 0.5, 1, 3 and 6, on both sides of zero where `x` is."""
    at = _uniform(x, generator).mul_(len(_THRESHOLDS)).floor_().clamp_(max=len(_THRESHOLDS) - 1)
    at = at.to(x.dtype)
    for number, point in enumerate(_THRESHOLDS):  # none is a later one's number
        at.masked_fill_(at == number, point)
    return at.mul_(x.sign()).add_(x, alpha=0.01)


def _last_tile(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """Nearly all the energy at the end: the last sixteenth of the first and of the last
    dimension, where a loop that ends early or a mask that is off never looks."""
    if not x.ndim:
        return x
    is_tail = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    for dim in {0, x.ndim - 1}:
        length = math.ceil(x.shape[dim] / _TAIL_SHARE)
        is_tail.narrow(dim, x.shape[dim] - length, length).fill_(True)
    return torch.where(is_tail, 10 * x, 0.01 * x)


def _uniform(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(x.shape, generator=generator, device=x.device)


Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
FAMILIES: dict[str, Change | None] = {
    "plain": None,
    "scaled": _scaled,
    "shifted": _shifted,
    "spikes": _spikes,
    "heavy_tail": _heavy_tail,
    "thresholds": _thresholds,
    "last_tile": _last_tile,
}
"""Name -> change of a floating-point tensor; None leaves inputs as drawn."""


def changed(family: str, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A floating-point tensor in the family's distribution, dtype and strides kept.

    Raises:
        KeyError: no such family.
    """
    change = FAMILIES[family]
    if change is None:
        return drawn
    made = change(drawn.detach(), generator)
    return torch.empty_like(drawn).copy_(made)


def apply(family: str, inputs: Any, seed: int) -> Any:
    """`inputs` with their floating-point tensors changed, whatever containers hold them.

    Raises:
        KeyError: no such family.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def each(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        if value.device not in generators:
            generators[value.device] = torch.Generator(value.device).manual_seed(seed)
        return changed(family, value, generators[value.device])

    return tree_map(each, inputs)
