"""Guest side: the arguments of a launch, without code of the candidate's.

Triton's interpreter runs a launch where no observer of PyTorch's modes looks. Methods and
properties of the candidate's own classes would compute there. So they run before the launch, and
the kernel gets their results. On a GPU they run when the kernel is compiled.
"""

import sys
from collections import namedtuple
from collections.abc import Callable
from enum import Enum
from functools import cache
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITCallable, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

_NUMBERS = (bool, int, float, str)
_STOCK_PACKAGES = ("torch", "triton")
_OF_PYTHON = (type(None), type(...), slice, range, bytes, complex)
_FOLDERS = (str(Path(triton.__file__).parent), str(Path(__file__).parent))
"""The folders of functions that a kernel may call: those of the second replace libdevice's."""
_MAX_DEPTH = 4
"""Objects within each other; deeper values are left out."""


class HostCode(Exception):
    """An argument would run Python in the launch, which no GPU does."""


def plain_number(value: Any) -> Any:
    """Returns a number or text of a candidate's own class as a plain value. Its methods would
    compute inside the launch."""
    for kind in _NUMBERS:
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    return value


def has_code_in_constants(function: Any) -> bool:
    """Whether a constant in the file of a kernel is of the candidate's own class, whose methods the
    interpreter would call."""
    values = function.__globals__.values()
    return any(isinstance(v, tl.constexpr) and type(v) is not tl.constexpr for v in values)


def plain(value: Any, depth: int = 0) -> Any:
    """Returns an argument as the interpreter may get it: tensors, functions for kernels and plain
    data as they are, other objects as a namespace of their public attributes.

    Raises:
        HostCode: the argument is a function that no kernel can call.
    """
    value = plain_number(value)
    if type(value) in _NUMBERS or isinstance(value, torch.Tensor):
        return value
    if isinstance(value, tuple):
        return _tuple(value, depth)
    if isinstance(value, Enum):
        return SimpleNamespace(name=value._name_, value=plain(value._value_, depth + 1))
    if type(value) in (list, dict, tl.constexpr, TensorDescriptor, TensorWrapper):
        return _container(value, depth)
    if isinstance(value, JITCallable | InterpretedFunction):
        return value
    if tl.core.is_builtin(value) and _is_of_triton(value):
        return _of_language(value.__name__)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, FunctionType) and _is_of_triton(value):
        return value
    if callable(value) or isinstance(value, np.ndarray):
        raise HostCode(getattr(value, "__name__", type(value).__name__))
    return value if _is_stock(type(value)) else _namespace(value, depth)


def _tuple(value: tuple[Any, ...], depth: int) -> Any:
    items = [plain(item, depth + 1) for item in tuple.__iter__(value)]
    fields = getattr(type(value), "_fields", None)
    if not isinstance(fields, tuple) or len(fields) != len(items):
        return tuple(items)
    return _record(type(value).__name__, fields)(*items)


@cache
def _record(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple(name, fields, rename=True)


def _container(value: Any, depth: int) -> Any:
    """Returns a container of PyTorch's, Triton's or Python's own with plain contents."""
    inside = depth + 1
    if type(value) is list:
        return [plain(item, inside) for item in value]
    if type(value) is dict:
        return {plain(key, inside): plain(item, inside) for key, item in value.items()}
    if type(value) is tl.constexpr:
        return tl.constexpr(plain(value.value, inside))
    if not isinstance(value.base, torch.Tensor):
        raise HostCode(type(value.base).__name__)
    if type(value) is TensorWrapper:
        return value
    sizes = [[plain(n, depth + 1) for n in part] for part in (value.shape, value.strides)]
    kept = value.block_shape, value.padding, value.round_f32_to_tf32
    return TensorDescriptor(value.base, *sizes, *kept)


def _namespace(value: Any, depth: int) -> Any:
    """Returns the public attributes of an object. Methods are left out."""
    attributes = {}
    for name in dir(value) if depth < _MAX_DEPTH else ():
        if name.startswith("_"):
            continue
        try:
            attributes[name] = plain(getattr(value, name), depth + 1)
        except HostCode:
            continue
    return SimpleNamespace(**attributes)


@cache
def _of_language(name: str) -> Callable[..., Any]:
    """Returns a function of `triton.language` as the interpreter patches it for the launch."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(tl, name)(*args, **kwargs)

    return function


def _is_of_triton(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return getattr(code, "co_filename", "").startswith(_FOLDERS)


def _is_stock(kind: type) -> bool:
    """Whether the class is one of PyTorch's or Triton's, or of Python's values without contents. A
    class may lie about its module."""
    if kind in _OF_PYTHON:
        return True
    home = sys.modules.get(str(kind.__module__))
    is_home = str(kind.__module__).partition(".")[0] in _STOCK_PACKAGES
    return is_home and getattr(home, kind.__name__, None) is kind
