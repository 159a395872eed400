"""Guest side: Triton's interpreter, made trustworthy. Patches for Triton 3.6 and 3.7.

The interpreter as released computes bfloat16 on the raw bit pattern, writes outside buffers into
the host's heap, and computes tf32 dots in full fp32. It knows no libdevice and (3.6 with NumPy 2.4)
no runtime loop bounds. After `install`:
- bfloat16 values are `ml_dtypes.bfloat16`, rounded to nearest;
- every load, store and atomic must fall inside the storage of an argument, else `OutOfBounds`
  (`interpreter.bounds`);
- `tl.dot` rounds its operands as `input_precision` says;
- `libdevice` functions are computed by torch;
- `tl.maximum`, `tl.minimum` and `tl.clamp` drop NaN without `propagate_nan`, as on a GPU;
- reductions and scans by functions of the kernel's take arrays, not single elements;
- programs of kernels that do not wait for each other run in a drawn order (`interpreter.order`),
  and must not load what others have stored (`interpreter.races`).
Not seen: races inside a program, and of kernels that wait; overruns inside one storage.
"""

from typing import Any

import ml_dtypes
import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as stock

from kernelwright.sandbox.guest.interpreter.bounds import MemoryBounds, named_tensors
from kernelwright.sandbox.guest.interpreter.races import stores
from kernelwright.sandbox.guest.witness import own_work

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def forget(module: str) -> None:
    """Removes the functions that were rewritten for a module, which Triton would keep alive."""
    rewritten = stock.InterpretedFunction.rewritten_fn
    for function in [patched for patched in rewritten if patched.__module__ == module]:
        del rewritten[function]


def install() -> None:
    """Patch the interpreter of this process."""
    _install_bfloat16()
    _install_bounds()
    _install_dot()
    _install_extrema()
    _install_small_remedies()
    from kernelwright.sandbox.guest.interpreter import libdevice_shim
    from kernelwright.sandbox.guest.interpreter import order as interpreter_order
    from kernelwright.sandbox.guest.interpreter import scopes as interpreter_scopes
    from kernelwright.sandbox.guest.interpreter import trees as interpreter_trees

    interpreter_order.install()
    interpreter_scopes.install()
    interpreter_trees.install()
    libdevice_shim.install()


# -- bfloat16


def _install_bfloat16() -> None:
    builder: Any = stock.InterpreterBuilder
    stock_dtype, stock_cast, stock_fp = (
        stock._get_np_dtype,
        builder.cast_impl,
        builder.create_fp_to_fp,
    )

    known: dict[str, Any] = {"bf16": BFLOAT16}

    def np_dtype(dtype: Any) -> Any:
        scalar = dtype.scalar
        if isinstance(scalar, tl.pointer_type):
            return np.dtype(np.uint64)
        if scalar.name not in known:  # the stock table is rebuilt at every look-up
            known[scalar.name] = stock_dtype(scalar)
        return known[scalar.name]

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        if tl.bfloat16 in (src.dtype.scalar, dst_type.scalar):
            return stock.TensorHandle(src.data.astype(np_dtype(dst_type)), dst_type.scalar)
        return stock_cast(self, src, dst_type)

    def fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        narrow = min(src.dtype.scalar.primitive_bitwidth, dst_type.scalar.primitive_bitwidth)
        if narrow >= 16 and rounding_mode != stock._ir.ROUNDING_MODE.RTZ:
            return stock.TensorHandle(src.data.astype(np_dtype(dst_type)), dst_type.scalar)
        return stock_fp(self, src, dst_type, rounding_mode)

    stock._get_np_dtype = np_dtype
    builder.cast_impl = cast
    builder.create_fp_to_fp = fp_to_fp


# -- bounds

_bounds = MemoryBounds()


def _install_bounds() -> None:
    executor: Any = stock.GridExecutor
    stock_init = executor._init_args_hst

    def init_args(self: Any, args_dev: Any, kwargs: Any) -> Any:
        args, keywords = stock_init(self, args_dev, kwargs)
        named = [*zip(self.arg_names, args, strict=False), *keywords.items()]
        _bounds.enter([pair for name, value in named for pair in named_tensors(name, value)])
        stores.start(self.fn)
        return args, keywords

    executor._init_args_hst = init_args
    builder: Any = stock.InterpreterBuilder
    _install_load_and_store(builder)
    stock_rmw, stock_cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        _bounds.check("atomic", ptr, mask.data)
        return stock_rmw(self, op, ptr, val, mask, *rest)

    def atomic_cas(self: Any, ptr: Any, *rest: Any) -> Any:
        _bounds.check("atomic", ptr, np.ones(1, dtype=bool))
        return stock_cas(self, ptr, *rest)

    builder.create_atomic_rmw, builder.create_atomic_cas = atomic_rmw, atomic_cas


