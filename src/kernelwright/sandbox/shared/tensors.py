"""Tensors as metadata and raw bytes, in both directions, strides kept.

A tensor travels as the contiguous span of storage that it covers. So strided and expanded tensors
arrive with their layout, each in a storage of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

DTYPES: dict[str, torch.dtype] = {
    name: dtype
    for name in [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "complex64",
        "complex128",
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
    ]
    if isinstance(dtype := vars(torch).get(name), torch.dtype)
}
"""Dtypes that may cross the line, by name."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Shape, strides in elements and dtype of a tensor, without its values."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Self:
        return cls(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    @property
    def span(self) -> int:
        """Elements from the first to the last one addressed."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def span_bytes(self) -> int:
        return self.span * self.dtype.itemsize

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "dtype": _NAMES[self.dtype],
        }

    def is_like(self, tensor: torch.Tensor) -> bool:
        """Whether type and shape are those of the tensor, in a span that is not longer than needed
        or than the tensor's own."""
        if self.shape != tuple(tensor.shape) or self.dtype != tensor.dtype:
            return False
        # Strides may claim a span of terabytes for a small shape.
        return self.span <= max(tensor.numel(), TensorMeta.of(tensor).span)

    def without_memory(self) -> torch.Tensor:
        """Returns a tensor of this description on the meta device.

        Raises:
            RuntimeError: no tensor may be so large.
        """
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Reads metadata that the other side wrote.

        Raises:
            ValueError: not metadata of a tensor that may cross the line.
        """
        if not isinstance(values, dict) or values.get("dtype") not in DTYPES:
            raise ValueError("no such dtype")
        shape, strides = _sizes(values.get("shape")), _sizes(values.get("strides"))
        if len(shape) != len(strides):
            raise ValueError("shape and strides differ in length")
        return cls(shape, strides, DTYPES[values["dtype"]])


def _sizes(values: object) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > _MAX_RANK:
        raise ValueError("sizes must be a short list")
    if any(type(n) is not int or not 0 <= n < 1 << 48 for n in values):
        raise ValueError("sizes must be whole numbers from 0")
    return tuple(values)


def flat_span(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the storage span under `tensor` as bytes, (span_bytes,) uint8, sharing memory with
    it."""
    tensor = torch.Tensor.detach(tensor).resolve_conj().resolve_neg()  # not a method of its own
    span = TensorMeta.of(tensor).span
    return tensor.as_strided((span,), (1,)).view(torch.uint8)


def chunk(tensor: torch.Tensor) -> memoryview:
    """Returns the raw bytes of a CPU tensor's span, without a copy."""
    return flat_span(tensor).numpy().data.cast("B")


def from_payload(metas: Sequence[TensorMeta], payload: bytearray) -> list[torch.Tensor]:
    """Returns CPU tensors over consecutive parts of `payload`, each in a storage of its own.

    Raises:
        ValueError: the payload's length is not what the metadata say.
    """
    if sum(meta.span_bytes for meta in metas) != len(payload):
        raise ValueError("payload and metadata disagree")
    tensors, offset = [], 0
    for meta in metas:
        raw = torch.empty(meta.span_bytes, dtype=torch.uint8, device="cpu")
        if meta.span_bytes:
            part = memoryview(payload)[offset : offset + meta.span_bytes]
            raw.copy_(torch.frombuffer(part, dtype=torch.uint8))
        tensors.append(raw.view(meta.dtype).as_strided(meta.shape, meta.strides))
        offset += meta.span_bytes
    return tensors


def fresh_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy with the same values and strides, in a new storage on the same device. The
    copy is no view, as a user's tensors are none."""
    meta = TensorMeta.of(tensor)
    return flat_span(tensor).clone().view(meta.dtype).as_strided(meta.shape, meta.strides).data


def flatten(value: object) -> tuple[str, list[object]]:
    """Returns the structure of a returned value as text, and its leaves that are tensors.

    `[a, (b, None)]` gives `"[T,(T,None)]"` and `[a, b]`, so that the reference's text can be
    compared with a candidate's. A tensor subclass is spelt by its name, so that it never passes for
    a tensor. So is a tensor with attributes of its own, which may stand in for its methods.
    """
    if isinstance(value, torch.Tensor):
        kind = type(value)
        if kind in (torch.Tensor, torch.nn.Parameter):
            own = vars(value)
            return (f"{kind.__name__} with its own {min(map(str, own)):.60}" if own else "T"), [
                value
            ]
        return kind.__name__, [value]
    if type(value) is list or (isinstance(value, tuple) and not _answers_itself(type(value))):
        # The class of a named tuple may have attributes that run code.
        items = tuple.__iter__(value) if isinstance(value, tuple) else iter(value)
        parts = [flatten(item) for item in items]
        inside = ",".join(text for text, _ in parts)
        text = f"[{inside}]" if type(value) is list else f"({inside})"
        return text, [leaf for _, leaves in parts for leaf in leaves]
    if type(value) is dict:
        parts = [flatten(item) for item in value.values()]
        named = zip(map(_key, value), parts, strict=True)
        inside = ",".join(f"{key}:{text}" for key, (text, _) in named)
        return f"{{{inside}}}", [leaf for _, leaves in parts for leaf in leaves]
    if value is None or type(value) in (bool, int, float, str):
        return f"{value!r:.60}", []
    return type(value).__name__, []


def _key(key: object) -> str:
    """Returns a key as text. A key with a way of its own to be found may equal no plain key."""
    kind: Any = type(key)
    for plain in (str, int, float, tuple):
        is_plain = issubclass(kind, plain) and kind.__eq__ is plain.__eq__
        if is_plain and kind.__hash__ is plain.__hash__:
            return f"{str.__str__(key) if isinstance(key, str) else key!s:.60}"
    return f"{kind.__name__} {key!s:.60}"


def _answers_itself(kind: type) -> bool:
    """Whether a subclass of tuple gives its items by methods of its own."""
    own = [vars(base) for base in kind.__mro__[: kind.__mro__.index(tuple)]]
    return any(name in names for names in own for name in ("__getitem__", "__iter__", "__len__"))


def described(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns tensors by their metadata, and other values as literals."""
    return [
        TensorMeta.of(value).to_json() if isinstance(value, torch.Tensor) else {"literal": value}
        for value in values
    ]
