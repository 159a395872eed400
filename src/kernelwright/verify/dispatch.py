"""Decides which ATen operators a candidate may run in `pure` mode: only operators that compute
nothing."""

from collections.abc import Iterable
from functools import cache

import torch

MEMORY = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "zeros", "zeros_like", "new_zeros", "zero_", "zero", "full", "full_like", "new_full",
    "ones", "ones_like", "new_ones", "fill_", "fill", "clone", "copy_", "lift_fresh",
    "scalar_tensor", "_local_scalar_dense", "resize_", "set_", "_unsafe_view", "detach_",
    "as_strided_", "squeeze_", "unsqueeze_", "t_", "transpose_", "_to_copy",
}  # fmt: skip
"""Getting memory, filling it with one value, copying it as it is (`contiguous()` is a clone), and
another shape for a tensor as it is. `sandbox.guest.crossings` notes copies that convert values."""
MARKS = {"_conj", "_neg_view"}
"""Views by their schema that mark values as conjugate or negative: copying them computes."""


def computing(operators: Iterable[str]) -> list[str]:
    """Returns the operators among these that compute something, in order. Names are overloads
    ("aten.add.Tensor"), or of the form "aten::relu"."""
    return [name for name in operators if not _is_free(name)]


@cache
def _is_free(name: str) -> bool:
    if "::" in name:
        return _is_free_as_witnessed(name)
    namespace, _, rest = name.partition(".")
    operator, _, overload = rest.partition(".")
    if namespace != "aten":
        return False
    return operator in MEMORY or _is_view(operator, overload or "default")


def _is_free_as_witnessed(name: str) -> bool:
    """Whether an operator is free by its name alone ("aten::relu"), as the observer below Python
    sees it (`sandbox.guest.witness`). An operator that is made of others is free here, because the
    others are witnessed too."""
    namespace, _, operator = name.partition("::")
    if namespace != "aten":
        return False
    packet = getattr(torch.ops.aten, operator, None)
    if operator in MEMORY or operator in MARKS or packet is None:
        return operator in MEMORY
    overloads = {
        overload: name if overload == "default" else f"{name}.{overload}"
        for overload in packet.overloads()
    }
    return all(
        torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd")
        or _is_view(operator, overload)
        for overload, full in overloads.items()
        if torch._C._dispatch_has_kernel(full)  # the others are TorchScript's
    )


def _is_view(operator: str, overload: str) -> bool:
    """Whether the schema says that results share memory with an argument and nothing is written."""
    if operator in MARKS:
        return False
    packet = vars(torch.ops.aten).get(operator)
    packet = packet if packet is not None else getattr(torch.ops.aten, operator, None)
    if packet is None or overload not in packet.overloads():
        return False
    schema = getattr(packet, overload)._schema
    infos = [result.alias_info for result in schema.returns]
    return bool(infos) and all(info is not None and not info.is_write for info in infos)
