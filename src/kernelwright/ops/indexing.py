"""Operators that pick elements by integer tensors."""

from collections.abc import Callable, Mapping

from kernelwright.ops.operator import (
    REQUIRED,
    Bound,
    Domain,
    Numerics,
    Operator,
    Param,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    attribute,
    broadcast,
    dim_index,
    flops_none,
    require,
    tensor,
)

DIM = attribute("dim", REQUIRED)


def _require_index(index: TensorType, *dtypes: str) -> None:
    require(
        index.dtype in dtypes, f"indices of {index.dtype} where {' or '.join(dtypes)} is needed"
    )


def indexed_size(b: Bound) -> int:
    """The size of the indexed dimension; a scalar counts as one element."""
    x: TensorType = b["input"]
    return x.shape[dim_index(b["dim"], x.rank)] if x.rank else 1


def require_inside(index: TensorType, x: TensorType, at: int) -> None:
    """An index has no dimension that is longer than that of `x`, except dimension `at`."""
    pairs = enumerate(zip(index.shape, x.shape, strict=False))
    fits = all(i == at or n <= m for i, (n, m) in pairs)
    require(fits, f"index {index.shape} is larger than {x.shape} outside dimension {at}")


# Types


def _embedding_types(b: Bound) -> tuple[TensorType, ...]:
    index, weight = b["input"], b["weight"]
    _require_index(index, "int64", "int32")
    require(weight.rank == 2, f"weight of rank {weight.rank}")
    return (TensorType((*index.shape, weight.shape[1]), weight.dtype),)


def _gather_types(b: Bound) -> tuple[TensorType, ...]:
    x, index = b["input"], b["index"]
    _require_index(index, "int64")
    at = dim_index(b["dim"], x.rank)
    # PyTorch takes a scalar for a vector of one element here.
    require(max(x.rank, 1) == max(index.rank, 1), f"ranks {x.rank} and {index.rank} differ")
    require_inside(index, x, at)
    return (TensorType(index.shape, x.dtype),)


def _index_select_types(b: Bound) -> tuple[TensorType, ...]:
    x, index = b["input"], b["index"]
    _require_index(index, "int64", "int32")
    require(index.rank <= 1, f"index of rank {index.rank}")
    at = dim_index(b["dim"], x.rank)
    if not x.rank:
        return (x,)
    return (TensorType((*x.shape[:at], index.numel, *x.shape[at + 1 :]), x.dtype),)


def _take_along_dim_types(b: Bound) -> tuple[TensorType, ...]:
    x, index = b["input"], b["indices"]
    _require_index(index, "int64")
    require(x.rank == index.rank, f"ranks {x.rank} and {index.rank} differ")
    at = dim_index(b["dim"], x.rank)

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:at], 1, *shape[at + 1 :])

    shape = broadcast(rest(x.shape), rest(index.shape))
    return (TensorType((*shape[:at], index.shape[at], *shape[at + 1 :]), x.dtype),)


def index_types(b: Bound) -> tuple[TensorType, ...]:
    """The type of the elements of `input` that `indices` pick: x[i, :, j].

    Raises:
        ValueError: no index is a tensor, an index does not hold integers, or there are more
            indices than dimensions.
    """
    x, places = b["input"], _places(b)
    require(bool(places), "no index is a tensor")
    require(len(b["indices"]) <= x.rank, f"{len(b['indices'])} indices for rank {x.rank}")
    for index in places.values():  # a mask of booleans would decide the shape by its values
        _require_index(index, "int64", "int32")
    kept = [size for dim, size in enumerate(x.shape) if dim not in places]
    at = index_place(tuple(places))
    picked = broadcast(*(index.shape for index in places.values()))
    return (TensorType((*kept[:at], *picked, *kept[at:]), x.dtype),)


def index_place(dims: tuple[int, ...]) -> int:
    """The position in a result of `index` where the dimensions of the indices stand.

    This is NumPy's rule: in the place of the indexed dimensions if these are neighbours, else
    before all others.

    Args:
        dims: dimensions of the input that have an index, ascending.
    """
    return dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0


def _places(b: Bound) -> dict[int, TensorType]:
    """Dimension of the input -> its index, for the dimensions that have one."""
    return {dim: index for dim, index in enumerate(b["indices"]) if index is not None}


def least_size(b: Bound) -> int:
    """The size of the smallest indexed dimension: smaller values are valid in all of these."""
    x: TensorType = b["input"]
    return min(x.shape[dim] for dim in _places(b))


def _one_hot_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    _require_index(x, "int64")
    require(b["num_classes"] > 0, "num_classes must be given: values may not decide shapes")
    return (TensorType((*x.shape, b["num_classes"]), "int64"),)


# The table


def _indexing(
    name: str,
    types: Callable[[Bound], tuple[TensorType, ...]],
    *params: Param,
    index: str,
    bound: Callable[[Bound], int] = indexed_size,
    call: str = "",
    aten: Mapping[str, str] = SELF,
    overloads: tuple[str, ...] = (),
) -> Operator:
    """A record of an operator that picks by index.

    Args:
        index: the parameter that holds indices.
        bound: call -> exclusive upper bound of the indices.
        overloads: ATen overloads, if not the default one.
    """
    return Operator(
        name=name,
        family="indexing",
        call=call or f"torch.{name}",
        params=params,
        types=types,
        flops=flops_none,
        numerics=Numerics.EXACT,
        aten=dict.fromkeys(overloads or (f"aten.{name}.default",), aten),
        domains={index: Domain.INDEX},
        index_bound=bound,
    )


OPERATORS: tuple[Operator, ...] = (
    _indexing(
        "embedding", _embedding_types, INPUT, tensor("weight"),
        index="input", bound=lambda b: int(b["weight"].shape[0]), call="F.embedding",
        # padding_idx and the rest matter to gradients alone
        aten={"indices": "input", "padding_idx": "", "scale_grad_by_freq": "", "sparse": ""},
    ),
    _indexing(
        "gather", _gather_types, INPUT, DIM, tensor("index"),
        index="index", aten={**SELF, "sparse_grad": ""},
    ),
    _indexing("index_select", _index_select_types, INPUT, DIM, tensor("index"), index="index"),
    _indexing(
        "take_along_dim", _take_along_dim_types, INPUT, tensor("indices"), DIM, index="indices"
    ),
    _indexing(
        "index", index_types, INPUT, tensor("indices", ParameterKind.OPTIONAL_TENSORS),
        index="indices", bound=least_size, call="torch.ops.aten.index",
        overloads=("aten.index.Tensor", "aten._unsafe_index.Tensor"),
    ),
    _indexing(
        "one_hot", _one_hot_types, INPUT, attribute("num_classes", REQUIRED),
        index="input", bound=lambda b: int(b["num_classes"]), call="F.one_hot",
    ),
)  # fmt: skip
