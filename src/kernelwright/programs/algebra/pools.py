"""Pools in a row, and average pools over convolutions, as one step."""

from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.chain import chain_to
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.program import Call, Ref


def _is_plain(pool: Call) -> bool:
    """Windows that lie inside the input, each with weights that add up to one."""
    is_default = not any(pool.arg("padding")) and not pool.arg("ceil_mode")
    if pool.has(Trait.AVERAGES_WINDOWS):
        return is_default and (pool.op == "avg_pool1d" or pool.arg("divisor_override") is None)
    return is_default and set(pool.arg("dilation")) == {1}


def idle_pool(site: Site) -> tuple[Ref, ...] | None:
    """A pool over windows of one element, or one that is asked for the size that is there."""
    call = site.call
    if call.operator.family != "pooling" or call.op == "interpolate":
        return None
    value = call.arg("input")
    if call.has(Trait.ADAPTIVE):
        return (value,) if site.shape(value) == call.types[0].shape else None
    is_idle = _is_plain(call) and {*call.arg("kernel_size"), *call.arg("stride")} == {1}
    return (value,) if is_idle else None


def merged_pools(site: Site) -> tuple[Ref, ...] | None:
    """Two pools of a kind as one with larger windows; averages only over windows that share
    nothing."""
    call = site.call
    if not call.operator.traits & {Trait.AVERAGES_WINDOWS, Trait.LARGEST_OF_WINDOWS}:
        return None
    if not _is_plain(call):
        return None
    index = site.lone_maker(call.arg("input"))
    before = None if index is None else site.flow.program.calls[index]
    if before is None or before.op != call.op or not _is_plain(before):
        return None
    inner, step = before.arg("kernel_size"), before.arg("stride")
    if call.has(Trait.AVERAGES_WINDOWS) and inner != step:
        return None
    outer = call.arg("kernel_size")
    kernel = tuple(k + (n - 1) * s for k, n, s in zip(inner, outer, step, strict=True))
    stride = tuple(a * b for a, b in zip(step, call.arg("stride"), strict=True))
    merged = site.emit(call.op, input=before.arg("input"), kernel_size=kernel, stride=stride)
    return (merged,)


def pool_of_convolution(site: Site) -> tuple[Ref, ...] | None:
    """Replaces an average pool over a convolution by a convolution with pooled kernels.

    The new convolution computes only the positions that the pool returns.
    """
    call = site.call
    if not call.has(Trait.AVERAGES_WINDOWS) or not _is_plain(call):
        return None
    rank = call.types[0].rank
    spatial = frozenset(range(2, rank))
    chain = chain_to(site, call.arg("input"), spatial, flat=True)
    if chain is None or chain.product.operator.family != "convolution":
        return None
    product = chain.product
    is_same_space = rank == len(site.shape(product.arg("weight"))) == call.operator.spatial + 2
    if not is_same_space or set(product.arg("dilation")) != {1}:
        return None
    is_transposed = product.has(Trait.TRANSPOSED)
    summed = (_of_transposed if is_transposed else _of_plain)(site, product)
    return None if summed is None else (chain.behind(site, summed, "mean", spatial),)


def _of_plain(site: Site, product: Call) -> Ref | None:
    """The pooled plain convolution: K taps pooled over k positions become K + k - 1 taps.

    A convolution of one tap commutes with the pool, so the pool comes first there.
    """
    if set(product.arg("stride")) != {1}:
        return None
    kernel = site.call.arg("kernel_size")
    settings = dict(product.args)
    if set(site.shape(product.arg("weight"))[2:]) == {1} and not any(product.arg("padding")):
        pool = {**dict(site.call.args), "input": product.arg("input")}
        return site.emit(product.op, **{**settings, "input": site.emit(site.call.op, **pool)})
    around = tuple(side for k in reversed(kernel) for side in (k - 1, k - 1))
    settings["weight"] = _pooled(site, product.arg("weight"), around, 1)
    return site.emit(product.op, **{**settings, "stride": site.call.arg("stride")})


def _pooled(site: Site, weight: Ref, around: tuple[int, ...], step: int | tuple[int, ...]) -> Ref:
    """Means over the pool's windows of a kernel with zeros around it."""
    if any(around):
        weight = site.emit("pad", input=weight, pad=around)
    kernel = site.call.arg("kernel_size")
    strides = step if isinstance(step, tuple) else (step,) * len(kernel)
    return site.emit(site.call.op, input=weight, kernel_size=kernel, stride=strides)


def _of_transposed(site: Site, product: Call) -> Ref | None:
    """The pooled transposed convolution as a plain convolution; None if the strides differ.

    If the pool has the stride of the transposed convolution, the two strides cancel. Output o then
    reads input o - e, by the taps from e * stride + padding on.
    """
    stride = product.arg("stride")
    if site.call.arg("stride") != stride or product.arg("groups") != 1:
        return None
    rank, around, edges = product.types[0].rank, [], []
    for d in range(rank - 2):
        taps = site.shape(product.arg("weight"))[d + 2]
        window, s, p = site.call.arg("kernel_size")[d], stride[d], product.arg("padding")[d]
        least, most = -((window - 1 + p) // s), (taps - 1 - p) // s
        before = -(least * s + p)
        after = (most - least) * s + window - before - taps
        if before < 0 or after < 0 or most < least:
            return None
        around.append((before, after))
        size, outputs = site.shape(product.arg("input"))[d + 2], site.call.types[0].shape[d + 2]
        edges.append((most, outputs - least - size))
    kernel = _pooled(site, product.arg("weight"), _padding(around), stride)
    kernel = site.emit("transpose", input=kernel, dim0=0, dim1=1)
    kernel = site.emit("flip", input=kernel, dims=tuple(range(2, rank)))
    values: dict[str, Any] = {"input": product.arg("input"), "weight": kernel}
    padding = tuple(max(0, *pair) for pair in edges)
    values |= {"bias": product.arg("bias"), "padding": padding}
    convolved = site.emit(f"conv{rank - 2}d", **values)
    return _cut(
        site, convolved, tuple(p - left for p, (left, _) in zip(padding, edges, strict=True))
    )


def _padding(around: list[tuple[int, int]]) -> tuple[int, ...]:
    """As `F.pad` takes it: the last dimension first."""
    return tuple(side for pair in reversed(around) for side in pair)


def _cut(site: Site, value: Ref, starts: tuple[int, ...]) -> Ref:
    """The positions that the pool has, from these on."""
    for d, start in enumerate(starts, 2):
        size = site.call.types[0].shape[d]
        if site.shape(value)[d] != size:
            value = site.emit("slice", input=value, dim=d, start=start, end=start + size)
    return value