def _install_load_and_store(builder: Any) -> None:
    """Checks the bounds of each load and store. The C++ side moves plain types only, so bfloat16
    crosses as its bits."""
    stock_load, stock_store = builder.create_masked_load, builder.create_masked_store

    def load(self: Any, ptrs: Any, mask: Any, other: Any, *hints: Any, **named: Any) -> Any:
        _bounds.check("load", ptrs, mask.data)
        dtype = ptrs.get_element_ty()
        if dtype != tl.bfloat16:  # loads of a descriptor name their caching hints
            return stock_load(self, ptrs, mask, other, *hints, **named)
        fill = np.zeros(ptrs.data.shape, np.uint16) if other is None else _bits(other.data)
        data = stock._interpreter.load(ptrs.data, mask.data, fill, np.dtype(np.uint16))
        return stock.TensorHandle(data.view(BFLOAT16), dtype)

    def store(self: Any, ptrs: Any, value: Any, mask: Any, *hints: Any, **named: Any) -> Any:
        _bounds.check("store", ptrs, mask.data)
        if value.data.dtype == BFLOAT16:
            value = stock.TensorHandle(_bits(value.data), tl.uint16)
        return stock_store(self, ptrs, value, mask, *hints, **named)

    builder.create_masked_load, builder.create_masked_store = load, store


def _bits(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(data).astype(BFLOAT16, copy=False).view(np.uint16)


# -- dot


def _install_dot() -> None:
    builder: Any = stock.InterpreterBuilder
    precisions = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    # Without `debug`, Triton computes whether integers overflow, and then does not look: a third of
    # the time of a small kernel.
    stock.interpreter_builder.options = stock.InterpreterOptions(
        allowed_dot_input_precisions=precisions, sanitize_overflow=False
    )
    stock_dot = builder.create_dot

    def dot(self: Any, a: Any, b: Any, d: Any, precision: Any, max_imprecise: Any) -> Any:
        if a.data.dtype != np.float32 and a.data.dtype != BFLOAT16:
            return stock_dot(self, a, b, d, precision, max_imprecise)
        kinds = stock._ir.INPUT_PRECISION
        left, right = a.data.astype(np.float32), b.data.astype(np.float32)
        if a.data.dtype == BFLOAT16:
            product = np.matmul(left, right)
        elif precision == kinds.TF32:
            product = np.matmul(_tf32(left), _tf32(right))
        elif precision == kinds.BF16x3:
            product = _bf16x3(left, right)
        else:
            product = np.matmul(left, right)
        return stock.TensorHandle(product.astype(d.data.dtype) + d.data, d.dtype.scalar)

    builder.create_dot = dot


def _tf32(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ten mantissa bits: the tensor cores drop the others."""
    return (data.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _bf16x3(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Three products of high and low bfloat16 parts."""
    highs = [x.astype(BFLOAT16).astype(np.float32) for x in (left, right)]
    lows = [
        (x - high).astype(BFLOAT16).astype(np.float32)
        for x, high in zip((left, right), highs, strict=True)
    ]
    small = np.matmul(highs[0], lows[1]) + np.matmul(lows[0], highs[1])
    product: np.ndarray[Any, Any] = small + np.matmul(highs[0], highs[1])
    return product


# -- extrema


def _install_extrema() -> None:
    """Drops NaN where a GPU does: `min.f32` and `max.f32` return the operand that is a number."""
    builder: Any = stock.InterpreterBuilder

    def smaller(self: Any, left: Any, right: Any) -> Any:
        return self.binary_op(left, right, np.fmin)

    def larger(self: Any, left: Any, right: Any) -> Any:
        return self.binary_op(left, right, np.fmax)

    def clamp(self: Any, value: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
        if propagate_nan == stock._ir.PROPAGATE_NAN.ALL:
            return self.ternary_op(value, low, high, np.clip)
        return smaller(self, larger(self, value, low), high)

    builder.create_minnumf, builder.create_maxnumf = smaller, larger
    builder.create_clampf = clamp


# -- the rest


def _install_small_remedies() -> None:
    stock_patch = stock._patch_lang_tensor

    def patch_tensor(tensor: Any, scope: Any) -> None:
        stock_patch(tensor, scope)
        # a runtime loop bound is a one-element array; NumPy 2.4 refuses int() of those
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    def erf(_self: Any, arg: Any) -> Any:
        with own_work():
            data = torch.special.erf(torch.from_numpy(np.ascontiguousarray(arg.data))).numpy()
        return stock.TensorHandle(data, arg.dtype.scalar)

    function: Any = stock.InterpretedFunction

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # a call of one kernel function by another, which stock leaves triton.language patched after
        scope = stock._patch_lang(self.fn)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise stock.InterpreterError(repr(error)) from error
        finally:
            scope.restore()

    stock._patch_lang_tensor = patch_tensor
    function.__call__ = call

    def splat(_self: Any, made: Any, arg: Any) -> Any:
        # stock goes by the handle's type, which of a comparison is that of what was compared
        data = np.full(made.shape, arg.data, dtype=arg.data.dtype)
        return stock.TensorHandle(data, arg.dtype.scalar)

    builder: Any = stock.InterpreterBuilder
    builder.create_erf, builder.create_splat = erf, splat
