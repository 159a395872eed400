"""Texts of quotients, roots, remainders and shifts.

Triton's `/` and `tl.sqrt` err by up to two ulp on a GPU. That is enough where the result is a float
to the end, and turns a tie the other way where it is rounded, cut or compared next: there quotients
and roots are the nearest floats (`tl.div_rn`, `tl.sqrt_rn`), as those of PyTorch are.

PyTorch on CUDA divides by a Python number in another way: it multiplies by the number's reciprocal,
an ulp off. Candidates divide there too. That is bit for bit what PyTorch makes on a CPU, and is
nearest to the float64 answer that the judge compares with; one source has to suit both devices.
"""

from collections.abc import Callable, Mapping

from kernelwright.ops.operator import DTYPE_BYTES
from kernelwright.ops.rules import is_float
from kernelwright.programs.dataflow import deciding_values, rounds_quotient
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.text.dtypes import triton_dtype

Operands = Mapping[str, str]
"""Parameter -> text: a variable for a tensor, a literal for a number."""
Rule = Callable[[Call, Operands], str]


def div(call: Call, on: Operands) -> str:
    """Text of a `div` call with any rounding mode; without one, Triton's fast division."""
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
    """Text of a quotient of integers, rounded as the call says."""
    # The hardware rounds towards zero, so "floor" takes 1 from a negative quotient with a rest.
    dividend, divisor = on["input"], on["other"]
    quotient = f"{dividend} // {divisor}"
    if call.arg("rounding_mode") == "trunc":
        return quotient
    is_below = f"(({dividend} % {divisor}) != 0) & (({dividend} < 0) != ({divisor} < 0))"
    return f"{quotient} - ({is_below}).to({triton_dtype(call.types[0].dtype)})"


def fmod(call: Call, on: Operands) -> str:
    """Text of an `fmod` call: the rest has the sign of the dividend, as the hardware has it."""
    if is_float(call.types[0].dtype):
        return "libdevice.fmod({input} + 0.0, {other} + 0.0)".format(**on)
    return "{input} % {other}".format(**on)


def shift(sign: str, call: Call, on: Operands) -> str:
    """Text of a shift, `<<` or `>>`.

    PyTorch defines shifts by a negative number of places, and by all bits or more: the result is 0,
    or the sign for a shift of signed integers to the right. The hardware does not define them.
    """
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


def remainder(call: Call, on: Operands) -> str:
    """Text of a `remainder` call: the rest has the sign of the divisor."""
    # The hardware's rest has the sign of the dividend: the divisor is added if the signs differ.
    dividend, divisor = on["input"], on["other"]
    rest = f"{dividend} % {divisor}"
    if is_float(call.types[0].dtype):  # `+ 0.0` makes floats of whole numbers
        rest = f"libdevice.fmod({dividend} + 0.0, {divisor} + 0.0)"
    is_other = f"(({rest}) != 0) & ((({rest}) < 0) != ({divisor} < 0))"
    return f"tl.where({is_other}, ({rest}) + {divisor}, {rest})"


# Nearest floats

_NEAREST = {
    "div": "tl.div_rn({input}, {other})",
    "addcdiv": "{input} + {value} * tl.div_rn({tensor1}, {tensor2})",
    "sqrt": "tl.sqrt_rn({input})",
    "reciprocal": "tl.div_rn(1.0, {input})",
    "softsign": "tl.div_rn({input}, 1 + tl.abs({input}))",
    "pow": "",
}
"""Operators that divide or take roots -> their text where the result has to be the nearest float.
rsqrt is none of them: PyTorch's own is `rsqrt.approx` too."""
_NEAREST_POWERS = {0.5: _NEAREST["sqrt"], -1: _NEAREST["reciprocal"]}


def nearest(call: Call, on: Operands) -> str:
    """Text of a call's result as the nearest float; "" if the call has no such text."""
    if call.op == "pow" and is_float(call.types[0].dtype):
        return _NEAREST_POWERS.get(call.arg("exponent"), "").format(**on)
    if rounds_quotient(call):
        return ""
    return _NEAREST[call.op].format(**on)


def rounded_values(program: Program) -> frozenset[str]:
    """Names of a program's quotients and roots that have to be the nearest floats.

    A rounding, a comparison, a cast or an index is made of these values, so one ulp decides.
    """
    makers = [call for call in program.calls if call.op in _NEAREST]
    deciding = deciding_values(program) if makers else frozenset()
    return frozenset(name for call in makers for name in call.outputs if name in deciding)
