"""Dispatch modes of PyTorch that cost no import of its compiler."""

from torch.utils._python_dispatch import TorchDispatchMode


class PlainDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that does not import torch._dynamo (2 s) at its first operator."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
