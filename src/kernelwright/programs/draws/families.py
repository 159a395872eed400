"""Input families: the same shapes, other distributions.

A kernel can be correct for N(0, 1) only: a layer norm that copies, a sum over a sample of the rows,
a loop that ends early, an exponential that overflows. Such a kernel is wrong in one of the
families. Properties that inputs have by construction stay (`programs.draws.structure`).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from kernelwright.programs.draws.structure import Structure

_SPIKE_SHARE, _MIN_SPIKES = 1 / 256, 8
_THRESHOLDS = (0.0, 0.5, 1.0, 3.0, 6.0)
"""Activations change their formula at these values; each sign of them."""
_TAIL_SHARE = 16
_ZERO_SHARE = 1 / 8
_FINE_SHARE = 1 / 4
_SPECIAL_SHARE = 1 / 64
_SPECIAL = (torch.inf, -torch.inf, torch.nan)
_TINY, _TINY_HALF = 1e-6, 1e-3
"""Factors of small inputs; float16 holds no smaller numbers with all their digits."""
_LARGE, _LARGE_HALF = 1e5, 300.0
"""Factors of large inputs; the largest number of float16 is 65,504."""
_EXTREME_SHARE = 0.25
"""The largest element of `extreme`, as a share of the type's largest number."""


def _scaled(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x * 10


def _shifted(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x + 5


def _far(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """A mean that is large against the spread, as far as the type has digits for both."""
    return x + {torch.float16: 50, torch.bfloat16: 20}.get(x.dtype, 1000)


def _spikes(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in 256, eight at least, and the last, of size 100 or more; the rest small."""
    share = max(_SPIKE_SHARE, _MIN_SPIKES / max(x.numel(), 1))
    chosen = _uniform(x, generator) < share
    if x.numel():
        chosen[(-1,) * x.ndim] = True
    return torch.where(chosen, 100 * x.sign() * x.abs().clamp(min=1), 0.1 * x)


def _heavy_tail(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Magnitudes spread over e^-3 .. e^3."""
    power = torch.randn(x.shape, generator=generator, device=x.device)
    return power.clamp_(-3, 3).exp_().to(x.dtype).mul_(x)


def _thresholds(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Values close to 0, 0.5, 1, 3 and 6, on both sides of zero where `x` is."""
    at = _uniform(x, generator).mul_(len(_THRESHOLDS)).floor_().clamp_(max=len(_THRESHOLDS) - 1)
    at = at.to(x.dtype)
    for number, point in enumerate(_THRESHOLDS):  # no point is a later point's number
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


def _negated(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return -x


def _rounded(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Multiples of 0.5, and one element in four a multiple of 1/32: exact zeros, exact thresholds,
    exact halves of finer steps, and many equal values."""
    is_fine = _uniform(x, generator) < _FINE_SHARE
    return torch.where(is_fine, (32 * x).round_().mul_(1 / 32), (2 * x).round_().mul_(0.5))


def _flat_rows(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros here and there, every fifth column zero, every fourth row zero, the row after it
    constant; of several samples the first is zero and the second constant.

    Constants are powers of two: their means are exact, whatever the order of a sum.
    """
    y = torch.where(_uniform(x, generator) < _ZERO_SHARE, 0.0, x).to(x.dtype)
    if x.ndim and x.shape[-1] >= 5:
        y[..., ::5] = 0
    if x.ndim >= 2 and x.numel():
        rows = y.reshape(-1, x.shape[-1])
        rows[::4] = 0
        rows[1::4] = 0.5
        y = rows.view(x.shape)
    if x.ndim >= 3 and x.shape[0] > 2:
        y[0], y[1] = 0, 2
    return y


def _tiny(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x * (_TINY_HALF if x.dtype is torch.float16 else _TINY)


def _large(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    return x * (_LARGE_HALF if x.dtype is torch.float16 else _LARGE)


def _extreme(x: torch.Tensor, _: torch.Generator) -> torch.Tensor:
    """The largest element is a quarter of the type's largest number."""
    if not x.numel():
        return x
    largest = float(x.abs().amax()) or 1.0
    return (x / largest).mul_(_EXTREME_SHARE * torch.finfo(x.dtype).max)


def _special(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One element in 64 is infinite or NaN, one of each at least, and the last is infinite."""
    dice, y = _uniform(x, generator).mul_(3 / _SPECIAL_SHARE), x.clone()
    for number, value in enumerate(_SPECIAL):
        y.masked_fill_((dice >= number) & (dice < number + 1), value)
    places = dice.flatten().topk(min(len(_SPECIAL), x.numel()), largest=False).indices
    y.put_(places, y.new_tensor(_SPECIAL)[: len(places)])
    if x.numel():
        y[(-1,) * x.ndim] = torch.inf
    return y


def _uniform(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(x.shape, generator=generator, device=x.device)


Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
FAMILIES: dict[str, Change | None] = {
    "plain": None,
    "scaled": _scaled,
    "shifted": _shifted,
    "far": _far,
    "spikes": _spikes,
    "heavy_tail": _heavy_tail,
    "thresholds": _thresholds,
    "last_tile": _last_tile,
    "negated": _negated,
    "rounded": _rounded,
    "flat_rows": _flat_rows,
    "tiny": _tiny,
    "large": _large,
    "extreme": _extreme,
    "special": _special,
}
"""Name -> change of a floating-point tensor; None leaves inputs as drawn."""

BEYOND_DOMAINS = frozenset({"negated", "rounded", "flat_rows", "tiny", "large"})
"""Families that may leave the domain that a draw states, such as positive numbers."""


def changed(family: str, drawn: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A floating-point tensor in the family's distribution, dtype and strides kept.

    Raises:
        KeyError: no such family.
    """
    change = FAMILIES[family]
    if change is None:
        return drawn
    if drawn.is_complex() and family in ("extreme", "special"):
        return drawn  # the size of such a number overflows, or is no number
    if drawn.is_complex():
        parts = torch.view_as_real(drawn.detach().resolve_conj())
        other = torch.view_as_complex(change(parts, generator).contiguous())
        return torch.empty_like(drawn).copy_(other)
    other = change(drawn.detach(), generator)
    is_alike = other.stride() == drawn.stride() and other.dtype is drawn.dtype
    return other if is_alike else torch.empty_like(drawn).copy_(other)


def apply(family: str, inputs: Any, seed: int, structures: Sequence[Structure | None] = ()) -> Any:
    """`inputs` with all floating-point tensors changed to a family, in any nested containers.

    Args:
        structures: for each leaf of `inputs`, in order, the properties that must stay. Empty: no
            property must stay.

    Raises:
        KeyError: no such family.
    """
    generators: dict[torch.device, torch.Generator] = {}
    leaves, containers = tree_flatten(inputs)

    def moved(value: Any, structure: Structure | None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not (value.is_floating_point() or value.is_complex()):
            return value
        if value.device not in generators:
            generators[value.device] = torch.Generator(value.device).manual_seed(seed)
        if structure is not None and structure.is_fixed:
            return value
        other = changed(family, value, generators[value.device])
        return other if structure is None else structure.restored(other)

    known = [*structures] or [None] * len(leaves)
    return tree_unflatten([moved(*pair) for pair in zip(leaves, known, strict=True)], containers)
