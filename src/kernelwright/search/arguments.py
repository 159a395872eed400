"""The arguments that users give `kernelwright.optimize`: those of a call, and weights."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.core.errors import UsageError

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of forward."""


def call_of(
    module: torch.nn.Module, example_inputs: Any, example_kwargs: Mapping[str, Any] | None
) -> Call:
    """The call of forward that the examples stand for.

    A tuple or list holds positional arguments. A tensor is the one positional argument. A mapping
    whose keys are parameters of forward holds keyword arguments; any other mapping is the one
    positional argument.

    Raises:
        UsageError: the examples are none of these.
    """
    kwargs = dict(example_kwargs or {})
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), kwargs
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs), kwargs
    if isinstance(example_inputs, Mapping):
        names = inspect.signature(module.forward).parameters
        # An empty mapping names no parameter, so it is the argument itself.
        if example_inputs and all(name in names for name in example_inputs):
            return (), {**example_inputs, **kwargs}
        return (example_inputs,), kwargs
    raise UsageError(
        f"example_inputs is a {type(example_inputs).__name__}",
        remedy="give a tensor, a tuple of positional arguments or a dict of keyword arguments",
    )


def warn_of_weights(module: torch.nn.Module) -> None:
    """Warn of parameters and buffers with NaN or infinity: the module's results say nothing about
    a kernel then. Infinity in a buffer is usual, for example in a mask."""
    for kind, tensors in (
        ("parameter", module.named_parameters()),
        ("buffer", module.named_buffers()),
    ):
        for name, tensor in tensors:
            if tensor.is_meta or not tensor.is_floating_point():
                continue
            is_broken = tensor.isnan() if kind == "buffer" else ~tensor.isfinite()
            if bool(is_broken.any()):
                warnings.warn(
                    f"{kind} {name} holds NaN or infinity: load the weights first, or kernels are"
                    " compared with results that are no numbers",
                    UserWarning,
                    stacklevel=3,
                )
                return
