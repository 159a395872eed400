"""Guest side: describes one call of a candidate and its effects for the host."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.sandbox.guest.instances import Instances, overlap
from kernelwright.sandbox.guest.witness import Witness
from kernelwright.sandbox.shared.manner import Manner
from kernelwright.sandbox.shared.tensors import TensorMeta, flat_span, flatten


@dataclass(slots=True)
class DescribedCall:
    """A call, and flags that are known when the GPU has finished."""

    outputs: list[torch.Tensor]
    flags: torch.Tensor
    """Whether memory beside a tensor was written; and for each input, whether it was changed."""
    num_unfinished: int
    facts: dict[str, Any]

    def answer(self, flags: list[bool], process: dict[str, Any]) -> dict[str, Any]:
        overrun, *inputs = flags
        seen = {"overrun": overrun, "changed": indices(inputs), "process": process}
        return {**self.facts, **seen}


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a call, as the guest looks at them."""

    structure: str
    outputs: list[torch.Tensor]
    marks: dict[str, list[int]]
    """Numbers of outputs with marks of autograd that nothing in the call asks for."""
    state: list[torch.Tensor]
    """Parameters and buffers."""
    operators: dict[str, int]
    """Operators that ran meanwhile: objects of a candidate's own classes may compute when they are
    looked at."""


def observed_results(
    result: object, instances: Instances, instance: int, manner: Manner
) -> Results:
    """Returns the results of a call under these surroundings."""
    with Witness() as witness:
        structure, leaves = flatten(result)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        state = [tensor for _, _, tensor in instances.entries(instance)]
        marks = {"inference": indices([torch.Tensor.is_inference(tensor) for tensor in tensors])}
        marks["grad"] = indices([_asks_for_gradients(tensor, state) for tensor in tensors])
        if manner.is_inference:  # inputs require gradients there, and so do outputs that show them
            marks = {name: [] for name in marks}
        outputs = [torch.Tensor.detach(tensor) for tensor in tensors]
    return Results(structure, outputs, marks, state, witness.seen())


def _asks_for_gradients(output: torch.Tensor, state: list[torch.Tensor]) -> bool:
    """Whether a tensor that is no parameter of the module and no result requires gradients."""
    if type(output) not in (torch.Tensor, torch.nn.Parameter) or not output.is_leaf:
        return False
    return output.requires_grad and not any(output is tensor for tensor in state)


def described(
    structure: str,
    outputs: list[torch.Tensor],
    inputs: list[Any],
    state: Sequence[torch.Tensor],
) -> dict[str, Any]:
    """Returns the facts of a call for the host: structure, outputs, and pairs that share memory."""
    pairs = [(j, i) for i in range(len(outputs)) for j in range(i)]
    return {
        "structure": structure,
        "outputs": [TensorMeta.of(tensor).to_json() for tensor in outputs],
        "aliases": _aliases(outputs, inputs),
        "shared": [(j, i) for j, i in pairs if overlap(outputs[j], outputs[i])],
        "held": [i for i, y in enumerate(outputs) if any(overlap(y, tensor) for tensor in state)],
    }


