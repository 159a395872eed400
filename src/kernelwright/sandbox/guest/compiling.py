"""Guest side: decides whether `torch.compile` in a candidate compiles."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import torch

from kernelwright.sandbox.shared.manner import Manner

_MODULES = (
    "torch._dynamo.backends.inductor",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.runtime.triton_heuristics",
)


def import_compiler() -> None:
    """Imports the modules that a compilation imports, which takes seconds. The fork server does
    this once for all guests."""
    config: Any = importlib.import_module("torch._inductor.config")
    config.compile_threads = 1  # processes that compile would outlive a call
    with _without_the_driver():
        for name in _MODULES:
            with suppress(ImportError):  # private names of PyTorch, which change
                importlib.import_module(name)


@contextmanager
def _without_the_driver() -> Iterator[None]:
    """Keeps PyTorch from asking the driver whether there is a GPU: after such a question, forks
    cannot use the driver. PyTorch asks NVML instead."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def load_compiler() -> None:
    """Makes PyTorch's compiler compile a small function. An error comes again when a candidate
    compiles."""
    import_compiler()
    function = eval("lambda x: x + 1", {})  # of no module: Dynamo skips some modules' functions
    with suppress(Exception):
        torch.compile(function, dynamic=False)(  # type: ignore[no-untyped-call]
            torch.zeros(16, device="cuda")
        )


def stance(manner: Manner) -> AbstractContextManager[object]:
    """Returns a context in which `torch.compile` compiles or not. A candidate that never uses it
    does not pay for loading PyTorch's compiler."""
    if manner.compiles or "torch._dynamo" not in sys.modules:
        return nullcontext()
    eager: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return eager
