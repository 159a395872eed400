"""A reduction over a part of its elements: the result of a kernel that skips the rest."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from kernelwright.ops.traits import Trait
from kernelwright.programs.build import map_refs
from kernelwright.programs.program import Call, Ref
from kernelwright.programs.reference import evaluate_call

MOST, FEW = 3 / 4, 1 / 16
"""Parts that are tried."""
MIN_LENGTH = 16


def over_a_part(
    call: Call, env: Mapping[str, torch.Tensor], share: float
) -> tuple[torch.Tensor, ...] | None:
    """Returns the call's results from the leading `share` of the elements that it reduces, scaled
    to the whole.

    None where the call is no such reduction, or too short for a part to mean anything.
    """
    if call.is_extern:
        return None
    operator = call.operator
    # With a third operand, scaling one factor does not scale the result.
    if Trait.MATRIX_PRODUCT in operator.traits and operator.factors[0].name == "input":
        axes = dict(operator.factors)
        if any(env[call.arg(name).name].dim() < 2 for name in axes if axes[name] == -2):
            return None
        return _sliced(call, env, share, axes, scale=True)
    if Trait.ESTIMATED_BY_PART in operator.traits:
        return _reduced(call, env, share)
    if operator.family == "loss":
        return _mean_loss(call, env, share)
    return None


def _mean_loss(
    call: Call, env: Mapping[str, torch.Tensor], share: float
) -> tuple[torch.Tensor, ...] | None:
    """Returns a loss over the leading rows of every operand; None for losses that do not
    average."""
    is_mean = any(p.name == "reduction" for p in call.operator.params)
    names = [name for name, value in call.args if isinstance(value, Ref)]
    if not is_mean or call.arg("reduction") != "mean" or call.types[0].rank:
        return None
    operands = {name: env[call.arg(name).name] for name in names}
    if "weight" in names or any(operand.dim() == 0 for operand in operands.values()):
        return None
    rank = max(operand.dim() for operand in operands.values())
    # Operands of fewer dimensions are broadcast along the rows, except targets of whole rows.
    if Trait.TARGET_PER_ROW not in call.operator.traits:
        operands = {name: operand for name, operand in operands.items() if operand.dim() == rank}
    length = max(operand.shape[0] for operand in operands.values())
    axes = {name: 0 for name, operand in operands.items() if operand.shape[0] == length}
    return _sliced(call, env, share, axes)


def _reduced(
    call: Call, env: Mapping[str, torch.Tensor], share: float
) -> tuple[torch.Tensor, ...] | None:
    """Returns a reduction over the leading part of its longest axis, scaled to the whole."""
    x = env[call.arg("input").name]
    if not x.dim():
        return None
    takes_dim = any(param.name == "dim" for param in call.operator.params)
    dim: Any = call.arg("dim") if takes_dim else None
    dims = tuple(range(x.dim())) if dim in (None, ()) else dim
    dims = dims if isinstance(dims, tuple) else (dims,)
    axis = max(dims, key=lambda d: x.shape[d])
    results = _sliced(call, env, share, {"input": axis})
    if results is None:
        return None
    kept = math.ceil(share * x.shape[axis]) / x.shape[axis]
    if call.op == "sum" or (call.op == "norm" and call.arg("ord") in (1, 2)):
        power = 1.0 if call.op == "sum" else 1.0 / call.arg("ord")
        return tuple((result / kept**power).to(result.dtype) for result in results)
    # n equal terms add log(n), so a part of them lacks the logarithm of its share.
    if call.op == "logsumexp":
        return tuple(result - math.log(kept) for result in results)
    return None if call.op == "norm" else results


def _sliced(
    call: Call,
    env: Mapping[str, torch.Tensor],
    share: float,
    axes: Mapping[str, int],
    *,
    scale: bool = False,
) -> tuple[torch.Tensor, ...] | None:
    """Calls the operator on leading parts of these operands; with `scale`, the first is scaled
    up."""
    lengths = {env[call.arg(name).name].shape[axis] for name, axis in axes.items()}
    if len(lengths) != 1 or min(lengths) < MIN_LENGTH:
        return None
    length = lengths.pop()
    kept = math.ceil(share * length)
    parts: dict[str, torch.Tensor] = {}
    args = []
    for name, value in call.args:
        if name in axes:
            part = env[value.name].narrow(axes[name], 0, kept)
            parts[f"part {name}"] = part * (length / kept) if scale and not parts else part
            value = Ref(f"part {name}")
        else:
            map_refs(value, lambda ref: parts.update({ref.name: env[ref.name]}))
        args.append((name, value))
    return evaluate_call(replace(call, args=tuple(args)), parts)
