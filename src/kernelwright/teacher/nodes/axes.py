"""Iteration axes: what the dimensions of a program's values have in common.

A dimension of a value is a row of axes, major first: (N, C, H, W) starts as four axes; a view as
(N, 8, C / 8, H, W) splits C in two; a flattened value has one dimension of four axes. A dimension
of size 1 has none. Values that meet in one operator share axes, so a kernel that walks the axes
finds the element of every value, and shape operators cost nothing.
"""

from collections.abc import Iterable, Sequence

from kernelwright.teacher.text.expressions import NotWritable

Dims = tuple[tuple[int, ...], ...]
"""Axes of each dimension of a value."""


class AxisTable:
    """Axes by number. When values meet, equal axes are united and a coarse axis is split.

    An axis that was united or split keeps its number; `resolve` gives the axes in its place.
    """

    def __init__(self) -> None:
        """A table without axes."""
        self._sizes: list[int] = []
        self._parts: dict[int, tuple[int, ...]] = {}

    def new(self, size: int) -> tuple[int, ...]:
        """Axes of a fresh dimension: one, or none where the size is 1."""
        if size == 1:
            return ()
        self._sizes.append(size)
        return (len(self._sizes) - 1,)

    def size(self, axis: int) -> int:
        """Number of positions along an axis in the program at hand."""
        return self._sizes[axis]

    def resolve(self, axes: Iterable[int]) -> tuple[int, ...]:
        """The axes that stand for these axes after all splits and unions so far."""
        resolved: list[int] = []
        for axis in axes:
            resolved += self.resolve(self._parts[axis]) if axis in self._parts else (axis,)
        return tuple(resolved)

    def unite(self, a: Sequence[int], b: Sequence[int]) -> None:
        """Make two dimensions of equal size the same axes, split where one is coarser.

        Raises:
            NotWritable: the two dimensions have no common splitting.
        """
        # Both are in row-major order, so the innermost axes have to agree first.
        left, right = list(self.resolve(a)), list(self.resolve(b))
        while left and right:
            x, y = left.pop(), right.pop()
            if x == y:
                continue
            if self.size(x) == self.size(y):
                self._parts[max(x, y)] = (min(x, y),)
            elif self.size(x) % self.size(y) == 0:
                left += self._split_off(x, y)
            elif self.size(y) % self.size(x) == 0:
                right += self._split_off(y, x)
            else:
                raise NotWritable("dimensions that meet are split differently")
            # A split or a union may also change axes that are left on either side.
            left, right = list(self.resolve(left)), list(self.resolve(right))

    def _split_off(self, axis: int, inner: int) -> tuple[int, ...]:
        """Splits `axis` into a new outer axis and the axis `inner`; returns the outer one."""
        outer = self.new(self.size(axis) // self.size(inner))
        self._parts[axis] = (*outer, inner)
        return outer

    def regroup(self, dims: Dims, shape: Sequence[int]) -> Dims:
        """Axes of a view that has another shape and the same order of elements.

        Args:
            dims: axes of the dimensions of the source.
            shape: shape of the view.

        Raises:
            NotWritable: a dimension of the view holds a part of an axis that divides neither.
        """
        flat = [axis for dim in dims for axis in self.resolve(dim)]
        regrouped: list[tuple[int, ...]] = []
        for size in reversed(shape):
            dim: list[int] = []
            while size > 1:
                axis = flat.pop()
                if size % self.size(axis) == 0:
                    dim.insert(0, axis)
                    size //= self.size(axis)
                elif self.size(axis) % size == 0:
                    [inner] = self.new(size)
                    flat += self._split_off(axis, inner)
                    dim.insert(0, inner)
                    size = 1
                else:
                    raise NotWritable("a view mixes dimensions")
            regrouped.insert(0, tuple(dim))
        return tuple(regrouped)

    def broadcast(self, operands: Sequence[Dims]) -> Dims:
        """Axes of the result of a right-aligned broadcast; dimensions that meet are united.

        Raises:
            NotWritable: two dimensions that meet have no common splitting.
        """
        rank = max(len(dims) for dims in operands)
        aligned = [((),) * (rank - len(dims)) + dims for dims in operands]
        broadcast_dims: list[tuple[int, ...]] = []
        for column in zip(*aligned, strict=True):
            wide = [dim for dim in column if dim]
            for dim in wide[1:]:
                self.unite(wide[0], dim)
            broadcast_dims.append(wide[0] if wide else ())
        return tuple(broadcast_dims)
