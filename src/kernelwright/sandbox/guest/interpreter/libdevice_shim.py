"""Guest side: `libdevice` functions for the interpreter, computed by torch element by element."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

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
    "round",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]

_OTHER: dict[str, Callable[..., torch.Tensor]] = {
    "cbrt": lambda x: x.sign() * x.abs().pow(1 / 3),
    "div_rn": torch.div,
    "erfcinv": lambda x: torch.special.erfinv(1 - x),
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
    "fdim": lambda x, y: (x - y).clamp(min=0),
    "finitef": torch.isfinite,
    "fma": lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "lgamma": torch.lgamma,
    "mul_rn": torch.mul,
    "nearbyint": torch.round,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "rcp_rn": torch.reciprocal,
    "rint": torch.round,
    "round": lambda x: x.sign() * (x.abs() + 0.5).floor(),  # halves away from zero
    "signbit": torch.signbit,
    "sqrt_rn": torch.sqrt,
    "tgamma": lambda x: torch.lgamma(x).exp(),
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
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
        data = function(*floats).numpy()
        dtype = tl.int1 if data.dtype == np.bool_ else tensors[0].dtype.scalar
        is_block = any(t.type.is_block() for t in tensors)
        kind = tl.block_type(dtype, list(data.shape)) if is_block else dtype
        return tl.tensor(stock.TensorHandle(data, dtype), kind)

    return call
