"""Extern calls: ATen overloads without an operator record, which PyTorch itself computes.

Arguments go by the names of the overload's schema. Device, layout and pinning are left out, because
a program has no device: it runs where its inputs are.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.ops.operator import TensorType
from kernelwright.programs.tensors import attribute_value, plain, type_of

RECURRENT = {"aten.lstm.input": 4, "aten.gru.input": 3, "aten.rnn_tanh.input": 1,
             "aten.rnn_relu.input": 1}  # fmt: skip
"""Composites that are worth keeping whole (apart they are a call for each step) -> their gates."""
PLACEMENT = frozenset({"device", "layout", "pin_memory"})


@cache
def overload(op: str) -> torch._ops.OpOverload:
    """The overload of a name such as "aten.sort.default".

    Raises:
        ValueError: there is no such overload.
    """
    part_of_torch: Any = torch.ops
    for part in op.split("."):
        try:
            part_of_torch = getattr(part_of_torch, part)
        except AttributeError as error:
            raise ValueError(f"torch.ops.{op} does not exist") from error
    if not isinstance(part_of_torch, torch._ops.OpOverload):
        raise ValueError(f"torch.ops.{op} is not an overload: write torch.ops.aten.sort.default")
    return part_of_torch


@cache
def schema_args(op: str) -> tuple[Any, ...]:
    """The schema's arguments in order: each has name, type, kwarg_only and default_value."""
    return tuple(overload(op)._schema.arguments)


def bind(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as plain values by schema name, without placement and without defaults.

    Raises:
        ValueError: too many arguments, one missing, or a name the schema does not have.
    """
    declared = schema_args(op)
    if len(args) > len(declared):
        raise ValueError(f"torch.ops.{op} takes {len(declared)} arguments, not {len(args)}")
    bound = {arg.name: value for arg, value in zip(declared, args, strict=False)} | dict(kwargs)
    if unknown := bound.keys() - {arg.name for arg in declared}:
        raise ValueError(f"torch.ops.{op} has no argument {sorted(unknown)[0]!r}")
    values = {}
    for arg in declared:
        if arg.name not in bound and not arg.has_default_value():
            raise ValueError(f"torch.ops.{op} needs {arg.name!r}")
        if arg.name in PLACEMENT or arg.name not in bound:
            continue
        value = plain(bound[arg.name])
        if not (arg.has_default_value() and _same(value, plain(arg.default_value))):
            values[arg.name] = value
    return values


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


MASKS = ("output_mask", "grad_input_mask")
"""Names of arguments that say which gradients a backward overload computes."""


def makes_of_nothing(op: str) -> bool:
    """Whether the overload has a device argument, and no tensor argument that tells the device."""
    declared = schema_args(op)
    is_placed = any(arg.name == "device" for arg in declared)
    return is_placed and not any("Tensor" in str(arg.type) for arg in declared)


def returns_sequence(op: str) -> bool:
    """Whether the overload returns a sequence, be it of one tensor."""
    returns = overload(op)._schema.returns
    return len(returns) != 1 or str(returns[0].type).startswith("List")


def computed(op: str, values: Mapping[str, Any]) -> tuple[bool, ...]:
    """For each result that a backward overload returns: whether it is a tensor.

    A mask among the arguments says which gradients are wanted; the other results are None. Returns
    () for overloads without such a mask.

    Args:
        values: the arguments of the call, by schema name.
    """
    num_returns = len(overload(op)._schema.returns)
    masks = (values.get(name) for name in MASKS)
    mask = next((mask for mask in masks if mask is not None and len(mask) == num_returns), ())
    return tuple(map(bool, mask))


def is_random(op: str, values: Mapping[str, Any]) -> bool:
    """Whether results are random. Recurrent overloads draw only for dropout between layers.

    Args:
        values: the arguments of the call, by schema name.
    """
    if op in RECURRENT and not (values["train"] and values["dropout"] and values["num_layers"] > 1):
        return False
    return torch.Tag.nondeterministic_seeded in overload(op).tags


def evaluate(
    op: str, values: Mapping[str, Any], rank: int, device: torch.device | str
) -> tuple[torch.Tensor, ...]:
    """The results of the overload on these arguments, without results that are None.

    Args:
        values: arguments by schema name, with tensors.
        rank: the rank of the first result; the memory format of "channels_last" depends on it.
        device: for overloads that make a tensor from no tensor.
    """
    named = {name: attribute_value(name, value, rank) for name, value in values.items()}
    if any(arg.name == "device" for arg in schema_args(op)):
        named["device"] = device
    result = overload(op)(**named)
    results = result if isinstance(result, list | tuple) else (result,)
    return tuple(tensor for tensor in results if tensor is not None)


def result_types(op: str, values: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """Types of the results, from a run on tensors without memory.

    Overloads that PyTorch cannot run without memory run on zeros on the CPU.

    Raises:
        ValueError: the overload refuses these arguments, or a result has no type in a program.
    """
    try:
        if op in RECURRENT:
            results = recurrent_results(op, values)
        else:
            try:
                results = evaluate(op, values, 4, "meta")
            except NotImplementedError:  # `torch.export` runs such overloads on zeros too
                # Zeros would give a shape that no other values have.
                if torch.Tag.dynamic_output_shape in overload(op).tags:
                    raise
                results = evaluate(op, _as_zeros(values), 4, "cpu")
    except Exception as error:  # an overload of a library may raise anything
        raise ValueError(f"torch.ops.{op}: {error}") from error
    if not all(isinstance(result, torch.Tensor) for result in results):
        raise ValueError(f"torch.ops.{op} returns something that is not a tensor")
    return tuple(type_of(result) for result in results)


def _as_zeros(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with zeros on the CPU in place of tensors without memory."""

    def zeros(tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(tensor, device="cpu")

    return dict(pytree.tree_map_only(torch.Tensor, zeros, dict(values)))


def flops(op: str, values: Mapping[str, Any]) -> int:
    """The FLOPs of a recurrent layer; 0 for other overloads, of which nothing is known.

    Each step of each sample is multiplied by all weights once.

    Args:
        values: arguments by schema name, with types in place of tensors.
    """
    if op not in RECURRENT:
        return 0
    num_weights: int = sum(weight.numel for weight in values["params"] if weight.rank == 2)
    num_rows: int = math.prod(values["input"].shape[:-1])
    return 2 * num_rows * num_weights


def recurrent_results(op: str, values: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
    """(sequence, *final states) of an RNN as empty tensors, computed from shapes alone.

    PyTorch would run every step, which takes minutes for a long sequence.

    Raises:
        RuntimeError: weights or states do not fit together.
    """
    gates = RECURRENT[op]
    x, states, params = values["input"], values["hx"], values["params"]
    states = states if isinstance(states, tuple) else (states,)
    directions = 2 if values["bidirectional"] else 1
    hidden, out = states[-1].shape[-1], states[0].shape[-1]  # they differ in a projected LSTM
    cells = values["num_layers"] * directions
    batch = x.shape[0 if values["batch_first"] else 1]
    fits = all(state.shape[:2] == (cells, batch) for state in states)
    for i in range(cells):
        size = len(params) // cells
        w_ih, w_hh, *biases = params[i * size : (i + 1) * size]
        width = x.shape[-1] if i < directions else directions * out
        fits = fits and w_ih.shape == (gates * hidden, width)
        fits = fits and w_hh.shape == (gates * hidden, out)
        fits = fits and all(b.shape == (gates * hidden,) for b in biases if b.dim() == 1)
    if not fits:
        raise RuntimeError("weights or states do not fit together")
    return (x.new_empty((*x.shape[:-1], directions * out)), *states)
