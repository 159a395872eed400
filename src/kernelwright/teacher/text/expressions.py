"""Operator call -> Triton expression: one text for every pointwise operator.

Operands are variable names; floats have been widened to fp32, integers and bool keep their type.
Where PyTorch's result is accurate and the obvious formula is not (tanh and expm1 near 0, exp of
large arguments: `tl.exp` is ex2.approx, whose relative error grows with the argument), libdevice
has the accurate function. NaN passes through selections as in PyTorch.
"""

import math
from collections.abc import Container
from functools import partial
from typing import Any

from kernelwright.ops.operator import ParameterKind
from kernelwright.ops.rules import is_float, is_int
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.text.divisions import (
    Operands,
    Rule,
    div,
    fmod,
    nearest,
    remainder,
    shift,
)
from kernelwright.teacher.text.dtypes import triton_dtype


class NotWritable(ValueError):
    """The program has no kernel of the form that was tried; the message says why."""


SELECTORS = ("condition", "mask")
"""Parameters that choose rather than compute: never widened."""
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

_TEMPLATES: dict[str, str] = {
    "relu": "tl.where({input} < 0, 0.0, {input})",
    "relu6": "tl.where({input} < 0, 0.0, tl.where({input} > 6, 6.0, {input}))",
    "leaky_relu": "tl.where({input} > 0, {input}, {input} * {negative_slope})",
    "sigmoid": "tl.sigmoid({input})",
    "tanh": "libdevice.tanh({input})",
    "silu": "{input} * tl.sigmoid({input})",
    "selu": f"{_SELU_SCALE} * tl.where({{input}} > 0, {{input}}, "
    f"{_SELU_ALPHA} * libdevice.expm1({{input}}))",
    "elu": "tl.where({input} > 0, {input}, {alpha} * libdevice.expm1({input}))",
    "celu": "tl.where({input} > 0, {input}, {alpha} * libdevice.expm1({input} / {alpha}))",
    "hardsigmoid": "tl.clamp({input} / 6 + 0.5, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL)",
    "hardtanh": "tl.where({input} < {min_val}, {min_val}, "
    "tl.where({input} > {max_val}, {max_val}, {input}))",
    "hardswish": "{input} * tl.clamp({input} / 6 + 0.5, 0.0, 1.0)",
    "mish": "{input} * libdevice.tanh(libdevice.log1p(tl.exp({input})))",
    "softsign": "{input} / (1 + tl.abs({input}))",
    "logsigmoid": "tl.minimum({input}, 0.0) - libdevice.log1p(tl.exp(-tl.abs({input})))",
    "threshold": "tl.where({input} <= {threshold}, {value}, {input})",
    "exp": "libdevice.exp({input})",
    "exp2": "tl.exp2({input})",
    "expm1": "libdevice.expm1({input})",
    "log": "tl.log({input})",
    "log2": "tl.log2({input})",
    "log1p": "libdevice.log1p({input})",
    "sqrt": "tl.sqrt_rn({input})",
    "rsqrt": "tl.rsqrt({input})",
    "reciprocal": "1.0 / {input}",
    "abs": "tl.abs({input})",
    "neg": "-{input}",
    "square": "{input} * {input}",
    "sin": "tl.sin({input})",
    "cos": "tl.cos({input})",
    "tan": "libdevice.tan({input})",
    "erf": "tl.erf({input})",
    "isnan": "{input} != {input}",
    "logical_not": "{input} == 0",
    "logical_and": "({input} != 0) & ({other} != 0)",
    "logical_or": "({input} != 0) | ({other} != 0)",
    "logical_xor": "({input} != 0) != ({other} != 0)",
    "bitwise_and": "{input} & {other}",
    "bitwise_or": "{input} | {other}",
    "bitwise_xor": "{input} ^ {other}",
    "mul": "{input} * {other}",
    "eq": "{input} == {other}",
    "ne": "{input} != {other}",
    "lt": "{input} < {other}",
    "le": "{input} <= {other}",
    "gt": "{input} > {other}",
    "ge": "{input} >= {other}",
    "where": "tl.where({condition}, {input}, {other})",
    "lerp": "{input} + {weight} * ({end} - {input})",
}

_LIBRARY = "acos asin asinh atan atanh cosh erfc erfinv lgamma log10 sinh"
_TEMPLATES |= {name: f"libdevice.{name}({{input}})" for name in _LIBRARY.split()}
_TEMPLATES |= {name: f"libdevice.{name}({{input}}, {{other}})" for name in ("atan2", "hypot")}

_GELU_ERF = "0.5 * {input} * (1 + tl.erf({input} * 0.7071067811865476))"
_GELU_TANH = (
    "0.5 * {input} * (1 + libdevice.tanh("
    "0.7978845608028654 * ({input} + 0.044715 * {input} * {input} * {input})))"
)
_POWERS = {
    1: "{input}", 2: "{input} * {input}", 3: "{input} * {input} * {input}", -1: "1.0 / {input}",
    0.5: "tl.sqrt_rn({input})", -0.5: "tl.rsqrt({input})",
    # 1 for NaN and infinity too; the comparison gives the number the tile's shape.
    0: "tl.where({input} == {input}, 1.0, 1.0)",
}  # fmt: skip


def _gelu(call: Call, on: Operands) -> str:
    return (_GELU_TANH if call.arg("approximate") == "tanh" else _GELU_ERF).format(**on)


def _softplus(call: Call, on: Operands) -> str:
    scaled = on["input"] if call.arg("beta") == 1 else f"({on['input']} * {on['beta']})"
    soft = f"libdevice.log1p(tl.exp({scaled}))"
    if call.arg("beta") != 1:
        soft = f"{soft} / {on['beta']}"
    return f"tl.where({scaled} > {on['threshold']}, {on['input']}, {soft})"


