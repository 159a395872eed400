"""A capture beside other threads of the user."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exporting_alone() -> Iterator[None]:
    """A context in which `torch.compiler.is_exporting()` is true for this thread only.

    PyTorch keeps the answer in a flag of the process. Compiled code that another thread calls at
    the same time would record its calls for this capture. Two such threads raise a KeyError.
    """
    asked, thread = torch.compiler.is_exporting, threading.get_ident()

    def is_exporting() -> bool:
        return threading.get_ident() == thread and asked()

    torch.compiler.is_exporting = is_exporting
    try:
        yield
    finally:
        torch.compiler.is_exporting = asked
