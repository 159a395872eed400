"""Matrix products, and the triangles of matrices."""

from collections.abc import Callable

from kernelwright.ops.operator import Bound, Numerics, Operator, Param, ParameterKind, TensorType
from kernelwright.ops.rules import (
    INPUT,
    attribute,
    broadcast,
    common,
    defaults,
    flops_per_output,
    is_float,
    require,
    tensor,
)
from kernelwright.ops.traits import ProductFactor, Trait

Shape = tuple[int, ...]


# Shape rules


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """The shape of a matrix product: (*batch, m, k) @ (*batch, k, n) -> (*batch, m, n).

    Batches broadcast. A vector has the dimension k alone, and no dimension in the result.

    Raises:
        ValueError: a factor is a scalar, or the sizes of k differ.
    """
    require(len(a) > 0 and len(b) > 0, "a matrix product needs at least one dimension")
    k = b[-2] if len(b) > 1 else b[-1]
    require(a[-1] == k, f"{a} @ {b}: {a[-1]} columns meet {k} rows")
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return (*broadcast(a[:-2], b[:-2]), *rows, *columns)


def _product_dtype(*tensors: TensorType) -> str:
    dtype = common(*tensors)
    require(dtype != "bool", "not defined for bool")
    return dtype


def _product(ranks: tuple[int, int] | None) -> Callable[[TensorType, TensorType], TensorType]:
    """The rule of a product of tensors of exactly these ranks, or of any ranks (None: matmul)."""

    def made(a: TensorType, b: TensorType) -> TensorType:
        given_ranks = (a.rank, b.rank)
        require(ranks in (None, given_ranks), f"ranks {given_ranks} where {ranks} are needed")
        require(ranks != (3, 3) or a.shape[0] == b.shape[0], f"batches of {a.shape}, {b.shape}")
        return TensorType(matmul_shape(a.shape, b.shape), _product_dtype(a, b))

    return made


def _linear_types(b: Bound) -> tuple[TensorType, ...]:
    x, weight, bias = b["input"], b["weight"], b["bias"]
    require(weight.rank == 2, f"weight of rank {weight.rank}")
    require(x.rank > 0 and x.shape[-1] == weight.shape[1], f"{x.shape} into weight {weight.shape}")
    shape = (*x.shape[:-1], weight.shape[0])
    if bias is None:
        return (TensorType(shape, _product_dtype(x, weight)),)
    require(bias.shape == weight.shape[:1], f"bias {bias.shape} for weight {weight.shape}")
    return (TensorType(shape, _product_dtype(x, weight, bias)),)


def _triangle_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    require(x.rank >= 2, f"a triangle needs rank 2 or more, not {x.rank}")
    return (TensorType(x.shape, x.dtype),)


def _added(b: Bound, product: TensorType) -> tuple[TensorType, ...]:
    """The type of beta * input + alpha * product, where `input` broadcasts to the product.

    Raises:
        ValueError: `input` does not broadcast, dtypes differ, or a scale is no whole number for
            integers.
    """
    bias: TensorType = b["input"]
    require(
        broadcast(bias.shape, product.shape) == product.shape,
        f"{bias.shape} does not broadcast to {product.shape}",
    )
    dtype = common(bias, product)
    whole = all(isinstance(b[key], int) for key in ("alpha", "beta"))
    require(is_float(dtype) or whole, f"fractional alpha or beta with {dtype}")
    return (product,)


# Constructors


def _contraction(
    name: str,
    params: tuple[Param, ...],
    left: str,
    types: Callable[[Bound], tuple[TensorType, ...]],
) -> Operator:
    """A record of a product; `left` names the parameter whose last dimension is summed over."""

    def flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
        return 2 * int(b[left].shape[-1]) * outputs[0].numel

    return Operator(
        name=name,
        family="matrix",
        call="F.linear" if name == "linear" else f"torch.{name}",
        params=params,
        types=types,
        flops=flops,
        numerics=Numerics.CONTRACTION,
        aten=defaults(name) if name != "linear" else {"aten.linear.default": {}},
    )


def _two(name: str, second: str, ranks: tuple[int, int] | None) -> Operator:
    product = _product(ranks)
    operator = _contraction(
        name, (INPUT, tensor(second)), "input", lambda b: (product(b["input"], b[second]),)
    )
    is_vector = ranks is not None and ranks[1] == 1
    factors = ProductFactor("input", -1), ProductFactor(second, -1 if is_vector else -2)
    return operator.having(Trait.MATMUL, factors=factors)


def _two_added(name: str, first: str, second: str, ranks: tuple[int, int]) -> Operator:
    product = _product(ranks)
    scales = (attribute("beta", 1, 0.5, 1, 2), attribute("alpha", 1, 0.5, 1, 2))
    operator = _contraction(
        name,
        (INPUT, tensor(first), tensor(second), *scales),
        first,
        lambda b: _added(b, product(b[first], b[second])),
    )
    factors = ProductFactor(first, -1), ProductFactor(second, -2)
    return operator.having(Trait.MATRIX_PRODUCT, Trait.ADDS_OPERAND, factors=factors)


def _triangle(name: str) -> Operator:
    return Operator(
        name=name,
        family="matrix",
        call=f"torch.{name}",
        params=(INPUT, attribute("diagonal", 0, -1, 0, 1)),
        types=_triangle_types,
        flops=flops_per_output,
        numerics=Numerics.EXACT,
        aten=defaults(name),
    ).having(Trait.CUTS_TRIANGLE)


OPERATORS: tuple[Operator, ...] = (
    _two("matmul", "other", None).having(Trait.MATRIX_PRODUCT),
    _two("mm", "mat2", (2, 2)).having(Trait.MATRIX_PRODUCT),
    _two("bmm", "mat2", (3, 3)).having(Trait.MATRIX_PRODUCT),
    _two("mv", "vec", (2, 1)).having(Trait.MATRIX_PRODUCT),
    _two("dot", "tensor", (1, 1)),
    _two_added("addmm", "mat1", "mat2", (2, 2)),
    _two_added("baddbmm", "batch1", "batch2", (3, 3)),
    _contraction(
        "linear",
        (INPUT, tensor("weight"), tensor("bias", ParameterKind.OPTIONAL_TENSOR)),
        "input",
        _linear_types,
    ).having(
        Trait.MATRIX_PRODUCT,
        factors=(ProductFactor("input", -1), ProductFactor("weight", -1)),
        channel_dim=-1,
    ),
    _triangle("triu"),
    _triangle("tril").having(Trait.KEEPS_LOWER_TRIANGLE),
)
