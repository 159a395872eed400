"""Inputs that have much in common with other inputs.

A candidate that remembers results needs a key for its inputs. A key that leaves something out takes
two of these for the same inputs, and the result that it remembers is stale.
"""

import math
import random
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.draws.structure import Structure, structures

LARGE = 1 << 22
"""The most numbers that are drawn on the CPU, where a seed gives the same numbers for every device.
More are drawn on the tensor's own device: for a gigabyte the CPU takes half a minute."""
PART = 256
"""One value in so many comes from other inputs, where a part of them changes."""


def permuted(value: Any, seed: int) -> Any:
    """Returns a copy with the same values in another order, in the same memory layout. A large
    tensor is permuted along each dimension. Values that are no tensors stay."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    if value.numel() > LARGE:  # an order of all elements would take twice the memory of the values
        reordered = value
        for dim, size in enumerate(value.shape):
            order = _order(size, derive(seed, "permuted", dim), value.device)
            reordered = reordered.index_select(dim, order)
        keeps_layout = reordered.stride() == value.stride()
        return reordered if keeps_layout else torch.empty_like(value).copy_(reordered)
    order = _order(value.numel(), seed, value.device)
    return torch.empty_like(value).copy_(value.reshape(-1)[order].view(value.shape))


def permuted_along(value: Any, seed: int, dim: int) -> Any:
    """Returns a copy in another order along one dimension: sums along that dimension stay."""
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return value
    order = _order(value.shape[dim], seed, value.device)
    return torch.empty_like(value).copy_(value.index_select(dim, order))


def _order(size: int, seed: int, device: torch.device) -> torch.Tensor:
    """Returns the positions 0 to size - 1 in another order, on the device."""
    drawn_on = device if size > LARGE else torch.device("cpu")
    generator = torch.Generator(drawn_on).manual_seed(seed)
    return torch.randperm(size, generator=generator, device=drawn_on).to(device)


def with_column_of(value: Any, other: Any, column: int) -> Any:
    """Returns a copy with one column of another tensor: one value in each row changes. Only tensors
    of floats with equal shapes change."""
    if not isinstance(value, torch.Tensor) or not value.ndim or value.shape != other.shape:
        return value
    if not value.is_floating_point() or not value.numel():
        return value
    mixed = torch.empty_like(value).copy_(value)
    mixed[..., column] = other[..., column]
    return mixed


def swapped(inputs: list[Any]) -> list[Any] | None:
    """Returns the inputs with two like tensors exchanged; None if there are no two."""
    pair = _two_alike(inputs)
    if pair is None:
        return None
    i, j = pair
    exchanged = list(inputs)
    exchanged[i], exchanged[j] = inputs[j], inputs[i]
    return exchanged


def with_one_for_two(inputs: list[Any]) -> list[Any]:
    """Returns the inputs with one tensor in the place of two like tensors.

    Raises:
        UsageError: there are no two.
    """
    pair = _two_alike(inputs)
    if pair is None:
        raise UsageError("no two inputs can be one tensor")
    i, j = pair
    return [inputs[i] if place == j else value for place, value in enumerate(inputs)]


def _two_alike(inputs: list[Any]) -> tuple[int, int] | None:
    """Returns the places of two tensors that have one shape, type, strides and kind of values."""
    tensors = [(i, value) for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    for number, (i, left) in enumerate(tensors):
        for j, right in tensors[number + 1 :]:
            forms = [(x.shape, x.dtype, x.stride()) for x in (left, right)]
            # Exchanged labels and probabilities would leave the domain of the reference.
            if forms[0] == forms[1] and _kind_of(left) == _kind_of(right):
                return i, j
    return None


def _kind_of(value: torch.Tensor) -> tuple[object, ...]:
    """Returns the property of a tensor that a reference may rely on: two labels, the range of
    integers, signs, probabilities."""
    if not value.numel() or value.is_complex():
        return ()
    distinct = torch.unique(value)
    if distinct.numel() <= 2 < value.numel():
        return tuple(distinct.tolist())
    low, high = float(value.min()), float(value.max())
    if not value.is_floating_point():
        return low, high
    return low < 0, low >= 0 and high <= 1


def with_parts_of(inputs: list[Any], others: list[Any], seed: int) -> list[Any]:
    """Returns the inputs with a few values of another draw. Structures that both draws share
    stay."""

    def mixed(value: Any, other: Any, structure: Structure | None) -> Any:
        if structure is None:
            return with_part_of(value, other, seed)
        # A fixed structure allows no other value; any other structure is restored after the change.
        return value if structure.is_fixed else structure.restored(with_part_of(value, other, seed))

    kept = structures(inputs, others)
    return [mixed(*triple) for triple in zip(inputs, others, kept, strict=True)]


def with_part_of(value: Any, other: Any, seed: int) -> Any:
    """Returns a copy in which a run of 1 value in `PART` comes from another tensor. The first and
    the last value stay if there are others, because a cheat may know its inputs by these."""
    if not isinstance(value, torch.Tensor) or not value.numel() or value.shape != other.shape:
        return value
    length = math.ceil(value.numel() / PART)
    margin = int(value.numel() >= length + 2)
    begin = random.Random(seed).randrange(margin, value.numel() - length + 1 - margin)
    at = torch.arange(begin, begin + length, device=value.device)
    mixed = torch.empty_like(value).copy_(value)
    return mixed.put_(at, other.take(at))
