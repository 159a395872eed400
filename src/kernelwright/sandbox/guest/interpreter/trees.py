"""Guest side: sums, and reductions and scans by a kernel's own function, in the interpreter.

Triton's interpreter goes through a block element by element, each as a tensor of its own: seconds a
block. Here neighbours are combined as whole arrays, in a tree as on a GPU; the order of operands
stays. Triton's interpreter also sums all axes but the last element by element, with a larger error
than a GPU's tree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

Arrays = list[np.ndarray[Any, Any]]


def install() -> None:
    """Patch the interpreter of this process."""
    reducing: Any = stock.ReduceOps
    scanning: Any = stock.ScanOps
    reducing.generic_reduce = _reduce
    reducing.sum = _sum
    scanning.generic_scan = _scan


def _reduce(self: Any, inputs: Sequence[Any]) -> list[Any]:
    rank = len(inputs[0].handle.data.shape)
    inputs, axis = self.unravel(inputs, self.axis)
    data = [arg.handle.data for arg in inputs]
    while data[0].shape[axis] > 1:  # a power of two, as every block is
        left = [_part(one, axis, slice(0, None, 2)) for one in data]
        right = [_part(one, axis, slice(1, None, 2)) for one in data]
        data = _combined(self, inputs, left, right)
    if self.axis is None:
        data = [one.reshape((1,) * rank) if self.keep_dims else one.item() for one in data]
    elif not self.keep_dims:
        data = [np.squeeze(one, axis) for one in data]
    return [self.to_tensor(one, arg.dtype) for one, arg in zip(data, inputs, strict=True)]


def _sum(self: Any, values: Any) -> Any:
    """NumPy adds pairwise along the last axis of contiguous memory alone, and small integers in a
    wider type. On a GPU, sums of integers wrap round in their type."""
    data, axis = values.handle.data, self.axis
    dtype = data.dtype if np.issubdtype(data.dtype, np.integer) else None
    if axis is None:
        total = np.sum(data, keepdims=self.keep_dims, dtype=dtype)
    else:
        last = np.ascontiguousarray(np.moveaxis(data, axis, -1))
        total = np.sum(last, axis=-1, dtype=dtype)
        total = np.expand_dims(total, axis) if self.keep_dims else total
    return self.to_tensor(total, values.dtype)


def _scan(self: Any, inputs: Sequence[Any]) -> list[Any]:
    axis, step = self.axis, 1
    data = [arg.handle.data for arg in inputs]
    while step < data[0].shape[axis]:
        earlier = [np.roll(one, step, axis) for one in data]
        both = _combined(self, inputs, earlier, data)
        for scanned, one in zip(both, data, strict=True):
            first = (slice(None),) * axis + (slice(0, step),)
            scanned[first] = one[first]
        data, step = both, step * 2
    return [self.to_tensor(one, arg.dtype) for one, arg in zip(data, inputs, strict=True)]


def _combined(self: Any, inputs: Sequence[Any], left: Arrays, right: Arrays) -> Arrays:
    """Returns the results of the kernel's function for two parts of every input."""
    sides = [
        self.to_tensor(one, arg.dtype)
        for side in (left, right)
        for one, arg in zip(side, inputs, strict=True)
    ]
    combined = self.combine_fn.fn(*sides)
    combined = combined if isinstance(combined, tuple) else (combined,)
    return [
        np.broadcast_to(one.handle.data, part.shape).astype(part.dtype)
        for one, part in zip(combined, left, strict=True)
    ]


def _part(data: np.ndarray[Any, Any], axis: int, taken: slice) -> np.ndarray[Any, Any]:
    return data[(slice(None),) * axis + (taken,)]
