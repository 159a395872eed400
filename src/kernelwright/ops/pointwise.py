"""Pointwise operators: unary, binary and ternary functions of broadcast arguments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from kernelwright.ops.operator import (
    REQUIRED,
    Bound,
    Domain,
    Layout,
    Numerics,
    Operator,
    Param,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    Aten,
    DtypeRule,
    attribute,
    broadcast,
    common,
    defaults,
    float_dtype,
    floating,
    flops_per_output,
    is_float,
    is_int,
    pointwise_layout,
    promote,
    require,
    same_dtype,
    tensor,
)
from kernelwright.ops.traits import Trait

_TENSOR_KINDS = (ParameterKind.TENSOR, ParameterKind.TENSOR_OR_SCALAR)
NEGATIVE_SLOPES = (0.01, 0.1, 0.2)


# Dtypes of results, each from a call's bound parameters


def _operands(b: Bound) -> list[TensorType]:
    return [value for value in b.values() if isinstance(value, TensorType)]


def _keeps(b: Bound) -> str:
    dtype = same_dtype(b)
    require(dtype != "bool", "not defined for bool")
    return dtype


def _floats(b: Bound) -> str:
    """The input's dtype; integers and bool become float32."""
    return floating(b["input"].dtype)


def _fraction(b: Bound) -> str:
    """The dtype of softsign: a ratio, which is a float, of values that are not bool."""
    return floating(_keeps(b))


def _common_float(b: Bound) -> str:
    common(*_operands(b))
    return float_dtype(b)


def _bits(b: Bound) -> str:
    dtype = promote(b["input"], b.get("other"))
    require(not is_float(dtype), f"defined for integers and bool only, not {dtype}")
    return dtype


def _shifted(b: Bound) -> str:
    dtype = _bits(b)
    require(dtype != "bool", "not defined for bool")
    return dtype


def _bool(_: Bound) -> str:
    return "bool"


def _promoted(b: Bound) -> str:
    return promote(b["input"], b["other"])


def _sum(b: Bound) -> str:
    dtype, alpha = _promoted(b), b["alpha"]
    require(is_float(dtype) or not isinstance(alpha, float), f"alpha {alpha} with dtype {dtype}")
    return dtype


def _difference(b: Bound) -> str:
    require(not any(t.dtype == "bool" for t in _operands(b)), "not defined for bool")
    return _sum(b)


def _remainder_dtype(b: Bound) -> str:
    dtype = _promoted(b)
    require(dtype != "bool", "not defined for bool")
    return dtype


def _distance(b: Bound) -> str:
    dtype = _promoted(b)
    require(is_float(dtype), f"defined for floats only, not {dtype}")
    return dtype


def _quotient(b: Bound) -> str:
    mode = b["rounding_mode"]
    require(mode in (None, "floor", "trunc"), f"rounding_mode {mode!r}")
    return floating(_promoted(b)) if mode is None else _promoted(b)


def _always(_: Bound) -> bool:
    return True


# Constructors


def _pointwise(
    name: str,
    call: str,
    params: tuple[Param, ...],
    dtype: DtypeRule,
    aten: Aten,
    domains: Mapping[str, Domain] | None = None,
    exact: bool = False,
    keeps_layout: bool = True,
    commutes: tuple[str, ...] = (),
    jumps: Callable[[Bound], bool] | None = None,
) -> Operator:
    operands = [p.name for p in params if p.kind in _TENSOR_KINDS]

    def types(b: Bound) -> tuple[TensorType, ...]:
        tensors = [b[key] for key in operands if isinstance(b[key], TensorType)]
        require(bool(tensors), "every operand is a number")
        shape = broadcast(*(t.shape for t in tensors))
        layout = pointwise_layout(shape, tensors) if keeps_layout else Layout.CONTIGUOUS
        return (TensorType(shape, dtype(b), layout),)

    return Operator(
        name=name,
        family="pointwise",
        call=call,
        params=params,
        types=types,
        flops=flops_per_output,
        numerics=Numerics.EXACT if exact else Numerics.POINTWISE,
        aten=aten,
        domains=domains or {},
        commutes=commutes,
        jumps=jumps,
    )


def _unary(
    name: str,
    dtype: DtypeRule,
    *attributes: Param,
    call: str = "",
    aten: Aten | None = None,
    domain: Domain = Domain.ANY,
    exact: bool = False,
    jumps: Callable[[Bound], bool] | None = None,
) -> Operator:
    return _pointwise(
        name,
        call or f"torch.{name}",
        (INPUT, *attributes),
        dtype,
        defaults(name) if aten is None else aten,
        {} if domain is Domain.ANY else {"input": domain},
        exact,
        jumps=jumps,
    )


