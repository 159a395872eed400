"""Building blocks of rules for sliding windows: sizes, layouts, one spelling of attributes."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.ops.rules import require

Sizes = tuple[int, ...]
"""One number for each spatial dimension."""
Canonical = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""The type of `Operator.canonical`."""


def spread(value: Any, spatial: int) -> Any:
    """A number, or a tuple of one number, repeated `spatial` times; other values unchanged."""
    if isinstance(value, list | tuple):
        return tuple(value) * spatial if len(value) == 1 else tuple(value)
    return (value,) * spatial if isinstance(value, int) else value


def spread_all(spatial: int, *names: str) -> Canonical:
    """The canonical spelling in which the attributes `names` have a number for each dimension."""

    def canonical(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {k: spread(v, spatial) if k in names else v for k, v in values.items()}

    return canonical


# Sizes


def spatial_sizes(x: TensorType, spatial: int) -> Sizes:
    """The spatial sizes of an input (N, C, *sizes) or (C, *sizes).

    Raises:
        ValueError: the input has another rank.
    """
    require(
        x.rank in (spatial + 1, spatial + 2),
        f"rank {x.rank} where {spatial + 1} (no batch) or {spatial + 2} is needed",
    )
    return x.shape[x.rank - spatial :]


def full(name: str, values: Any, spatial: int, lowest: int) -> Sizes:
    """The attribute `name` as a tuple with a number for each spatial dimension.

    Raises:
        ValueError: the tuple has another length, or a number is below `lowest`.
    """
    sizes = spread(values, spatial)
    require(
        isinstance(sizes, tuple) and len(sizes) == spatial,
        f"{name} {values} where {spatial} numbers are needed",
    )
    require(min(sizes) >= lowest, f"{name} {values} may not be below {lowest}")
    return tuple(sizes)


def extent(kernel: int, dilation: int) -> int:
    """The number of positions that a dilated window spans."""
    return dilation * (kernel - 1) + 1


class SlidingWindow(NamedTuple):
    """The window of a convolution or a pool, by spatial dimension."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes


def convolved(sizes: Sizes, window: SlidingWindow) -> Sizes:
    """Output sizes of a convolution; `padding` is added on both sides.

    Raises:
        ValueError: the kernel does not fit into the padded input.
    """
    out_sizes = []
    for n, k, s, p, d in zip(sizes, *window, strict=True):
        require(
            n + 2 * p >= extent(k, d),
            f"a kernel that spans {extent(k, d)} does not fit into {n} + 2 * {p}",
        )
        out_sizes.append((n + 2 * p - extent(k, d)) // s + 1)
    return tuple(out_sizes)


def transposed(sizes: Sizes, window: SlidingWindow, added: Sizes) -> Sizes:
    """Output sizes of a transposed convolution.

    Args:
        added: the output padding.

    Raises:
        ValueError: the output padding is too large, or an output size is below 1.
    """
    out_sizes = []
    for n, k, s, p, d, a in zip(sizes, *window, added, strict=True):
        require(a < max(s, d), f"output_padding {a} is not below stride {s} or dilation {d}")
        size = (n - 1) * s - 2 * p + extent(k, d) + a
        require(size >= 1, f"nothing is left of {n} with padding {p}: output size {size}")
        out_sizes.append(size)
    return tuple(out_sizes)


def pooled(sizes: Sizes, window: SlidingWindow, ceil_mode: bool) -> Sizes:
    """Output sizes of a pool.

    With `ceil_mode` a last window may hang over the end, but it must start inside the input or its
    left padding.

    Raises:
        ValueError: the padding is more than half of the kernel, or no window fits.
    """
    out_sizes = []
    for n, k, s, p, d in zip(sizes, *window, strict=True):
        span = extent(k, d)
        require(2 * p <= k, f"padding {p} is more than half of kernel size {k}")
        # where the last window starts, at most
        last = min(2 * p - span + s - 1, p - 1) if ceil_mode else 2 * p - span
        size = (n + last) // s + 1
        require(size >= 1, f"a window that spans {span} does not fit into {n} + 2 * {p}")
        out_sizes.append(size)
    return tuple(out_sizes)


# Layouts


def laid_out(x: TensorType, shape: tuple[int, ...], *others: TensorType) -> TensorType:
    """The type of a result with x's dtype.

    The layout is channels-last if x, or one of the others, has the result's rank and this layout.
    """
    layouts = {tensor.layout for tensor in (x, *others) if tensor.rank == len(shape)}
    is_last = Layout.CHANNELS_LAST in layouts
    return TensorType(shape, x.dtype, Layout.CHANNELS_LAST if is_last else Layout.CONTIGUOUS)
