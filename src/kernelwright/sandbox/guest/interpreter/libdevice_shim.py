"""Guest side: `libdevice` functions for the interpreter, element by element.

PyTorch computes most of them. NumPy and the C library compute those for which PyTorch is less
accurate than the device library.
"""

import ctypes
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelwright.sandbox.guest.witness import own_work

_MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")

_SAME_NAME = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "isnan",
    "isinf",
    "isfinite",
    "log",
    "log10",
    "log1p",
    "log2",
    "nextafter",
    "pow",
    "rsqrt",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "trunc",
]


def _by_numpy(function: np.ufunc) -> Callable[..., torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        with np.errstate(all="ignore"):  # NaN is an answer
            return torch.from_numpy(np.asarray(function(x.numpy())))

    return call


def _one_by_one(function: Callable[..., float]) -> Callable[..., torch.Tensor]:
    """Applies a function of Python floats to each element, and rounds to the type of the first
    tensor."""

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        rows = zip(*(t.double().flatten().tolist() for t in tensors), strict=True)
        values = torch.tensor([function(*row) for row in rows], dtype=torch.float64)
        return values.view(tensors[0].shape).to(tensors[0].dtype)

    return call


def _of_libm(name: str, num_arguments: int = 1) -> Callable[..., torch.Tensor]:
    """Returns a function of the C library, which Python and PyTorch have loaded."""
    function = ctypes.CDLL(None)[name]
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * num_arguments
    return _one_by_one(function)


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:  # a large x, or one beside 0
        return math.copysign(math.inf, x)
    except ValueError:  # a pole: 0 has a side, the others have none
        return math.copysign(math.inf, x) if x == 0 else math.nan


def _normcdf(x: torch.Tensor) -> torch.Tensor:
    """Computes the lower tail without `1 + erf`, which cancels there."""
    size = x.double().abs().clamp(max=40.0)
    # The square of the high part is exact; exp would magnify the rounding of `size * size`.
    high = size.float().double()
    power = (-0.5 * high * high).exp() * (-0.5 * (size - high) * (size + high)).exp()
    steps = size * math.sqrt(0.5)
    tail = torch.where(size < 1, torch.erfc(steps), torch.special.erfcx(steps) * power) / 2
    return torch.where(x > 0, 1 - tail, tail).to(x.dtype)


def _round(x: torch.Tensor) -> torch.Tensor:
    """Rounds halves away from zero. `x + 0.5` would round itself: below 0.5, and from 2^23 on."""
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + x.sign(), whole)


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.float64:
        return _exact_fma(x, y, z)
    return (x.double() * y.double() + z.double()).to(x.dtype)


_exact_fma = _of_libm("fma", 3)

_OTHER: dict[str, Callable[..., torch.Tensor]] = {
    "cbrt": _by_numpy(np.cbrt),
    "div_rn": torch.div,
    # `erfinv(1 - x)` would lose small x.
    "erfcinv": lambda x: (-torch.special.ndtri(x.double() / 2) * math.sqrt(0.5)).to(x.dtype),
    "erfinv": torch.special.erfinv,
    "exp10": lambda x: torch.pow(10.0, x),
    "fabs": torch.abs,
    "fast_cosf": torch.cos,
    "fast_dividef": torch.div,
    "fast_exp10f": lambda x: torch.pow(10.0, x),
    "fast_expf": torch.exp,
    "fast_log10f": torch.log10,
    "fast_log2f": torch.log2,
    "fast_logf": torch.log,
    "fast_powf": torch.pow,
    "fast_sinf": torch.sin,
    "fast_tanf": torch.tan,
    "fast_tanhf": torch.tanh,
    "fdim": lambda x, y: torch.where(x <= y, 0.0, x - y),
    "finitef": torch.isfinite,
    "fma": _fma,
    "j0": _of_libm("j0"),
    "j1": _of_libm("j1"),
    "lgamma": torch.lgamma,
    "mul_rn": torch.mul,
    "nearbyint": torch.round,
    "normcdf": _normcdf,
    "normcdfinv": torch.special.ndtri,
    "rcp_rn": torch.reciprocal,
    "rint": torch.round,
    "round": _round,
    "signbit": torch.signbit,
    "sqrt": _by_numpy(np.sqrt),  # PyTorch may not round to nearest
    "sqrt_rn": _by_numpy(np.sqrt),
    "tgamma": _one_by_one(_gamma),
    "y0": _of_libm("y0"),
    "y1": _of_libm("y1"),
}


def install() -> None:
    """Replace the functions in both modules that offer them."""
    table = {**{name: vars(torch).get(name) for name in _SAME_NAME}, **_OTHER}
    for module_name in _MODULES:
        module = importlib.import_module(module_name)
        for name, function in table.items():
            if name in vars(module) and function is not None:
                setattr(module, name, _elementwise(function))


def _elementwise(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def call(*args: Any, _semantic: Any = None) -> Any:
        tensors = [stock.interpreter_semantic.to_tensor(arg, False) for arg in args]
        arrays = np.broadcast_arrays(*(t.handle.data for t in tensors))
        floats = [torch.from_numpy(np.array(array)) for array in arrays]
        with own_work():
            data = function(*floats).numpy()
        dtype = tl.int1 if data.dtype == np.bool_ else tensors[0].dtype.scalar
        is_block = any(t.type.is_block() for t in tensors)
        kind = tl.block_type(dtype, list(data.shape)) if is_block else dtype
        return tl.tensor(stock.TensorHandle(data, dtype), kind)

    return call