def _activation(name: str, dtype: DtypeRule, *attributes: Param, **options: Any) -> Operator:
    return _unary(name, dtype, *attributes, call=f"F.{name}", **options)


def _binary(
    name: str,
    dtype: DtypeRule,
    *attributes: Param,
    numbers: str = "",
    second: str = "other",
    aten: Aten,
    domains: Mapping[str, Domain] | None = None,
    exact: bool = False,
    commutes: bool = False,
    jumps: Callable[[Bound], bool] | None = None,
) -> Operator:
    """A record of two operands; `numbers`: which of them may be a number, "", "right" or "both"."""
    either = ParameterKind.TENSOR_OR_SCALAR
    left = either if numbers == "both" else ParameterKind.TENSOR
    right = either if numbers else ParameterKind.TENSOR
    params = (tensor("input", left), tensor(second, right), *attributes)
    return _pointwise(
        name,
        f"torch.{name}",
        params,
        dtype,
        aten,
        domains,
        exact,
        commutes=("input", second) if commutes else (),
        jumps=jumps,
    )


def _overloads(*names: str) -> Aten:
    """The .Tensor and .Scalar overloads of ATen operators, for `Operator.aten`."""
    return {f"aten.{name}.{kind}": SELF for name in names for kind in ("Tensor", "Scalar")}


def _comparison(name: str, alias: str, commutes: bool = False) -> Operator:
    aten = _overloads(name, alias)
    return _binary(name, _bool, numbers="right", aten=aten, exact=True, commutes=commutes)


# The table

_TO_DTYPE = {**SELF, "non_blocking": "", "copy": "", "memory_format": ""}
_TO_COPY = {
    **SELF, "layout": "", "device": "", "pin_memory": "", "non_blocking": "", "memory_format": "",
}  # fmt: skip


def _clamp_dtype(b: Bound) -> str:
    require(b["min"] is not None or b["max"] is not None, "neither min nor max is given")
    return promote(b["input"], b["min"], b["max"])


def _square_dtype(b: Bound) -> str:
    return promote(b["input"], 2)


_UNARY = (
    _unary("relu", _keeps, exact=True).having(Trait.CLAMPS, Trait.CHEAP, unchanged=(0, inf)),
    _activation("relu6", _keeps, exact=True).having(Trait.CLAMPS, Trait.CHEAP, unchanged=(0, 6)),
    _activation(
        "leaky_relu", float_dtype, attribute("negative_slope", 0.01, *NEGATIVE_SLOPES),
    ).having(Trait.CHEAP, unchanged=(0, inf)),
    _unary("sigmoid", _floats),
    _unary("tanh", _floats),
    _activation("silu", float_dtype),
    _activation("gelu", float_dtype, attribute("approximate", "none", "none", "tanh")),
    _unary("selu", float_dtype),
    _activation(
        "elu", float_dtype, attribute("alpha", 1.0, 0.5, 1.0, 2.0),
    ).having(unchanged=(0, inf)),
    _activation("hardsigmoid", float_dtype).having(Trait.CHEAP),
    _activation(
        "hardtanh", _keeps, attribute("min_val", -1.0, -1.0, -0.5),
        attribute("max_val", 1.0, 0.5, 1.0, 2.0), exact=True,
    ).having(Trait.CLAMPS, Trait.CHEAP, unchanged=("min_val", "max_val")),
    _activation("hardswish", float_dtype).having(Trait.CHEAP),
    _activation("mish", float_dtype),
    _activation(
        "softplus", float_dtype, attribute("beta", 1.0, 0.5, 1.0, 2.0),
        attribute("threshold", 20.0, 10.0, 20.0),
    ),
    _activation("softsign", _fraction, aten={}),
    _activation("logsigmoid", float_dtype, aten=defaults("log_sigmoid")),
    _activation(
        "threshold", _keeps, attribute("threshold", REQUIRED, 0.0, 0.1, 0.5),
        attribute("value", REQUIRED, 0.0, -1.0, 2.0), exact=True, jumps=_always,
    ).having(Trait.CHEAP),
    _activation("celu", float_dtype, attribute("alpha", 1.0, 0.5, 1.0, 2.0)).having(
        unchanged=(0, inf)
    ),
    _unary(
        "clamp", _clamp_dtype, attribute("min", None, None, -1.0, 0.0),
        attribute("max", None, 0.5, 1.0), exact=True,
        aten=defaults("clamp", "clip", "clamp_min", "clamp_max"),
    ).having(Trait.CLAMPS, Trait.CHEAP, unchanged=("min", "max")),
    _unary("exp", _floats),
    _unary("exp2", _floats, aten=defaults("exp2", "special_exp2")),
    _unary("expm1", _floats),
    _unary("log", _floats, domain=Domain.POSITIVE),
    _unary("log2", _floats, domain=Domain.POSITIVE),
    _unary("log1p", _floats, domain=Domain.POSITIVE),
    _unary("sqrt", _floats, domain=Domain.POSITIVE),
    _unary("rsqrt", _floats, domain=Domain.POSITIVE),
    _unary("reciprocal", _floats, domain=Domain.NONZERO),
    _unary("abs", _keeps, exact=True).having(Trait.CHEAP, unchanged=(0, inf)),
    _unary("neg", _keeps, exact=True, aten=defaults("neg", "negative")).having(
        Trait.CHEAP, Trait.UNDOES_ITSELF
    ),
    _unary("sign", same_dtype, exact=True, aten=defaults("sign", "sgn"), jumps=_always).having(
        Trait.CHEAP
    ),
    _unary("square", _square_dtype).having(Trait.CHEAP),
    _unary("sin", _floats),
    _unary("cos", _floats),
    _unary("tan", _floats, domain=Domain.UNIT),  # its poles are at odd multiples of pi / 2
    *(_unary(name, _floats, domain=Domain.UNIT) for name in ("acos", "asin", "atanh")),
    *(_unary(name, _floats) for name in ("atan", "sinh", "cosh", "asinh")),
    *(_unary(name, _floats, domain=Domain.POSITIVE) for name in ("log10", "lgamma")),
    _unary("erf", _floats, aten=defaults("erf", "special_erf")),
    _unary("erfc", _floats, aten=defaults("erfc", "special_erfc")),
    _unary("erfinv", _floats, aten=defaults("erfinv", "special_erfinv"), domain=Domain.UNIT),
    _unary("floor", _keeps, exact=True, jumps=_always),
    _unary("ceil", _keeps, exact=True, jumps=_always),
    _unary("round", _keeps, exact=True, jumps=_always),
    _unary("trunc", _keeps, exact=True, jumps=_always, aten=defaults("trunc", "fix")),
    _unary("isnan", _bool, exact=True),
    _unary("logical_not", _bool, exact=True).having(Trait.READS_TRUTH, Trait.UNDOES_ITSELF),
    _unary("bitwise_not", _bits, exact=True).having(Trait.UNDOES_ITSELF),
    _unary(
        "to_dtype", lambda b: str(b["dtype"]),
        attribute("dtype", REQUIRED, "float16", "bfloat16", "float32"),
        call="torch.Tensor.to", exact=True,
        aten={"aten.to.dtype": _TO_DTYPE, "aten._to_copy.default": _TO_COPY},
    ).having(Trait.CHEAP),
)  # fmt: skip

