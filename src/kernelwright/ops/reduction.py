"""Reductions over dimensions, and softmax, which reduces but keeps the shape."""

from kernelwright.ops.operator import REQUIRED, Bound, Numerics, Operator, Param, TensorType
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    Aten,
    DtypeRule,
    accumulated,
    attribute,
    defaults,
    dim_index,
    float_dtype,
    floating,
    flops_per_input,
    is_float,
    reduced,
    require,
    same_dtype,
)
from kernelwright.ops.traits import Trait

DIM = attribute("dim", None)
ONE_DIM = attribute("dim", REQUIRED)
KEEPDIM = attribute("keepdim", False, False, True)
DTYPE = attribute("dtype", None)


# Dtypes of results


def _one_dim(b: Bound) -> None:
    require(not isinstance(b["dim"], tuple), f"dim {b['dim']} where one is needed")


def _selected(b: Bound) -> str:
    _one_dim(b)
    return same_dtype(b)


def _prod(b: Bound) -> str:
    _one_dim(b)
    return accumulated(b)


def _mean(b: Bound) -> str:
    dtype = str(b["dtype"] or b["input"].dtype)
    require(is_float(dtype), f"the mean needs a floating-point dtype, not {dtype}")
    return dtype


def _norm(b: Bound) -> str:
    require(isinstance(b["ord"], (int, float)), f"ord {b['ord']!r} is no number")
    dtype = float_dtype(b)
    return str(b["dtype"] or dtype)


def _softmax(b: Bound) -> str:
    dtype = str(b["dtype"] or b["input"].dtype)
    require(is_float(dtype), f"defined for floating-point dtypes only, not {dtype}")
    return dtype


def _floats(b: Bound) -> str:
    return floating(b["input"].dtype)


def _truth(b: Bound) -> str:
    """The dtype of any and all: bool, but uint8 for uint8, as in PyTorch before it had bool."""
    require(b["dim"] != (), "no dimension to reduce")
    return "uint8" if b["input"].dtype == "uint8" else "bool"


def _index(b: Bound) -> str:
    _one_dim(b)
    require(b["input"].dtype != "bool", "not defined for bool")
    return "int64"


# Constructors


def _reduction(
    name: str,
    dtype: DtypeRule,
    *attributes: Param,
    aten: Aten,
    call: str = "",
    exact: bool = False,
    passes: int = 1,
    indices: bool = False,
) -> Operator:
    """A record of a reduction.

    Args:
        dtype: dtype rule of the result.
        exact: whether the operator selects a value. Then the input may not be empty.
        passes: FLOPs for each element of the input.
        indices: whether a second result holds the positions of the values, as int64.
    """

    def types(b: Bound) -> tuple[TensorType, ...]:
        x: TensorType = b["input"]
        require(not exact or 0 not in x.shape, f"no elements to select from in shape {x.shape}")
        shape = reduced(x.shape, b.get("dim"), b.get("keepdim", False))
        values = TensorType(shape, dtype(b))
        return (values, TensorType(shape, "int64")) if indices else (values,)

    return Operator(
        name=name,
        family="reduction",
        call=call or f"torch.{name}",
        params=(INPUT, *attributes),
        types=types,
        flops=lambda b, outputs: passes * flops_per_input(b, outputs),
        numerics=Numerics.EXACT if exact else Numerics.REDUCTION,
        aten=aten,
        num_outputs=2 if indices else 1,
    )


def _softmax_like(name: str) -> Operator:
    def types(b: Bound) -> tuple[TensorType, ...]:
        x: TensorType = b["input"]
        dim_index(b["dim"], x.rank)
        return (TensorType(x.shape, _softmax(b)),)

    return Operator(
        name=name,
        family="reduction",
        call=f"torch.{name}",
        params=(INPUT, ONE_DIM, DTYPE),
        types=types,
        # max, subtract, exp, sum, divide
        flops=lambda b, outputs: 5 * flops_per_input(b, outputs),
        numerics=Numerics.REDUCTION,
        aten={
            f"aten.{name}.int": SELF,
            f"aten._{name}.default": {**SELF, "half_to_float": ""},
        },
        normalized_axes=lambda b: frozenset({dim_index(b["dim"], b["input"].rank)}),
    )


