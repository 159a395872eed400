"""Guest side: digests of CPU memory, which show changes that no operator and no kernel made."""

import ctypes
import gc
import secrets
import zlib
from bisect import bisect_left
from collections.abc import Iterable

import torch

from kernelwright.sandbox.shared.tensors import TensorMeta

MAX_TRACED_BYTES = 4 << 20
"""Memory that is digested in full; of a longer span, a sample of this size is."""
MAX_KEPT_BYTES = 1 << 30
"""The bytes of all storages that are traced. They stay allocated in the call, so that their
addresses stay theirs."""
_NUM_SAMPLES, _MAX_SPANS = 64, 16

Span = tuple[int, int]
"""First byte within a storage, number of bytes."""


class TracedMemory:
    """Digests of the storages that a call has seen, by address.

    A small storage has one digest. A large storage has a digest for each tensor in it: an output
    may be a small part of a large storage.
    """

    def __init__(self) -> None:
        self._spans: dict[int, dict[Span, int]] = {}
        self._num_bytes: dict[int, int] = {}
        self._kept: list[torch.UntypedStorage] = []
        self._num_kept_bytes = 0
        # Drawn for each call, so that nobody can write between the samples.
        self._places = sorted(secrets.randbelow(1 << 30) for _ in range(_NUM_SAMPLES))

    def knows(self, storage: torch.UntypedStorage) -> bool:
        return storage.data_ptr() in self._spans

    def note(self, tensor: torch.Tensor) -> None:
        """Takes new digests of the memory under a tensor, and of all other digested memory in its
        storage."""
        storage = torch.Tensor.untyped_storage(tensor)
        if not self.note_storage(storage):
            return
        address, num_bytes = storage.data_ptr(), storage.nbytes()
        if num_bytes > MAX_TRACED_BYTES and tensor.layout is torch.strided:
            begin = int(tensor.storage_offset()) * tensor.itemsize
            span = begin, min(TensorMeta.of(tensor).span_bytes, int(num_bytes) - begin)
            spans = self._spans[address]
            if len(spans) >= _MAX_SPANS:
                spans.clear()
                spans[0, num_bytes] = 0
            spans.setdefault(span, 0)
        self.renew(address)

    def note_storage(self, storage: torch.UntypedStorage) -> bool:
        """Returns whether a storage is traced from here on."""
        if storage.device.type != "cpu" or not storage.nbytes():  # others have no address
            return False
        address, num_bytes = storage.data_ptr(), storage.nbytes()
        if self._num_bytes.get(address) != num_bytes:  # new, or of another size
            if self._num_kept_bytes + num_bytes > MAX_KEPT_BYTES:
                self._spans.setdefault(address, {})
                return False
            self._kept.append(storage)
            self._num_kept_bytes += num_bytes
            self._num_bytes[address] = num_bytes
            self._spans[address] = {} if num_bytes > MAX_TRACED_BYTES else {(0, num_bytes): 0}
            self.renew(address)
        return True

    def note_living(self) -> None:
        """Takes digests of all memory that the candidate keeps from earlier."""
        for value in gc.get_objects():
            # `isinstance` may run code of the object's.
            if issubclass(type(value), torch.Tensor) and value.layout is torch.strided:
                if value.device.type == "cpu":
                    self.note(value)
            elif type(value) is torch.UntypedStorage:
                self.note_storage(value)

    def renew(self, address: int) -> None:
        spans = self._spans[address]
        for begin, num_bytes in spans:
            spans[begin, num_bytes] = self._digest(address + begin, num_bytes)

    def has_changed(self, address: int) -> bool:
        """Whether memory of a storage differs from its digests. Unknown storages have none."""
        return any(
            self._digest(address + begin, num_bytes) != digest
            for (begin, num_bytes), digest in self._spans.get(address, {}).items()
        )

    def pointed_to(self, tables: Iterable[torch.Tensor]) -> list[int]:
        """Returns traced storages at addresses that these tensors of 64-bit integers hold."""
        addresses = sorted({value for table in tables for value in table.flatten().tolist()})
        return [
            address
            for address, num_bytes in self._num_bytes.items()
            if bisect_left(addresses, address) < bisect_left(addresses, address + num_bytes)
        ]

    def _digest(self, address: int, num_bytes: int) -> int:
        if num_bytes <= MAX_TRACED_BYTES:
            return zlib.crc32((ctypes.c_char * num_bytes).from_address(address))
        length, digest = MAX_TRACED_BYTES // _NUM_SAMPLES, 0
        for place in self._places:
            begin = address + place * (num_bytes - length) // (1 << 30)
            digest = zlib.crc32((ctypes.c_char * length).from_address(begin), digest)
        return digest
