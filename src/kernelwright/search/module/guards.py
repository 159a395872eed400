"""Which calls an `optimized.py` computes with its kernels, as text. All other calls run the
original forward."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.programs.capture import carriers
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.search.sizes.requested import Requested, ranges_text

ORIGINAL = "original_forward"
"""The name that the original's `forward` has in `optimized.py`."""

HELPERS = {
    "refuse_gradients": '''
def refuse_gradients(module, *tensors):
    """The kernels have no backward: an error beats results without a history."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *module.parameters())):
        raise RuntimeError(
            "optimized for inference only: call it under torch.no_grad(), "
            "or keep the original module for training"
        )
''',
    "has_type": '''
def has_type(tensor, shape, dtype):
    """Whether the kernels were verified with such a tensor. None in a shape is any size."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype == dtype
        and len(tensor.shape) == len(shape)
        and all(size in (None, own) for size, own in zip(shape, tensor.shape))
    )
''',
    "is_value": '''
def is_value(value, traced):
    """Numbers, flags and texts are part of the program; NaN is equal to NaN alone."""
    are_nan = value != value and traced != traced
    return type(value) is type(traced) and (value == traced or are_nan)
''',
    "can_run": '''
def can_run(kernel, *tensors):
    """Compiled kernels need a GPU; Triton's interpreter makes other objects of them."""
    on_cpu = any(tensor.device.type == "cpu" for tensor in tensors)
    return not (on_cpu and isinstance(kernel, triton.JITFunction))
''',
}
"""Functions of the guards, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoweredModule:
    """A module and the program that kernels are written for."""

    module: torch.nn.Module
    lowered: Lowered
    is_for_one_mode: bool
    """The program computes train or eval mode alone."""
    sizes: Requested | None = None
    """Sizes that vary."""


def guards(
    traced: LoweredModule,
    composed: str,
    users: Sequence[str],
    values: Sequence[tuple[str, str]],
    original: str | None,
) -> list[str]:
    """The first lines of a forward: the conditions that send a call to the original.

    Args:
        composed: text of `fused_operator` and its kernels.
        users: the tensors among the inputs of the program, as expressions of forward's parameters.
        values: (expression, literal) of plain values among the inputs.
        original: the expression that calls the original; None: other calls raise ValueError.
    """
    lowered, module, sizes = traced.lowered, traced.module, traced.sizes
    conditions = []
    if traced.is_for_one_mode:
        conditions.append("self.training" if module.training else "not self.training")
    types = _types(lowered, sizes)
    conditions += [
        f"has_type({user}, {shape}, {dtype})"
        for user, (shape, dtype) in zip(users, types, strict=True)
    ]
    conditions += [f"is_value({expression}, {text})" for expression, text in values]
    # One kernel stands for all: a process compiles all kernels, or interprets all.
    kernel = re.search(r"^@triton\.jit\n+def (\w+)", composed, re.MULTILINE)
    if kernel and users:
        conditions.append(f"can_run({', '.join([kernel[1], *users])})")
    lines = [f"    refuse_gradients({', '.join(['self', *users])})"]
    if conditions:
        other = f"        return {original}" if original else _error(users, types, module)
        lines += [
            "    is_known = (",
            "        " + "\n        and ".join(conditions),
            "    )",
            "    if not is_known:",
            other,
        ]
    if sizes is not None:
        lines += _out_of_range(lowered, users, sizes, original)
    return lines


def _types(lowered: Lowered, sizes: Requested | None) -> list[tuple[str, str]]:
    """Shape and dtype of the tensors among the inputs, as text."""
    free = {(place.leaf, place.dim) for place in (sizes.places if sizes else ())}
    types = []
    for value, source in zip(lowered.program.inputs, lowered.sources, strict=True):
        if source.kind != "user":
            continue
        shape = value.type.shape
        # A complex tensor is carried as pairs of real numbers, in one more dimension.
        if source.dtype in carriers.PAIRS:
            shape = shape[:-1]
        shown = tuple(
            None if (source.position, dim) in free else size for dim, size in enumerate(shape)
        )
        types.append((repr(shown), f"torch.{source.dtype}"))
    return types


def _error(users: Sequence[str], types: Sequence[tuple[str, str]], module: torch.nn.Module) -> str:
    """The line that refuses a call."""
    inputs = [f"{user} {shape} {dtype}" for user, (shape, dtype) in zip(users, types, strict=True)]
    mode = "train" if module.training else "eval"
    text = (
        f"optimized for inference on a GPU in {mode} mode with {', '.join(inputs)}:"
        " run `kernelwright optimize` again for other calls"
    )
    return f"        raise ValueError({text!r})"


def _out_of_range(
    lowered: Lowered, users: Sequence[str], sizes: Requested, original: str | None
) -> list[str]:
    """Lines for calls with sizes out of their ranges: the user expects kernels there."""
    positions = [source.position for source in lowered.sources if source.kind == "user"]
    expression_of = dict(zip(positions, users, strict=True))
    conditions, first = [], dict[str, str]()
    # The plainest place of each size comes first, because the other places are checked against it.
    for place in sorted(sizes.places, key=lambda place: (place.scale, abs(place.shift))):
        if place.leaf not in expression_of:
            continue
        length = f"{expression_of[place.leaf]}.shape[{place.dim}]"
        if place.size not in first:
            shifted = f"{length} - {place.shift}" if place.shift else length
            first[place.size] = shifted if place.scale == 1 else f"({shifted}) // {place.scale}"
            allowed = sizes.ranges[place.size]
            conditions.append(f"{allowed.low} <= {first[place.size]} <= {allowed.high}")
        wanted = first[place.size] if place.scale == 1 else f"({first[place.size]}) * {place.scale}"
        wanted += f" + {place.shift}" if place.shift else ""
        # The first place of a size would be compared with itself.
        if wanted != length:
            conditions.append(f"{length} == {wanted}")
    if not conditions:  # the program reads no tensor whose sizes vary
        return []
    text = f"optimized for {ranges_text(sizes.ranges)}"
    if original is None:
        text += ": run `kernelwright optimize` again for other sizes"
        lines = [f"raise ValueError({text!r})"]
    else:
        text += ": calls with other sizes run the original forward"
        lines = [f"warnings.warn({text!r}, stacklevel=2)", f"return {original}"]
    return [f"    if not ({' and '.join(conditions)}):", *(f"        {line}" for line in lines)]


def call_text(function: str, forward: Callable[..., Any]) -> str:
    """A call of a function with all that the parameters of a bound forward hold."""
    arguments = []
    for name, parameter in inspect.signature(forward).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments.append(f"*{name}")
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.append(f"**{name}")
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            arguments.append(f"{name}={name}")
        else:
            arguments.append(name)
    return f"{function}({', '.join(arguments)})"
