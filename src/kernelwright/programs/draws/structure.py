"""Properties that inputs have by construction. A comparison of two draws shows them.

Examples are a triangular matrix, sorted positions, probabilities and a permutation. A reference and
a kernel may rely on such properties, so a changed input keeps them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_SUM_TOLERANCE = 1e-2
"""A row that sums to one may differ from one by this much, in 16-bit types too."""
_MIN_SORTED, _MIN_ROW = 4, 2
"""The fewest sorted values, and the fewest values of a row, that cannot be chance."""
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """The properties that two draws of one tensor share."""

    is_fixed: bool = False
    """The tensor holds zeros and ones alone, or has infinite elements: a mask or a choice. Or the
    integers of each row are a permutation."""
    is_lower: bool = False
    """The last two dimensions are a lower triangle: all else is zero."""
    is_upper: bool = False
    zeros: torch.Tensor | None = None
    """Where both draws are zero; None where that is nowhere."""
    is_sorted: bool = False
    """Values ascend along the last dimension."""
    ends: tuple[int, int] | None = None
    """First and last value of sorted integers that are the same in both draws, such as offsets."""
    is_symmetric: bool = False
    """The last two dimensions are a symmetric matrix."""
    has_unit_sums: bool = False
    """No value is negative, and values sum to 1 along the last dimension."""

    @property
    def kinds(self) -> "Structure":
        """The properties that tensors of other sizes can share."""
        return replace(self, zeros=None, ends=None)

    def restored(self, changed: torch.Tensor) -> torch.Tensor:
        """The changed tensor with these properties, in its own memory layout.

        A tensor with `is_fixed` must not be changed.
        """
        value = changed
        if self.is_symmetric:
            value = torch.triu(value) + torch.triu(value, 1).mT
        if self.zeros is not None:
            value = value.masked_fill(self.zeros, 0)
        if self.has_unit_sums:
            value = value.nan_to_num().abs()
            total = value.double().sum(-1, keepdim=True)
            even = torch.full_like(value, 1 / value.shape[-1])
            value = torch.where(total > 0, (value / total).to(value.dtype), even)
        if self.is_sorted:
            value = value.sort(dim=-1).values
        if self.ends is not None:
            value = value.clamp(*self.ends)
            value[..., 0], value[..., -1] = self.ends
        return changed if value is changed else torch.empty_like(changed).copy_(value)

    def resized(self, value: torch.Tensor, size: int, new: int) -> torch.Tensor:
        """A tensor whose dimensions of `size` elements have become `new` elements, with those of
        the properties that a repeated or missing row destroys."""
        if self.is_lower:
            value = value.tril()
        if self.is_upper:
            value = value.triu()
        if self.is_symmetric:
            value = torch.triu(value) + torch.triu(value, 1).mT
        if self.ends is not None and self.ends[1] == size:  # offsets into such a dimension
            value = value.clamp(max=new)
            value[..., -1] = new
        return value


def structures(first: Any, second: Any) -> list[Structure | None]:
    """The structure of each leaf of two draws of the same inputs. None for leaves that are no
    tensors of real numbers, and where the draws have nothing in common."""
    pairs = zip(tree_leaves(first), tree_leaves(second), strict=True)
    return [_structure(one, other) for one, other in pairs]


def are_kept(
    before: Iterable[Structure | None], first: list[Any], second: list[Any], size: int
) -> bool:
    """Whether inputs keep their properties after dimensions of `size` elements were resized.

    A pattern of zeros cannot be carried to another size, unless the pattern is a triangle.
    """
    for old, one, other in zip(before, first, second, strict=True):
        now = _structure(one, other)
        if old is None:
            continue
        if now is None or now.kinds != old.kinds:
            return False
        is_pattern = old.zeros is not None and not (old.is_lower or old.is_upper)
        if is_pattern and old.zeros is not None and size in old.zeros.shape:
            return False
    return True


def _structure(one: Any, other: Any) -> Structure | None:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None
    if one.shape != other.shape or not one.numel():
        return None
    pair = (one, other)
    if one.dtype in _INTEGERS:
        structure = _structure_of_integers(pair)
    elif one.is_floating_point():
        structure = _structure_of_floats(pair)
    else:
        return None
    return None if structure == Structure() else structure


def _structure_of_integers(pair: tuple[torch.Tensor, torch.Tensor]) -> Structure:
    has_unit_sums = all(_is_choice(x) and _has_unit_sums(x) for x in pair)
    if has_unit_sums or all(_is_permutation(x) for x in pair):
        return Structure(is_fixed=True, has_unit_sums=has_unit_sums)
    is_sorted = all(_is_sorted(x) for x in pair)
    ends = {(int(x.flatten()[0]), int(x.flatten()[-1])) for x in pair} if is_sorted else set()
    is_one_row = pair[0].ndim == 1
    return Structure(
        is_lower=all(_is_triangle(x, 1) for x in pair),
        is_upper=all(_is_triangle(x, -1) for x in pair),
        is_sorted=is_sorted,
        ends=ends.pop() if len(ends) == 1 and is_one_row else None,
        is_symmetric=all(_is_symmetric(x) for x in pair),
    )


def _structure_of_floats(pair: tuple[torch.Tensor, torch.Tensor]) -> Structure:
    one, other = pair
    has_unit_sums = all(_has_unit_sums(x) for x in pair)
    if all(_is_choice(x) for x in pair) or not bool(one.isfinite().all()):
        return Structure(is_fixed=True, has_unit_sums=has_unit_sums)
    zeros = (one == 0) & (other == 0)
    return Structure(
        is_lower=all(_is_triangle(x, 1) for x in pair),
        is_upper=all(_is_triangle(x, -1) for x in pair),
        zeros=zeros if bool(zeros.any()) else None,
        is_sorted=all(_is_sorted(x) for x in pair),
        is_symmetric=all(_is_symmetric(x) for x in pair),
        has_unit_sums=has_unit_sums,
    )


def _is_choice(x: torch.Tensor) -> bool:
    return bool(((x == 0) | (x == 1)).all()) and bool((x == 0).any())


def _is_permutation(x: torch.Tensor) -> bool:
    """Each row holds the integers from 0, or from 1, once."""
    if not x.ndim or x.shape[-1] < _MIN_SORTED:
        return False
    rows = x.sort(dim=-1).values
    positions = torch.arange(x.shape[-1], device=x.device)
    return any(bool((rows == positions + begin).all()) for begin in (0, 1))


def _is_sorted(x: torch.Tensor) -> bool:
    if not x.ndim or x.shape[-1] < _MIN_SORTED:
        return False
    return bool((x[..., 1:] >= x[..., :-1]).all()) and bool((x[..., -1] > x[..., 0]).all())


def _is_triangle(x: torch.Tensor, side: int) -> bool:
    """Zeros above the diagonal (`side` 1) or below it (-1), and not on the other side too."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < _MIN_ROW:
        return False
    zeros, others = (x.triu(1), x.tril(-1)) if side > 0 else (x.tril(-1), x.triu(1))
    return not bool(zeros.any()) and bool(others.any())


def _is_symmetric(x: torch.Tensor) -> bool:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < _MIN_ROW:
        return False
    return torch.equal(x, x.mT) and not torch.equal(x, torch.diag_embed(x.diagonal(0, -2, -1)))


def _has_unit_sums(x: torch.Tensor) -> bool:
    if not x.ndim or x.shape[-1] < _MIN_ROW or bool((x < 0).any()):
        return False
    return bool(((x.double().sum(-1) - 1).abs() <= _SUM_TOLERANCE).all())
