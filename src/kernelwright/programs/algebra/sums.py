"""Rules for sums and means over products: the factors are summed first, so the product is small."""

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.chain import Chain, ChainSum, chain_to, placed, sum_at, summed
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.program import Call, Ref


def sum_of_product(site: Site) -> tuple[Ref, ...] | None:
    """Replaces the sum over rows or columns of a matrix product by a matrix-vector product.

    The factor is summed first: sum_i (A B)_ij = (sum_i A_i) B. Scaling and shifting between the
    product and the sum follow afterwards.
    """
    if (total := sum_at(site)) is None:
        return None
    if (chain := chain_to(site, total.value, total.axes)) is None:
        return None
    factors = chain.product.operator.factors
    if not factors:
        return None
    reduced: Ref | None
    if chain.product.operator.channel_dim is not None:
        reduced = _of_linear(site, chain.product, total)
    elif factors[1].dim == -2:
        reduced = _of_matmul(site, chain.product, total)
    else:
        return None
    return None if reduced is None else (_finished(site, chain, total, reduced),)


def _finished(site: Site, chain: Chain, total: ChainSum, reduced: Ref) -> Ref:
    return placed(site, chain.behind(site, reduced, total.op, total.axes))


def _of_linear(site: Site, product: Call, total: ChainSum) -> Ref:
    """The layer's sum, of size 1 along the axes: rows of the input and of the weight summed."""
    last = product.types[0].rank - 1
    x, weight, bias = (product.arg(name) for name in ("input", "weight", "bias"))
    rows = tuple(sorted(total.axes - {last}))
    if rows:
        x = site.emit(total.op, input=x, dim=rows, keepdim=True)
    if last in total.axes:
        weight = site.emit(total.op, input=weight, dim=(0,), keepdim=True)
    result = site.emit("linear", input=x, weight=weight)
    if bias is None:
        return result
    shift = summed(site, bias, product.types[0].shape, total.op, total.axes)
    return site.emit("add", input=result, other=shift)


def _of_matmul(site: Site, product: Call, total: ChainSum) -> Ref | None:
    first, second = (product.arg(factor.name) for factor in product.operator.factors)
    is_added = not product.has(Trait.MATMUL)
    rank = product.types[0].rank
    if min(len(site.shape(first)), len(site.shape(second))) < 2 or not total.axes & {
        rank - 2,
        rank - 1,
    }:
        return None
    if is_added and (product.arg("alpha"), product.arg("beta")) != (1, 1):
        return None
    if rank - 2 in total.axes:
        first = site.emit(total.op, input=first, dim=(-2,), keepdim=True)
    if rank - 1 in total.axes:
        second = site.emit(total.op, input=second, dim=(-1,), keepdim=True)
    result = site.emit("matmul", input=first, other=second)
    batch = tuple(sorted(total.axes - {rank - 2, rank - 1}))
    if batch:
        result = site.emit(total.op, input=result, dim=batch, keepdim=True)
    if not is_added:
        return result
    shape = product.types[0].shape
    shift = summed(site, product.arg("input"), shape, total.op, total.axes)
    return site.emit("add", input=result, other=shift)


def pool_of_linear(site: Site) -> tuple[Ref, ...] | None:
    """Average pooling over a linear layer's features is the layer with pooled weights."""
    call = site.call
    if call.op != "avg_pool1d":
        return None
    index, view = site.lone_maker(call.arg("input")), None
    if index is not None and site.flow.program.calls[index].op == "unsqueeze":
        view = site.flow.program.calls[index]
        index = site.lone_maker(view.arg("input"), index)
    product = None if index is None else site.flow.program.calls[index]
    if product is None or product.op != "linear":
        return None
    if product.types[0].shape[-1] != site.shape(call.arg("input"))[-1]:
        return None
    pooling = {name: value for name, value in call.args if name != "input"}
    columns = site.emit("permute", input=product.arg("weight"), dims=(1, 0))
    pooled = site.emit("avg_pool1d", input=columns, **pooling)
    weight, bias = site.emit("permute", input=pooled, dims=(1, 0)), product.arg("bias")
    if bias is not None:
        row = site.reshaped(bias, (1, *site.shape(bias)))
        row = site.emit("avg_pool1d", input=row, **pooling)
        bias = site.reshaped(row, site.shape(row)[1:])
    linear = site.emit("linear", input=product.arg("input"), weight=weight, bias=bias)
    return (linear if view is None else site.emit("unsqueeze", input=linear, dim=view.arg("dim")),)


def sum_of_outer_product(site: Site) -> tuple[Ref, ...] | None:
    """sum over k of a[i, k] * b[k, j], spelled with broadcasting, is a matrix product."""
    total = sum_at(site)
    index = None if total is None else site.lone_maker(total.value)
    if total is None or index is None or len(total.axes) != 1:
        return None
    product = site.flow.program.calls[index]
    rank, (axis,) = product.types[0].rank, total.axes
    if product.op != "mul" or rank < 3 or axis < rank - 2:
        return None
    operands = product.arg("input"), product.arg("other")
    for first, second in (operands, operands[::-1]):
        if _is_outer(site, first, second, product, axis):
            break
    else:
        return None
    shared = 2 * rank - 3 - axis  # the other one of the last two axes, which only `second` has
    rows = site.emit("squeeze", input=first, dim=(shared,))
    columns = site.emit("squeeze", input=second, dim=(rank - 3,))
    if axis == rank - 1:
        columns = site.emit("transpose", input=columns, dim0=-2, dim1=-1)
    summed = site.emit("matmul", input=rows, other=columns)
    if total.op == "mean":
        summed = site.emit("div", input=summed, other=product.types[0].shape[axis])
    if site.call.types[0].rank == rank:
        summed = site.emit("unsqueeze", input=summed, dim=axis)
    return (summed,)


def _is_outer(site: Site, first: object, second: object, product: Call, axis: int) -> bool:
    """`first` is (..., M, K, 1) and `second` (..., 1, K, N), or (..., M, 1, K) and (..., 1, N, K),
    K along `axis`."""
    if not (isinstance(first, Ref) and isinstance(second, Ref)):
        return False
    shape, rank = product.types[0].shape, product.types[0].rank
    other = 2 * rank - 3 - axis
    if any(len(site.shape(value)) != rank for value in (first, second)):
        return False
    a, b = site.shape(first), site.shape(second)
    has_axis = a[axis] == b[axis] == shape[axis]
    return has_axis and a[other] == 1 and b[rank - 3] == 1 and a[rank - 3] == shape[rank - 3]
