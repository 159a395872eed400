"""TF32 in PyTorch's products of matrices and convolutions, by either of PyTorch's two settings.

PyTorch has older flags (`allow_tf32`) and newer names (`fp32_precision`). Once a program has set a
name, PyTorch raises RuntimeError where the older flag is read. Names can always be read and set,
but a name that differs from its flag breaks other code that reads the flag, Inductor for instance.
So this module sets flags wherever they can be read, and names elsewhere.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

TF32, IEEE = "tf32", "ieee"


def allowed_tf32() -> tuple[bool, bool]:
    """Whether products of matrices, and cuDNN's convolutions and recurrent layers, may use TF32."""
    backends = torch.backends
    try:
        return backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32
    except RuntimeError:  # the program has set names
        names = _names()
        return names[0] == TF32, TF32 in names[1:]


@contextmanager
def tf32(is_allowed: bool | None) -> Iterator[None]:
    """Allows or forbids TF32 until the block is left. Then the former settings are back, even if
    code in the block has changed them.

    Args:
        is_allowed: None leaves the settings as they are.
    """
    restore = _setter()
    try:
        if is_allowed is not None:
            _set(is_allowed)
        yield
    finally:
        restore()


def _set(is_allowed: bool) -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if _has_flags():
        matmul.allow_tf32 = cudnn.allow_tf32 = is_allowed
    else:
        # One name for each of `_parts`.
        _set_names((TF32 if is_allowed else IEEE,) * 3)


def _setter() -> Callable[[], None]:
    """Makes a function that brings back the settings of now."""
    if not _has_flags():
        names = _names()
        return lambda: _set_names(names)
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    for_products, for_convolutions = allowed_tf32()

    def restore() -> None:
        matmul.allow_tf32, cudnn.allow_tf32 = for_products, for_convolutions

    return restore


def _has_flags() -> bool:
    """Whether flags and names agree, so that flags can be read."""
    try:
        _ = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return False
    return True


def _names() -> tuple[str, ...]:
    """The names of products, convolutions and recurrent layers."""
    return tuple(part.fp32_precision for part in _parts())


def _set_names(names: tuple[str, ...]) -> None:
    for part, name in zip(_parts(), names, strict=True):
        part.fp32_precision = name


def _parts() -> tuple[Any, ...]:
    cudnn: Any = torch.backends.cudnn  # the module's type lacks these attributes
    return torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn
