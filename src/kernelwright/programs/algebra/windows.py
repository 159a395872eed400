"""Sums and means over the positions of a convolution: sums of the input's windows come first."""

from collections.abc import Sequence
from math import prod

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.chain import ChainSum, chain_to, placed, sum_at, summed
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.program import Call, Ref

_Range = tuple[int, int, int]
"""(start, stop, step) of the inputs that one tap of a kernel meets."""


def sum_of_convolution(site: Site) -> tuple[Ref, ...] | None:
    """The sum over positions of a convolution, plain or transposed, without the convolution.

    Over all outputs, each tap of a kernel multiplies a range of the input. So the sum of the
    outputs is the sum over taps of tap * sum(range). A sum over channels sums their kernels first.
    """
    if (total := sum_at(site)) is None:
        return None
    chain = chain_to(site, total.value, total.axes)
    if chain is None or chain.product.operator.family != "convolution":
        return None
    product = chain.product
    is_channel_summed = 1 in total.axes
    if product.types[0].rank != len(site.shape(product.arg("weight"))):
        return None  # without a batch
    if is_channel_summed and product.arg("groups") != 1:
        return None
    if not total.axes - {0}:
        return None
    summed = _summed(site, product, total)
    return (placed(site, chain.behind(site, summed, total.op, total.axes)),)


def _summed(site: Site, product: Call, total: ChainSum) -> Ref:
    """The convolution's sum, of size 1 along the axes."""
    x, weight, bias = (product.arg(name) for name in ("input", "weight", "bias"))
    shape = product.types[0].shape
    is_transposed = product.has(Trait.TRANSPOSED)
    if 1 in total.axes:
        weight = site.emit("sum", input=weight, dim=(int(is_transposed),), keepdim=True)
    # Along a summed axis, position k of the new input holds the sum that tap k multiplies. The
    # new convolution has one output there, so its window must not move, pad or spread.
    spatial = sorted(total.axes - {0, 1})
    settings = dict(product.args)
    for axis in spatial:
        ranges = _ranges(product, axis, site.shape(x)[axis], site.shape(weight)[axis])
        x, weight = _by_range(site, x, weight, axis, ranges)
        for name, value in _NO_WINDOW.items():
            if name in settings:
                widths = list(settings[name])
                widths[axis - 2] = value
                settings[name] = tuple(widths)
    if len(spatial) == len(shape) - 2 and product.arg("groups") == 1:
        result = _as_linear(site, x, weight, is_transposed=is_transposed)
    else:
        if is_transposed:
            x, settings = _facing(site, x, spatial, settings)
        settings |= {"input": x, "weight": weight, "bias": None}
        result = site.emit(product.op, **settings)
    if 0 in total.axes:
        result = site.emit("sum", input=result, dim=(0,), keepdim=True)
    if total.op == "mean":
        result = site.emit("div", input=result, other=prod(shape[axis] for axis in total.axes))
    if bias is None:
        return result
    column = site.reshaped(bias, (shape[1], *(1,) * (len(shape) - 2)))
    shift = summed(site, column, shape, total.op, total.axes)
    return site.emit("add", input=result, other=shift)


_NO_WINDOW = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}


def _ranges(product: Call, axis: int, size: int, taps: int) -> list[_Range]:
    """For each tap: the range of inputs that it multiplies over all outputs.

    (0, 0, 1), an empty range, if padding keeps the tap outside the input for every output.
    """
    stride, padding, dilation = (
        product.arg(name)[axis - 2] for name in ("stride", "padding", "dilation")
    )
    outputs, ranges = product.types[0].shape[axis], []
    for tap in range(taps):
        offset = tap * dilation - padding
        if product.has(Trait.TRANSPOSED):  # output = input * stride + offset
            start = max(0, -(offset // stride))
            stop = min(size, (outputs - 1 - offset) // stride + 1)
            ranges.append((start, stop, 1) if start < stop else (0, 0, 1))
            continue
        first = max(0, -(offset // stride))  # input = output * stride + offset
        last = min(outputs - 1, (size - 1 - offset) // stride)
        is_met = first <= last
        span = (first * stride + offset, last * stride + offset + 1, stride)
        ranges.append(span if is_met else (0, 0, 1))
    return ranges


def _by_range(
    site: Site, x: Ref, weight: Ref, axis: int, ranges: Sequence[_Range]
) -> tuple[Ref, Ref]:
    """(sums of the input over distinct ranges, sums of the taps with each range), along `axis`."""
    taps: dict[_Range, list[Ref]] = {}
    for tap, span in enumerate(ranges):
        if span[0] < span[1]:
            piece = site.emit("slice", input=weight, dim=axis, start=tap, end=tap + 1)
            taps.setdefault(span, []).append(piece)
    kernels = []
    for pieces in taps.values():
        kernel = pieces[0]
        for piece in pieces[1:]:
            kernel = site.emit("add", input=kernel, other=piece)
        kernels.append(kernel)
    return _joined(site, _range_sums(site, x, axis, list(taps)), axis), _joined(site, kernels, axis)


def _joined(site: Site, pieces: Sequence[Ref], axis: int) -> Ref:
    return pieces[0] if len(pieces) == 1 else site.emit("cat", tensors=tuple(pieces), dim=axis)


def _range_sums(site: Site, x: Ref, axis: int, ranges: Sequence[_Range]) -> list[Ref]:
    """Sums of the input over ranges along an axis. What all of them share is summed once."""

    def over(start: int, stop: int, step: int = 1) -> Ref:
        part = site.emit("slice", input=x, dim=axis, start=start, end=stop, step=step)
        return site.emit("sum", input=part, dim=(axis,), keepdim=True)

    # With stride 1 the ranges differ only at their ends: the long common part is summed once.
    low, high = max(r[0] for r in ranges), min(r[1] for r in ranges)
    if low >= high or any(step != 1 for _, _, step in ranges):
        return [over(*span) for span in ranges]
    shared, sums = over(low, high), []
    for start, stop, _ in ranges:
        value = shared
        for edge in ((start, low), (high, stop)):
            if edge[0] < edge[1]:
                value = site.emit("add", input=value, other=over(*edge))
        sums.append(value)
    return sums


def _as_linear(site: Site, x: Ref, weight: Ref, *, is_transposed: bool) -> Ref:
    """(N, C, K..) and kernels of the same K.. as a linear layer, shaped (N, O, 1..)."""
    rank = len(site.shape(x))
    if is_transposed:
        weight = site.emit("transpose", input=weight, dim0=0, dim1=1)
    width = prod(site.shape(x)[1:])
    rows = site.reshaped(x, (site.shape(x)[0], width))
    columns = site.reshaped(weight, (site.shape(weight)[0], width))
    linear = site.emit("linear", input=rows, weight=columns)
    return site.reshaped(linear, (*site.shape(linear), *(1,) * (rank - 2)))


def _facing(
    site: Site, x: Ref, spatial: Sequence[int], settings: dict[str, object]
) -> tuple[Ref, dict[str, object]]:
    """A transposed convolution's input turned round and padded away, so that each tap meets the sum
    of its own range and nothing else."""
    sizes = [site.shape(x)[axis] for axis in spatial]
    if max(sizes) > 1:
        x = site.emit("flip", input=x, dims=tuple(spatial))
    rank = len(site.shape(x))
    padding = list(settings.get("padding", (0,) * (rank - 2)))  # type: ignore[call-overload]
    for axis, size in zip(spatial, sizes, strict=True):
        padding[axis - 2] = size - 1
    return x, settings | {"padding": tuple(padding)}
