"""A reference's answer to one call: outputs, and what the call did beside them."""

from dataclasses import dataclass, field
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.sandbox.shared.tensors import flatten
from kernelwright.verify.values.compare import Expected


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceAnswer:
    """The answer of the reference for one set of inputs."""

    outputs: Expected
    structure: str
    """The returned value's containers as text (`sandbox.shared.tensors.flatten`)."""
    state: dict[str, Expected] = field(default_factory=dict)
    """Parameters and buffers that the call changes, by state_dict name."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Plain attributes that the call changes, by path -> their values after the call."""
    inputs: dict[int, Expected] = field(default_factory=dict)
    """Inputs that the call changes, by position."""
    aliases: frozenset[tuple[int, int]] = frozenset()
    """(output, input) pairs that share memory."""
    shared: frozenset[tuple[int, int]] = frozenset()
    """Pairs of outputs that share memory, the smaller number first."""
    held: frozenset[int] = frozenset()
    """Outputs that share memory with a parameter or buffer."""
    is_finite: bool = True
    """Whether an output has finite elements, natively and in float64."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors that the answer holds."""
        parts = (self.outputs, *self.state.values(), *self.inputs.values())
        groups = [group for part in parts for group in (part.native, part.oracle, *part.tolerated)]
        return sum(tensor.nbytes for group in groups for tensor in group)

    @property
    def has_state(self) -> bool:
        """Whether the call changed state that later calls may read."""
        return bool(self.state or self.attributes)


def tensors_of(result: object) -> tuple[torch.Tensor, ...]:
    """Returns the tensors of a returned value (containers are followed), detached and in order.

    Raises:
        UsageError: there are no tensors, or a tensor has 8-bit floats.
    """
    _, leaves = flatten(result)
    tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
    if not tensors:
        raise UsageError(
            f"the reference returns {type(result).__name__}, not tensors",
            remedy="return a tensor, or a list, tuple or dict of tensors",
        )
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
            message = f"the reference returns {tensor.dtype}, which PyTorch does not compare"
            raise UsageError(message, remedy="return tensors of 16 bits or more")
    return tensors
