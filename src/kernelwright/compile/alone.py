"""A capture beside other threads of the user."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def exporting_alone() -> Iterator[None]:
    """Only this thread believes that torch.export runs.

    PyTorch keeps that in a flag of the process. Compiled code that other threads call meanwhile
    would note its calls for the capture too, and two threads that do so raise a KeyError.
    """
    asked, thread = torch.compiler.is_exporting, threading.get_ident()

    def is_exporting() -> bool:
        return threading.get_ident() == thread and asked()

    torch.compiler.is_exporting = is_exporting
    try:
        yield
    finally:
        torch.compiler.is_exporting = asked
