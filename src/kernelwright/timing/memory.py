"""Memory of the GPU that this process keeps for later, and that others may need now."""

import torch

KEPT_SHARE = 0.1
"""The share of the device's memory that PyTorch may keep for later, since freeing takes time."""


def give_back() -> None:
    """Frees memory that PyTorch keeps for later, if that is more than `KEPT_SHARE` of the
    device."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_SHARE * total:
        torch.cuda.empty_cache()