_ALPHA = attribute("alpha", 1, 1, 2, 0.5)
_ROUNDING = attribute("rounding_mode", None)
_ANY_OPERANDS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")


def _needs_positive_base(b: Bound) -> bool:
    """Whether the base must be positive: the exponent is fractional, negative or a tensor."""
    exponent = b["exponent"]
    return isinstance(exponent, TensorType) or exponent < 0 or not float(exponent).is_integer()


_BINARY = (
    _binary("add", _sum, _ALPHA, numbers="both", aten=_overloads("add"), commutes=True).having(
        Trait.ADDS, Trait.SHIFTS, Trait.CHEAP, neutral=0
    ),
    _binary("sub", _difference, _ALPHA, numbers="both", aten=_overloads("sub", "subtract")).having(
        Trait.ADDS, Trait.SHIFTS, Trait.CHEAP, neutral=0
    ),
    _binary("rsub", _difference, _ALPHA, numbers="right", aten=_overloads("rsub")).having(
        Trait.ADDS, Trait.CHEAP
    ),
    _binary(
        "mul", _promoted, numbers="both", aten=_overloads("mul", "multiply"), commutes=True,
    ).having(Trait.SCALES, Trait.CHEAP, neutral=1),
    _binary(
        "div", _quotient, _ROUNDING, numbers="both",
        aten={
            **_overloads("div", "divide", "true_divide"),
            **{f"aten.{n}.{k}_mode": SELF for n in ("div", "divide") for k in ("Tensor", "Scalar")},
        },
        domains={"other": Domain.NONZERO}, jumps=lambda b: b["rounding_mode"] is not None,
    ).having(Trait.SCALES, neutral=1),
    _binary(
        "remainder", _remainder_dtype, numbers="both",
        aten={**_overloads("remainder"), "aten.remainder.Scalar_Tensor": SELF},
        domains={"other": Domain.NONZERO}, jumps=_always,
    ),
    _binary(
        "fmod", _remainder_dtype, numbers="right", aten=_overloads("fmod"),
        domains={"other": Domain.NONZERO}, jumps=_always,
    ),
    _binary("atan2", lambda b: floating(_promoted(b)), aten=defaults("atan2")),
    _binary("hypot", _distance, aten=defaults("hypot"), commutes=True),
    _binary(
        "maximum", _promoted, exact=True, commutes=True,
        aten={
            "aten.maximum.default": SELF, "aten.max.other": SELF,
            "aten.clamp_min.Tensor": {**SELF, "min": "other"},
        },
    ).having(Trait.CHEAP),
    _binary(
        "minimum", _promoted, exact=True, commutes=True,
        aten={
            "aten.minimum.default": SELF, "aten.min.other": SELF,
            "aten.clamp_max.Tensor": {**SELF, "max": "other"},
        },
    ).having(Trait.CHEAP),
    replace(
        _binary(
            "pow", lambda b: promote(b["input"], b["exponent"]), numbers="both", second="exponent",
            aten={f"aten.pow.{k}": SELF for k in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
            domains={"input": Domain.POSITIVE},
        ),
        domains_apply=_needs_positive_base,
        neutral=1,
    ),
    _comparison("eq", "eq", commutes=True).having(Trait.TESTS_EQUALITY),
    _comparison("ne", "not_equal", commutes=True).having(Trait.TESTS_EQUALITY),
    _comparison("lt", "less").having(Trait.ORDERS),
    _comparison("le", "less_equal").having(Trait.ORDERS),
    _comparison("gt", "greater").having(Trait.ORDERS),
    _comparison("ge", "greater_equal").having(Trait.ORDERS),
    *(
        _binary(name, _bool, exact=True, aten=defaults(name), commutes=True).having(
            Trait.READS_TRUTH
        )
        for name in ("logical_and", "logical_or", "logical_xor")
    ),
    *(
        _binary(
            f"bitwise_{name}", _bits, numbers="right", exact=True, commutes=True,
            aten=_overloads(f"bitwise_{name}", f"__{name}__"),
        )
        for name in ("and", "or", "xor")
    ),
    *(
        _binary(
            f"bitwise_{side}_shift", _shifted, numbers="both", exact=True,
            aten={
                **{f"aten.bitwise_{side}_shift.{kind}": SELF for kind in _ANY_OPERANDS},
                **_overloads(f"__{side[0]}shift__"),
            },
        )
        for side in ("left", "right")
    ),
)  # fmt: skip


def _where_dtype(b: Bound) -> str:
    require(b["condition"].dtype == "bool", "the condition is not bool")
    return promote(b["input"], b["other"])


def _masked_fill_dtype(b: Bound) -> str:
    require(b["mask"].dtype == "bool", "the mask is not bool")
    value = b["value"]
    require(not isinstance(value, TensorType) or value.rank == 0, "value has dimensions")
    return same_dtype(b)


def _addcmul_dtype(b: Bound) -> str:
    dtype = promote(b["input"], b["tensor1"], b["tensor2"])
    require(dtype != "bool", "not defined for bool")
    return dtype


def _addcdiv_dtype(b: Bound) -> str:
    require(not is_int(promote(b["tensor1"], b["tensor2"])), "integer division")
    return _addcmul_dtype(b)


_TERNARY = (
    _pointwise(
        "where", "torch.where",
        (
            tensor("condition"), tensor("input", ParameterKind.TENSOR_OR_SCALAR),
            tensor("other", ParameterKind.TENSOR_OR_SCALAR),
        ),
        _where_dtype, exact=True,
        aten={f"aten.where.{k}": SELF for k in ("self", "ScalarOther", "ScalarSelf", "Scalar")},
    ).having(Trait.CHEAP),
    _pointwise(
        "lerp", "torch.lerp",
        (INPUT, tensor("end"), tensor("weight", ParameterKind.TENSOR_OR_SCALAR)),
        _common_float, _overloads("lerp"),
    ).having(Trait.CHEAP),
    _pointwise(
        "masked_fill", "torch.masked_fill",
        (INPUT, tensor("mask"), tensor("value", ParameterKind.TENSOR_OR_SCALAR)),
        _masked_fill_dtype, _overloads("masked_fill"), exact=True, keeps_layout=False,
    ).having(Trait.CHEAP),
    *(
        _pointwise(
            name, f"torch.{name}",
            (
                INPUT, tensor("tensor1"), tensor("tensor2"),
                attribute("value", 1, 0.5, 1, 2),
            ),
            dtype, defaults(name), domains, commutes=commutes,
        ).having(*traits)
        for name, dtype, domains, commutes, traits in (
            ("addcmul", _addcmul_dtype, {}, ("tensor1", "tensor2"), (Trait.CHEAP,)),
            ("addcdiv", _addcdiv_dtype, {"tensor2": Domain.NONZERO}, (), ()),
        )
    ),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = (*_UNARY, *_BINARY, *_TERNARY)
