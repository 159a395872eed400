"""Operator call -> Triton expression: one text for every pointwise operator.

Operands are variable names; floats have been widened to fp32, integers and bool keep their type.
Where PyTorch's result is accurate and the obvious formula is not (tanh and expm1 near 0, exp of
large arguments: `tl.exp` is ex2.approx, whose relative error grows with the argument), libdevice
has the accurate function. NaN passes through selections as in PyTorch.

Triton's `/` and `tl.sqrt` err by up to two ulp on a GPU. That is enough where the result is a float
to the end, and turns a tie the other way where it is rounded, cut or compared next: there quotients
and roots are the nearest floats (`tl.div_rn`, `tl.sqrt_rn`), as those of PyTorch are.

PyTorch on CUDA divides by a Python number in another way: it multiplies by the number's reciprocal,
an ulp off. Candidates divide there too. That is bit for bit what PyTorch makes on a CPU, and is
nearest to the float64 answer that the judge compares with; one source has to suit both devices.
"""

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

from kernelwright.ops.operator import DTYPE_BYTES, Kind
from kernelwright.ops.rules import is_float, is_int
from kernelwright.programs.dataflow import deciding_values
from kernelwright.programs.program import Call, Program, Ref


class NotWritable(ValueError):
    """The program has no kernel of the form that was tried; says why."""


Operands = Mapping[str, str]
"""Parameter -> text: a variable for a tensor, a literal for a number."""
Rule = Callable[[Call, Operands], str]

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
    "hardsigmoid": "tl.clamp({input} / 6 + 0.5, 0.0, 1.0)",
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
    "sqrt": "tl.sqrt({input})",
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
    "masked_fill": "tl.where({mask}, {value}, {input})",
}

