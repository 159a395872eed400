"""Guest side: memory on the GPU with a guarded rim, so that writes past a tensor's end show.

The caching allocator rounds sizes up, and a store a few elements too far lands in slack that nobody
reads. Here every tensor of a judged call lies between two zones of a known pattern. A load from a
zone gives NaN. The interpreter checks bounds exactly and needs none of this.
"""

import torch

from kernelwright.sandbox.shared.tensors import TensorMeta, flat_span

ZONE_BYTES = 512
"""On each side; the allocator's own alignment, so that addresses stay aligned."""
_PATTERN = 0xFF  # NaN in every floating-point type, -1 in the integers
_MAX_BYTES = 8 << 30
"""Guarded at a time: zones are read when the call ends, and their tensors live until then."""


class RedZones:
    """The guarded tensors of one call."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._whole: list[torch.Tensor] = []
        self._num_bytes = 0

    def has_room(self, meta: TensorMeta) -> bool:
        return self._num_bytes + meta.span_bytes <= _MAX_BYTES

    def empty(self, meta: TensorMeta) -> torch.Tensor:
        """Returns a tensor of this shape, strides and type between zones; its own bytes are not
        written."""
        num_bytes = meta.span_bytes + 2 * ZONE_BYTES
        whole = torch.empty(num_bytes, dtype=torch.uint8, device=self.device)
        for zone in _zones(whole):
            zone.fill_(_PATTERN)
        self._whole.append(whole)
        self._num_bytes += num_bytes
        tensor = torch.empty(0, dtype=meta.dtype, device=self.device)
        return tensor.set_(
            whole.untyped_storage(), ZONE_BYTES // meta.dtype.itemsize, meta.shape, meta.strides
        )

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a copy with the same values and strides between zones."""
        copied = self.empty(TensorMeta.of(tensor))
        flat_span(copied).copy_(flat_span(tensor))
        return copied

    def overrun(self) -> torch.Tensor:
        """Returns whether a zone was written, as a boolean scalar; does not wait."""
        zones = [zone for whole in self._whole for zone in _zones(whole)]
        if not zones:
            return torch.zeros((), dtype=torch.bool, device=self.device)
        return (torch.cat(zones) != _PATTERN).any()


def _zones(whole: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return whole[:ZONE_BYTES], whole[-ZONE_BYTES:]
