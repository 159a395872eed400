"""Matches the parameters and buffers of a candidate with those of the reference.

The judge gives weights to a candidate through its parameters. So each parameter and buffer that the
outputs of the reference depend on needs a counterpart: with the same name, or with the same values
as constructed, or with the same shape in the same order.
"""

from collections.abc import Mapping

import torch

from kernelwright.sandbox.shared.contract import StateEntry


def matched(
    constructed: Mapping[str, torch.Tensor], entries: Mapping[str, StateEntry]
) -> dict[str, str]:
    """Returns the candidate's name for each parameter and buffer of the reference, by the
    reference's name.

    An equal name with an equal shape matches first, then equal values that are not constant, then
    equal shape and dtype. Tensors without a match are left out.

    Args:
        constructed: values of the reference, as its constructor draws them.
        entries: entries of the candidate, constructed under the same seed, with values.
    """
    names = {
        name: name
        for name, tensor in constructed.items()
        if name in entries and entries[name].meta.shape == tuple(tensor.shape)
    }
    # Both constructors draw under one seed, so equal values identify a parameter of another name.
    # Values come before shapes: two layers of one shape may be defined in another order.
    for is_match in (_has_values, _has_shape):
        free = [name for name in entries if name not in names.values()]
        for name, tensor in constructed.items():
            if name in names:
                continue
            counterpart = next((other for other in free if is_match(entries[other], tensor)), None)
            if counterpart is not None:
                names[name] = counterpart
                free.remove(counterpart)
    return names


def _has_values(entry: StateEntry, tensor: torch.Tensor) -> bool:
    """Whether the values are equal and not constant: equal constants prove nothing."""
    if not _has_shape(entry, tensor) or entry.value is None or tensor.numel() < 2:
        return False
    value = entry.value.to(tensor.device)
    # Weights of ones and biases of zeros are equal in every layer.
    if bool((tensor == tensor.flatten()[0]).all()):
        return False
    return torch.equal(value, tensor)


def _has_shape(entry: StateEntry, tensor: torch.Tensor) -> bool:
    return entry.meta.shape == tuple(tensor.shape) and entry.meta.dtype == tensor.dtype