def described_timed(
    result: object, inputs: list[Any], kept: list[Any], device: torch.device
) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """Returns the tensors of a timed call's results, and the facts of the call for the host.

    Args:
        inputs: inputs of the call, after the call.
        kept: the same inputs as the host sent them.
    """
    structure, leaves = flatten(result)
    outputs = [torch.Tensor.detach(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    flags = torch.stack(changed(kept, inputs, device) or [no_flag(device)])
    facts = described(structure, outputs, inputs, ())
    return outputs, {**facts, "changed": indices(flags.tolist())}


def fit(used: list[Any], kept: list[Any]) -> bool:
    """Whether the tensor objects of the previous call can hold these values."""
    return len(used) == len(kept) and all(
        TensorMeta.of(mine) == TensorMeta.of(value)
        if isinstance(mine, torch.Tensor) and isinstance(value, torch.Tensor)
        else type(mine) is type(value)
        for mine, value in zip(used, kept, strict=True)
    )


def first_alike(values: list[Any], number: int) -> int:
    """Returns the number of the first value that is a tensor equal to this one, or this number."""
    value = values[number]
    for i, other in enumerate(values[:number]):
        if fit([other], [value]) and isinstance(value, torch.Tensor) and torch.equal(other, value):
            return i
    return number


_ALIGNMENT, _MAX_OFFSET = 16, 256
"""Bytes that addresses are a multiple of; the most of these before a tensor and behind it."""


def offset_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy with the same values and strides inside a larger storage."""
    meta = TensorMeta.of(tensor)
    begin, rest = (_ALIGNMENT * secrets.randbelow(_MAX_OFFSET) for _ in range(2))
    num_bytes = begin + meta.span_bytes + rest
    whole = torch.empty(num_bytes, dtype=torch.uint8, device=tensor.device)
    inner = whole[begin : begin + meta.span_bytes].copy_(flat_span(tensor))
    return inner.view(meta.dtype).as_strided(meta.shape, meta.strides)


def require_gradients(inputs: list[Any]) -> None:
    """Makes floating-point inputs require gradients, as the parameters of a model do."""
    for value in inputs:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            value.requires_grad_()


def no_flag(device: torch.device) -> torch.Tensor:
    """Returns False as a tensor, on a device that is named: a candidate may have changed the
    default."""
    return torch.zeros((), dtype=torch.bool, device=device)


Layout = tuple[object, ...]
"""How a tensor object lies on its storage, on which, whether it requires gradients, its version,
and its own attributes."""
_MAX_BESIDE_BYTES = 2 * _ALIGNMENT * _MAX_OFFSET
"""A storage with more memory beside its tensor is not compared."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An input before a call."""

    layout: Layout
    beside: torch.Tensor | None
    """The bytes of the storage that lie before and behind the tensor. None: not compared."""


def placed(values: list[Any], *, has_zones: bool) -> list[Placed | None]:
    """Returns the place of each tensor; None for any other value.

    Args:
        has_zones: guarded zones lie beside the tensors, which are compared elsewhere.
    """
    return [
        Placed(_layout(value), None if has_zones else _beside(value))
        if isinstance(value, torch.Tensor)
        else None
        for value in values
    ]


def _beside(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of the bytes of a storage outside of the tensor's span."""
    storage = torch.Tensor.untyped_storage(tensor)
    whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    begin, span_bytes = tensor.storage_offset() * tensor.itemsize, TensorMeta.of(tensor).span_bytes
    if len(whole) - span_bytes > _MAX_BESIDE_BYTES:
        return whole[:0]
    return torch.cat([whole[:begin], whole[begin + span_bytes :]])


def _layout(tensor: torch.Tensor) -> Layout:
    requires_grad = tensor.requires_grad
    own = tuple(vars(tensor))
    tensor = torch.Tensor.detach(tensor)  # has no attributes of a candidate's
    storage = tensor.untyped_storage()
    place = (tensor.storage_offset(), storage.data_ptr(), storage.nbytes())
    marks = (tensor.is_conj(), tensor.is_neg(), requires_grad, tensor._version)
    return TensorMeta.of(tensor), *place, *marks, own


def changed(
    kept: list[Any],
    used: list[Any],
    device: torch.device,
    before: Sequence[Placed | None] = (),
) -> list[torch.Tensor]:
    """Returns, for each input, whether its bytes, its layout or the memory beside it changed; does
    not wait for the GPU.

    Args:
        before: places of `used` before the call; where there are none, storages are not compared.
    """
    pairs = zip(kept, used, before or [None] * len(kept), strict=True)
    return [_is_changed(*pair, device) for pair in pairs]


def _is_changed(kept: Any, used: Any, before: Placed | None, device: torch.device) -> torch.Tensor:
    if not isinstance(kept, torch.Tensor):
        return no_flag(device)
    now = _layout(used)
    if now[0] != TensorMeta.of(kept):
        return ~no_flag(device)
    differs = (flat_span(kept) != flat_span(used)).any()
    if before is None:
        return differs
    if now != before.layout:
        return ~no_flag(device)
    if before.beside is not None:
        differs = differs | (before.beside != _beside(used)).any()
    return differs


def changed_by(action: Callable[[], None], inputs: list[Any]) -> list[int]:
    """Does the action, and returns the numbers of the CPU tensors whose values it changed."""
    tensors = {
        i: flat_span(value)
        for i, value in enumerate(inputs)
        if isinstance(value, torch.Tensor) and value.device.type == "cpu"
    }
    copies = {i: span.clone() for i, span in tensors.items()}
    action()
    return [i for i, span in tensors.items() if not torch.equal(span, copies[i])]


def indices(flags: list[bool]) -> list[int]:
    return [i for i, flag in enumerate(flags) if flag]


def _aliases(outputs: list[torch.Tensor], inputs: list[Any]) -> list[tuple[int, int]]:
    """Returns (output, input) pairs whose storage ranges overlap."""
    return [
        (i, j)
        for i, output in enumerate(outputs)
        for j, value in enumerate(inputs)
        if isinstance(value, torch.Tensor) and overlap(output, value)
    ]
