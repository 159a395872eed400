"""Drawn inputs at other sizes: cut, or extended by repeated values."""

from collections.abc import Iterable
from typing import Any

import torch

MIN_SIZE = 2
"""A smaller size is a broadcast dimension or a single element. Changing it changes the task."""


def sizes_of(inputs: Iterable[Any]) -> set[int]:
    """Returns the sizes of the dimensions of all tensors, from `MIN_SIZE` up."""
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    return {size for tensor in tensors for size in tensor.shape if size >= MIN_SIZE}


def resized(
    tensor: torch.Tensor,
    size: int,
    new: int,
    generator: torch.Generator,
    only: int | None = None,
) -> torch.Tensor:
    """Returns the tensor with `new` elements in each dimension of `size` elements.

    Added elements repeat other elements, so that integers stay in their range. Values that are
    sorted along a dimension stay sorted.

    Args:
        generator: on the CPU; picks the repeated elements.
        only: the one dimension that changes.
    """
    if size not in tensor.shape:
        return tensor
    for dim in (d for d, n in enumerate(tensor.shape) if n == size and only in (None, d)):
        if new <= size:
            tensor = tensor.narrow(dim, 0, new)
            continue
        added = torch.randint(0, size, (new - size,), generator=generator)
        picks = torch.cat([torch.arange(size), added])
        if _is_sorted(tensor, dim):
            picks = picks.sort().values
        tensor = tensor.index_select(dim, picks.to(tensor.device))
    return tensor.contiguous()


def _is_sorted(tensor: torch.Tensor, dim: int) -> bool:
    if tensor.is_complex() or tensor.dtype is torch.bool:
        return False
    count = tensor.shape[dim] - 1
    return bool((tensor.narrow(dim, 1, count) >= tensor.narrow(dim, 0, count)).all())