def _moment(name: str) -> Operator:
    """A record of std or var: four FLOPs an element (mean, subtract, square, sum)."""
    # Older overloads have a bool, `unbiased`; as a number it is the correction: 1 or 0.
    aten = {
        f"aten.{name}.correction": SELF,
        f"aten.{name}.dim": {**SELF, "unbiased": "correction"},
        f"aten.{name}.default": {**SELF, "unbiased": "correction"},
    }
    attributes = (DIM, attribute("correction", 1, 0, 1), KEEPDIM)
    return _reduction(name, float_dtype, *attributes, aten=aten, passes=4)


_OF_ALL = (Trait.ESTIMATED_BY_PART, Trait.KNOWN_OF_ONE)

OPERATORS: tuple[Operator, ...] = (
    _reduction(
        "sum", accumulated, DIM, KEEPDIM, DTYPE,
        aten={"aten.sum.default": SELF, "aten.sum.dim_IntList": SELF},
    ).having(Trait.SUMS, *_OF_ALL),
    _reduction(
        "mean", _mean, DIM, KEEPDIM, DTYPE,
        aten={"aten.mean.default": SELF, "aten.mean.dim": SELF},
    ).having(Trait.SUMS, *_OF_ALL),
    *(
        _reduction(
            name, same_dtype, attribute("dim", ()), KEEPDIM, aten=defaults(name), exact=True
        ).having(*_OF_ALL)
        for name in ("amax", "amin")
    ),
    *(
        _reduction(
            f"{name}_all", same_dtype, call=f"torch.{name}", aten=defaults(name), exact=True
        ).having(Trait.ESTIMATED_BY_PART)
        for name in ("max", "min")
    ),
    *(
        _reduction(
            name, _selected, ONE_DIM, KEEPDIM,
            aten={f"aten.{name}.dim": SELF}, exact=True, indices=True,
        ).having(index, *_OF_ALL)
        for name, index in (("max", Trait.INDEX_OF_LARGEST), ("min", Trait.INDEX_OF_SMALLEST))
    ),
    *(
        _reduction(name, _index, DIM, KEEPDIM, aten=defaults(name), exact=True).having(index)
        for name, index in (("argmax", Trait.INDEX_OF_LARGEST), ("argmin", Trait.INDEX_OF_SMALLEST))
    ),
    _reduction(
        "prod", _prod, DIM, KEEPDIM, DTYPE,
        aten={"aten.prod.default": SELF, "aten.prod.dim_int": SELF},
    ).having(Trait.KNOWN_OF_ONE),
    _moment("std").having(Trait.ESTIMATED_BY_PART),
    _moment("var").having(Trait.ESTIMATED_BY_PART),
    _reduction(
        "norm", _norm, attribute("ord", 2, 1, 2, 3), DIM, KEEPDIM, DTYPE,
        call="torch.linalg.vector_norm", passes=2,
        aten={
            "aten.linalg_vector_norm.default": SELF,
            **{
                f"aten.norm.{kind}": {**SELF, "p": "ord"}
                for kind in ("Scalar", "ScalarOpt_dim", "ScalarOpt_dim_dtype", "ScalarOpt_dtype")
            },
        },
    ).having(*_OF_ALL),
    # max, subtract, exp, sum
    _reduction(
        "logsumexp", _floats, ONE_DIM, KEEPDIM, aten=defaults("logsumexp"), passes=4
    ).having(*_OF_ALL),
    *(
        _reduction(
            name, _truth, DIM, KEEPDIM, exact=True,
            aten={f"aten.{name}.{kind}": SELF for kind in ("default", "dim", "dims")},
        ).having(Trait.READS_TRUTH)
        for name in ("any", "all")
    ),
    *(
        _softmax_like(name).having(Trait.SOFTMAX, Trait.IGNORES_SHIFT, Trait.KNOWN_OF_ONE)
        for name in ("softmax", "log_softmax")
    ),
)  # fmt: skip
