"""Runs reference code in fp64 without changing what it computes.

Doubling inputs and parameters is not enough: code that names a dtype would fall back to it, and a
random draw in fp64 is another draw. `InDouble` sits at the dispatcher, below every PyTorch
function, and keeps floats double and draws native.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from kernelwright.core.errors import UsageError
from kernelwright.sandbox.shared.modes import PlainDispatchMode
from kernelwright.sandbox.shared.seeding import seed_generators

aten = torch.ops.aten

FILLS = {
    aten.bernoulli_.float, aten.bernoulli_.Tensor, aten.uniform_.default, aten.normal_.default,
    aten.exponential_.default, aten.log_normal_.default, aten.cauchy_.default,
}  # fmt: skip
"""Overloads that fill their first argument with random draws."""
DRAWS = {
    aten.rand.default, aten.randn.default, aten.rand_like.default, aten.randn_like.default,
    aten.bernoulli.default, aten.bernoulli.p, aten.normal.Tensor_Tensor, aten.normal.Tensor_float,
    aten.normal.float_Tensor, aten.normal.float_float,
}  # fmt: skip
"""Overloads that return random draws."""
CONTRACTIONS: dict[Any, tuple[int, ...]] = {
    aten.mm.default: (0, 1),
    aten.bmm.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.baddbmm.default: (1, 2),
    aten.convolution.default: (0, 1),
    aten._scaled_dot_product_flash_attention_for_cpu.default: (0, 1, 2),
    aten._scaled_dot_product_flash_attention.default: (0, 1, 2),
    aten._scaled_dot_product_efficient_attention.default: (0, 1, 2),
    aten._scaled_dot_product_cudnn_attention.default: (0, 1, 2),
}
"""Overload that tensor cores may compute -> positions of its factors among the arguments."""
INDEX_TYPES = (torch.int32, torch.int64)
"""The types that floats are cast to where they become indices."""
COPIES = {aten.clone.default, aten._to_copy.default}
"""Overloads that compute nothing: in fp64 a cast between float types rounds nothing either."""


@dataclass(frozen=True, slots=True)
class Nudges:
    """How values are moved before they are rounded. A hash of each value says how far the value
    moves, and each salt gives other moves."""

    salt: int
    dtype: torch.dtype
    """The type to which values are rounded."""
    ulps: float = 1.0
    """The largest move, in ulps of `dtype`."""
    are_alike: bool = False
    """Whether equal values move alike, as they do in any kernel. Else each element moves by itself,
    as the terms of a sum do in another order."""


class InDouble(PlainDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode under which code computes in fp64, and draws random numbers in `native`.

    With `tf32`, the factors of contractions are cut to TF32's 10 mantissa bits, as the hardware
    does. The error of the result is then the error that TF32 causes in this computation. With
    `nudges`, each result of an operator moves and is rounded, unless the type of the nudges holds
    the result exactly.
    """

    def __init__(
        self,
        native: torch.dtype,
        *,
        tf32: bool = False,
        nudges: Nudges | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.native, self.tf32, self.nudges = native, tf32, nudges

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in FILLS and args[0].dtype is torch.float64:
            # A double generator draws other numbers than a float one. Drawn in the native type and
            # copied, the oracle sees the numbers of the reference.
            drawn = torch.empty_like(args[0], dtype=self.native)
            func(drawn, *args[1:], **kwargs)
            return args[0].copy_(drawn)
        if func in DRAWS:
            return self._draw(func, args, kwargs)
        if func is aten.view.dtype:
            return self._same_bits(*args)
        # The fused operator draws its mask in the type of its input, which is fp64 here.
        if func is aten.native_dropout.default:
            return self._dropout(*args, **kwargs)
        # Code that names float32 asks for float64 here: otherwise a cast in the middle would round.
        args, kwargs = tree_map(_doubled_dtype, (args, kwargs))
        if self.tf32 and func in CONTRACTIONS:
            factors = CONTRACTIONS[func]
            args = tuple(cut_to_tf32(a) if i in factors else a for i, a in enumerate(args))
        result = STABLE.get(func, func)(*args, **kwargs)
        if self.nudges is not None and _is_cast(func, args):
            check_cast(result.dtype, self.nudges)
        # Copies and views round nothing, and a view must keep sharing memory. A result that a call
        # writes in place has moved already.
        if self.nudges is None or func in COPIES or func.is_view or func._schema.is_mutable:
            return result
        return tree_map(partial(rounded_somehow, nudges=self.nudges), result)

    def _draw(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns draws in the native type as fp64. Tensor arguments, such as probabilities, become
        native first."""
        args = tree_map(self._to_native, args)
        # Calls without tensors take a dtype; other calls draw in the type of their tensors.
        if not any(isinstance(a, torch.Tensor) for a in args):
            dtype = kwargs.get("dtype")
            kwargs = {**kwargs, "dtype": self.native if dtype in (None, torch.float64) else dtype}
        return func(*args, **kwargs).double()

    def _same_bits(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Returns the bits of the native value as another dtype: the bits of fp64 are others."""
        result: torch.Tensor = aten.view.dtype(self._to_native(x), dtype)
        return result.double() if dtype.is_floating_point else result

    def _to_native(self, value: Any) -> Any:
        is_double = isinstance(value, torch.Tensor) and value.dtype is torch.float64
        return value.to(self.native) if is_double else value

    def _dropout(self, x: torch.Tensor, p: float, train: bool | None) -> Any:
        """Returns output and mask of a dropout whose mask is drawn in the native type."""
        _, mask = aten.native_dropout.default(torch.ones_like(x, dtype=self.native), p, train)
        # With p = 1 nothing is kept. PyTorch gives zeros there, and not 0 / 0.
        kept = 1 - p if train is not False else 1
        return x * mask * (1 / kept if kept else 0), mask


def _soft_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1) -> torch.Tensor:
    """Computes log(1 + exp(-target x)) without the exponential of a large number."""
    margin = -target * x
    loss = torch.logaddexp(torch.zeros_like(margin), margin)
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


STABLE: dict[Any, Callable[..., Any]] = {aten.soft_margin_loss.default: _soft_margin_loss}
"""PyTorch computes these by a formula that overflows in double too, where the result is finite."""


def _is_cast(func: Any, args: tuple[Any, ...]) -> bool:
    return func is aten._to_copy.default and args[0].is_floating_point()


def check_cast(made: torch.dtype, nudges: Nudges) -> None:
    """Refuses a cast of moved floats to a type of indices, under nudges that try all roundings.

    Args:
        made: the type that the cast gives.

    Raises:
        UsageError: the result may be an index. A moved index may be out of range, which ends a
            process on a GPU.
    """
    if nudges.are_alike and made in INDEX_TYPES:
        raise UsageError("an index that is computed in floats may leave its range")


def _doubled_dtype(value: Any) -> Any:
    is_float = isinstance(value, torch.dtype) and value.is_floating_point
    return torch.float64 if is_float else value


def cut_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Cuts the mantissa of fp64 values to 10 bits, towards zero."""
    # A double has 52 mantissa bits; 42 zero bits leave ten. The hardware cuts as well, and does not
    # round.
    return (x.contiguous().view(torch.int64) & -(1 << 42)).view(torch.float64)


def doubled(value: Any) -> Any:
    """Copies tensors: floating-point ones to fp64, complex ones to complex128. Other values stay as
    they are, and containers are followed."""

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_complex():
            return value.detach().to(torch.complex128, copy=True)
        is_float = value.is_floating_point()
        return value.detach().to(torch.float64 if is_float else value.dtype, copy=True)

    return tree_map(copied, value)


def rounded_somehow(value: Any, nudges: Nudges) -> Any:
    """Nudges an fp64 tensor and rounds it to the type of the nudges. Elements that the type holds
    stay: earlier roundings, and indices that are counted in floats. Elements that would overflow
    are not rounded. Other values stay as they are."""
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
        return value
    # A kernel holds such a value exactly, so no rounding of a kernel moves it.
    is_held = value == value.to(nudges.dtype).double()
    moved = nudged(value, nudges)
    rounded = moved.to(nudges.dtype).double()
    return torch.where(is_held, value, torch.where(rounded.isfinite(), rounded, moved))


def nudged(value: torch.Tensor, nudges: Nudges) -> torch.Tensor:
    """Moves each fp64 element by at most `nudges.ulps` ulps of `nudges.dtype`.

    Signs stay. If all elements lie within -1 and 1, they stay there: they may be probabilities, and
    a probability above 1 ends the process on a GPU.
    """
    if not value.numel():
        return value
    most = nudges.ulps * torch.finfo(nudges.dtype).eps
    bound = torch.where(value.abs().amax() <= 1, 1.0, torch.inf)
    return (value * (1 + most * _hashed(value, nudges))).clamp(-bound, bound)


_ODD = 0x1E3779B97F4A7C15
"""An odd factor that spreads positions over 64 bits."""


def _hashed(value: torch.Tensor, nudges: Nudges) -> torch.Tensor:
    """Returns a number from -1 to 1 for each fp64 element: a hash of its bits (the finalizer of
    SplitMix64)."""
    # A hash, not a generator: with `are_alike`, equal values get equal noise at any place. So ties
    # stay ties, as in any kernel.
    bits = value.view(torch.int64) ^ nudges.salt
    if not nudges.are_alike:
        bits = bits ^ torch.arange(value.numel(), device=value.device).view(value.shape) * _ODD
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        # Shifts of int64 copy the sign bit; the mask clears the copies.
        bits = (bits ^ (bits >> shift & (1 << 64 - shift) - 1)) * factor
    # 53 bits with sign are left: exact as a double, and from -1 to 1 after the factor.
    return (bits >> 11).double() * 2.0**-52


def run_in_double(
    call: Callable[..., object],
    inputs: Any,
    native: torch.dtype,
    *,
    tf32: bool = False,
    nudges: Nudges | None = None,
) -> object:
    """Returns `call(*inputs)` computed in fp64, on copies of the inputs.

    Args:
        call: a function, or a module that has fp64 parameters already.
        native: the type in which random numbers are drawn.
        tf32, nudges: as of `InDouble`.
    """
    return called_in_double(call, doubled(inputs), native, tf32=tf32, nudges=nudges)


def called_in_double(
    call: Callable[..., object],
    own: Any,
    native: torch.dtype,
    *,
    tf32: bool = False,
    nudges: Nudges | None = None,
) -> object:
    """Does the work of `run_in_double` on fp64 inputs `own`, which the call may change."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # tensors the code makes without naming a dtype
    try:
        with torch.no_grad(), InDouble(native, tf32=tf32, nudges=nudges):
            return call(*own)
    finally:
        torch.set_default_dtype(default)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds every generator that reference code may draw from (PyTorch, `random`, NumPy), and
    restores their states at the end."""
    # `fork_rng` below restores PyTorch's generators alone.
    states = random.getstate(), np.random.get_state()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        seed_generators(seed, device)
        random.seed(seed)
        # NumPy takes seeds of 32 bits.
        np.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