_GELU_ERF = "0.5 * {input} * (1 + tl.erf({input} * 0.7071067811865476))"
_GELU_TANH = (
    "0.5 * {input} * (1 + libdevice.tanh("
    "0.7978845608028654 * ({input} + 0.044715 * {input} * {input} * {input})))"
)
_POWERS = {
    1: "{input}", 2: "{input} * {input}", 3: "{input} * {input} * {input}", -1: "1.0 / {input}",
    0.5: "tl.sqrt({input})", -0.5: "tl.rsqrt({input})", 0: "{input} * 0 + 1",
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
    text = on["input"]
    for bound, sign in (("min", "<"), ("max", ">")):
        if call.arg(bound) is not None:
            text = f"tl.where({on['input']} {sign} {on[bound]}, {on[bound]}, {text})"
    return text


def _sign(call: Call, on: Operands) -> str:
    if call.types[0].dtype == "bool":
        return on["input"]
    kind = triton_dtype(call.types[0].dtype)
    return "({input} > 0).to({kind}) - ({input} < 0).to({kind})".format(kind=kind, **on)


def _rounding(function: str) -> Rule:
    def rule(call: Call, on: Operands) -> str:
        return f"{function}({on['input']})" if is_float(call.types[0].dtype) else on["input"]

    return rule


def _bitwise_not(call: Call, on: Operands) -> str:
    return f"{on['input']} == 0" if call.types[0].dtype == "bool" else f"~{on['input']}"


def _to_dtype(call: Call, on: Operands) -> str:
    dtype = call.types[0].dtype
    if dtype == "bool":
        return f"{on['input']} != 0"
    return f"{on['input']}.to({triton_dtype(dtype)})"


def _sum(sign: str, first: str, second: str) -> Rule:
    def rule(call: Call, on: Operands) -> str:
        scale = "" if call.arg("alpha") == 1 else f"{on['alpha']} * "
        if call.types[0].dtype == "bool":
            return f"{on[first]} | {on[second]}"
        # rsub scales what it subtracts: other - alpha * input.
        return f"{on[first]} {sign} {scale}{on[second]}"

    return rule


def _div(call: Call, on: Operands) -> str:
    dividend, divisor, mode = on["input"], on["other"], call.arg("rounding_mode")
    if mode is None:
        return f"{dividend} / {divisor}"
    if not is_float(call.types[0].dtype):
        return _whole_div(call, on)
    quotient = f"tl.div_rn({dividend} + 0.0, {divisor} + 0.0)"
    if mode == "trunc":
        return f"libdevice.trunc({quotient})"
    # The nearest float to a quotient just below a whole number is that number: what the remainder
    # leaves is divided, which is whole but for the last bit.
    rest = f"libdevice.fmod({dividend} + 0.0, {divisor} + 0.0)"
    whole = f"libdevice.rint(tl.div_rn({dividend} - {rest}, {divisor} + 0.0))"
    is_below = f"({rest} != 0) & (({rest} < 0) != ({divisor} < 0))"
    text = f"{whole} - tl.where({is_below}, 1.0, 0.0)"
    if not isinstance(call.arg("other"), Ref):
        return text
    return f"tl.where({divisor} == 0, {quotient}, {text})"


def _whole_div(call: Call, on: Operands) -> str:
    """Of integers: the hardware rounds towards zero."""
    dividend, divisor = on["input"], on["other"]
    quotient = f"{dividend} // {divisor}"
    if call.arg("rounding_mode") == "trunc":
        return quotient
    is_below = f"(({dividend} % {divisor}) != 0) & (({dividend} < 0) != ({divisor} < 0))"
    return f"{quotient} - ({is_below}).to({triton_dtype(call.types[0].dtype)})"


def _fmod(call: Call, on: Operands) -> str:
    if is_float(call.types[0].dtype):
        return "libdevice.fmod({input} + 0.0, {other} + 0.0)".format(**on)
    return "{input} % {other}".format(**on)


def _shift(sign: str) -> Rule:
    """PyTorch says what a shift by fewer than no places, or by all, gives; the hardware does not:
    nothing is left but, to the right, the sign."""

    def rule(call: Call, on: Operands) -> str:
        dtype, places = call.types[0].dtype, call.arg("other")
        kind, bits = triton_dtype(dtype), 8 * DTYPE_BYTES[dtype]
        value = f"{on['input']}.to({kind})"
        if not isinstance(call.arg("input"), Ref):
            value = f"({on['other']} * 0 + {on['input']})"
        is_signed = sign == ">>" and dtype != "uint8"
        beyond = f"{value} >> {bits - 1}" if is_signed else f"{value} * 0"
        if not isinstance(places, Ref):
            return f"{value} {sign} {places}" if 0 <= places < bits else beyond
        is_inside = f"({on['other']} >= 0) & ({on['other']} < {bits})"
        return f"tl.where({is_inside}, {value} {sign} {on['other']}, {beyond})"

    return rule


def _remainder(call: Call, on: Operands) -> str:
    """With the sign of the divisor; what the hardware gives may have that of the dividend."""
    dividend, divisor = on["input"], on["other"]
    rest = f"{dividend} % {divisor}"
    if is_float(call.types[0].dtype):  # `+ 0.0` makes floats of whole numbers
        rest = f"libdevice.fmod({dividend} + 0.0, {divisor} + 0.0)"
    is_other = f"(({rest}) != 0) & ((({rest}) < 0) != ({divisor} < 0))"
    return f"tl.where({is_other}, ({rest}) + {divisor}, {rest})"


def _extremum(function: str) -> Rule:
    def rule(call: Call, on: Operands) -> str:
        nan = ", propagate_nan=tl.PropagateNan.ALL" if is_float(call.types[0].dtype) else ""
        return f"{function}({on['input']}, {on['other']}{nan})"

    return rule


def _pow(call: Call, on: Operands) -> str:
    exponent = call.arg("exponent")
    if exponent in _POWERS and (is_float(call.types[0].dtype) or exponent in (1, 2, 3)):
        return _POWERS[exponent].format(**on)
    if not is_float(call.types[0].dtype):
        raise NotWritable("integer power")
    return f"libdevice.pow({on['input']}, {on['exponent']})"


def _rounded_pow(call: Call, on: Operands) -> str:
    forms = {0.5: "tl.sqrt_rn({input})", -1: "tl.div_rn(1.0, {input})"}
    form = forms.get(call.arg("exponent")) if is_float(call.types[0].dtype) else None
    return form.format(**on) if form else _pow(call, on)


def _rounded_addcdiv(call: Call, on: Operands) -> str:
    scale = "" if call.arg("value") == 1 else f"{on['value']} * "
    return f"{on['input']} + {scale}tl.div_rn({on['tensor1']}, {on['tensor2']})"


def _rounded_div(call: Call, on: Operands) -> str:
    if call.arg("rounding_mode") is not None:
        return _div(call, on)
    return f"tl.div_rn({on['input']}, {on['other']})"


def _addc(sign: str) -> Rule:
    def rule(call: Call, on: Operands) -> str:
        scale = "" if call.arg("value") == 1 else f"{on['value']} * "
        return f"{on['input']} + {scale}{on['tensor1']} {sign} {on['tensor2']}"

    return rule


_RULES: dict[str, Rule] = {
    "gelu": _gelu,
    "softplus": _softplus,
    "clamp": _clamp,
    "sign": _sign,
    "floor": _rounding("tl.floor"),
    "ceil": _rounding("tl.ceil"),
    "round": _rounding("libdevice.rint"),
    "trunc": _rounding("libdevice.trunc"),
    "bitwise_not": _bitwise_not,
    "to_dtype": _to_dtype,
    "add": _sum("+", "input", "other"),
    "sub": _sum("-", "input", "other"),
    "rsub": _sum("-", "other", "input"),
    "div": _div,
    "remainder": _remainder,
    "fmod": _fmod,
    "bitwise_left_shift": _shift("<<"),
    "bitwise_right_shift": _shift(">>"),
    "maximum": _extremum("tl.maximum"),
    "minimum": _extremum("tl.minimum"),
    "pow": _pow,
    "addcmul": _addc("*"),
    "addcdiv": _addc("/"),
}


_ROUNDED: dict[str, Rule] = {
    "div": _rounded_div,
    "addcdiv": _rounded_addcdiv,
    "pow": _rounded_pow,
    "sqrt": lambda _, on: "tl.sqrt_rn({input})".format(**on),
    "reciprocal": lambda _, on: "tl.div_rn(1.0, {input})".format(**on),
    "softsign": lambda _, on: "tl.div_rn({input}, 1 + tl.abs({input}))".format(**on),
}
"""Operators that divide or take roots -> their text where the result has to be the nearest float.
rsqrt is none of them: PyTorch's own is `rsqrt.approx` too."""


def rounded_values(program: Program) -> frozenset[str]:
    """Names of a program's quotients and roots that have to be the nearest floats, because
    something discrete is made of them."""
    if all(call.op not in _ROUNDED for call in program.calls):
        return frozenset()
    deciding = deciding_values(program)
    makers = (call for call in program.calls if call.op in _ROUNDED)
    return frozenset(name for call in makers for name in call.outputs if name in deciding)


def is_pointwise(op: str) -> bool:
    """Whether `expression` has a text for the operator."""
    return op in _TEMPLATES or op in _RULES


def expression(call: Call, operands: Operands, rounded: Container[str] = ()) -> str:
    """Triton text of a pointwise call's result.

    Args:
        operands: tensor parameter -> variable that holds it (float operands in fp32); integers
            that meet floats are widened here.
        rounded: the program's `rounded_values`.

    Raises:
        NotWritable: no text for this operator with these arguments.
    """
    texts = {}
    for param in call.operator.params:
        value = call.arg(param.name)
        if isinstance(value, Ref):
            texts[param.name] = operands[param.name]
        elif param.kind is not Kind.ATTRIBUTE or isinstance(value, int | float):
            texts[param.name] = literal(value)
    if call.op in _ROUNDED and call.outputs[0] in rounded:
        return _ROUNDED[call.op](call, texts)
    if call.op in _RULES:
        return _RULES[call.op](call, texts)
    if call.op in _TEMPLATES:
        return _TEMPLATES[call.op].format(**texts)
    raise NotWritable(f"{call.op} is not a pointwise operator")


def literal(value: Any) -> str:
    """A number as Triton source; negative ones in parentheses."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return f"({value})" if value < 0 else f"{value}"


def triton_dtype(dtype: str) -> str:
    """The Triton type values of a dtype are computed in: fp32 for every float."""
    if is_float(dtype):
        return "tl.float32"
    return f"tl.{dtype}" if is_int(dtype) else "tl.int1"