def _clamp(call: Call, on: Operands) -> str:
    low, high = call.arg("min"), call.arg("max")
    for name, limit in (("min", low), ("max", high)):
        if limit is not None and math.isnan(limit):  # PyTorch sets every element to NaN
            return f"{on['input']} + {on[name]}"
    # Where min is above max, PyTorch sets every element to max.
    lowest = on["max"] if None not in (low, high) and low > high else on.get("min")
    text = on["input"]
    for limit, bound, sign in ((low, lowest, "<"), (high, on.get("max"), ">")):
        if limit is not None:
            text = f"tl.where({on['input']} {sign} {bound}, {bound}, {text})"
    return text


def _sign(call: Call, on: Operands) -> str:
    if call.types[0].dtype == "bool":
        return on["input"]
    kind = triton_dtype(call.types[0].dtype)
    return "({input} > 0).to({kind}) - ({input} < 0).to({kind})".format(kind=kind, **on)


def _rounding(function: str, call: Call, on: Operands) -> str:
    return f"{function}({on['input']})" if is_float(call.types[0].dtype) else on["input"]


def _bitwise_not(call: Call, on: Operands) -> str:
    return f"{on['input']} == 0" if call.types[0].dtype == "bool" else f"~{on['input']}"


def _to_dtype(call: Call, on: Operands) -> str:
    dtype = call.types[0].dtype
    if dtype == "bool":
        return f"{on['input']} != 0"
    return f"{on['input']}.to({triton_dtype(dtype)})"


def _masked_fill(call: Call, on: Operands) -> str:
    value, fill = call.arg("value"), on["value"]
    # A kernel would store another number than 0 or 1 as that byte: no byte that PyTorch stores.
    if call.types[0].dtype == "bool" and not isinstance(value, Ref | bool):
        fill = str(int(value != 0))
    return f"tl.where({on['mask']}, {fill}, {on['input']})"


def _sum(sign: str, first: str, second: str, call: Call, on: Operands) -> str:
    scale = "" if call.arg("alpha") == 1 else f"{on['alpha']} * "
    if call.types[0].dtype == "bool":
        return f"{on[first]} | {on[second]}"
    # rsub scales what it subtracts: other - alpha * input.
    return f"{on[first]} {sign} {scale}{on[second]}"


def _extremum(function: str, call: Call, on: Operands) -> str:
    nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(call.types[0].dtype) else ""
    return f"{function}({on['input']}, {on['other']}{nan})"


def _pow(call: Call, on: Operands) -> str:
    exponent = call.arg("exponent")
    if exponent in _POWERS and (is_float(call.types[0].dtype) or exponent in (1, 2, 3)):
        return _POWERS[exponent].format(**on)
    if not is_float(call.types[0].dtype):
        raise NotWritable("integer power")
    return f"libdevice.pow({on['input']}, {on['exponent']})"


def _addc(sign: str, call: Call, on: Operands) -> str:
    scale = "" if call.arg("value") == 1 else f"{on['value']} * "
    return f"{on['input']} + {scale}{on['tensor1']} {sign} {on['tensor2']}"


_RULES: dict[str, Rule] = {
    "gelu": _gelu,
    "softplus": _softplus,
    "clamp": _clamp,
    "sign": _sign,
    "floor": partial(_rounding, "tl.floor"),
    "ceil": partial(_rounding, "tl.ceil"),
    "round": partial(_rounding, "libdevice.rint"),
    "trunc": partial(_rounding, "libdevice.trunc"),
    "bitwise_not": _bitwise_not,
    "masked_fill": _masked_fill,
    "to_dtype": _to_dtype,
    "add": partial(_sum, "+", "input", "other"),
    "sub": partial(_sum, "-", "input", "other"),
    "rsub": partial(_sum, "-", "other", "input"),
    "div": div,
    "remainder": remainder,
    "fmod": fmod,
    "bitwise_left_shift": partial(shift, "<<"),
    "bitwise_right_shift": partial(shift, ">>"),
    "maximum": partial(_extremum, "tl.maximum"),
    "minimum": partial(_extremum, "tl.minimum"),
    "pow": _pow,
    "addcmul": partial(_addc, "*"),
    "addcdiv": partial(_addc, "/"),
}


def is_pointwise(op: str) -> bool:
    """Whether `expression` has a text for the operator."""
    return op in _TEMPLATES or op in _RULES


def expression(call: Call, operands: Operands, rounded: Container[str] = ()) -> str:
    """Triton text of a pointwise call's result.

    Args:
        operands: tensor parameter -> variable that holds the tensor. Floats are in fp32; the caller
            has widened integers that meet floats.
        rounded: the program's `rounded_values`.

    Raises:
        NotWritable: no text for this operator with these arguments.
    """
    texts = {}
    for param in call.operator.params:
        value = call.arg(param.name)
        if isinstance(value, Ref):
            texts[param.name] = operands[param.name]
        elif param.kind is not ParameterKind.ATTRIBUTE or isinstance(value, int | float):
            # Beside a float, Triton would compute in fp32, which cannot hold large integers.
            is_cast = isinstance(value, float) and is_int(call.types[0].dtype)
            texts[param.name] = literal(int(value) if is_cast else value)
    if call.outputs[0] in rounded and (text := nearest(call, texts)):
        return text
    if call.op in _RULES:
        return _RULES[call.op](call, texts)
    if call.op in _TEMPLATES:
        return _TEMPLATES[call.op].format(**texts)
    raise NotWritable(f"{call.op} is not a pointwise operator")


def literal(value: Any) -> str:
    """A number as Triton source; negative numbers are in parentheses, infinities are calls."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return f"({value})" if value < 0 else f"{value}"
