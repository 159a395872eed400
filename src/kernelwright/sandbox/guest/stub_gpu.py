"""A stand-in for a GPU that is not there: answers the questions of host code before a launch.

Installed where kernels are interpreted or only compiled. The figures are an H200's, because
candidates are compiled for this target.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.driver import driver

MAX_SHARED_BYTES = 232_448
"""Shared memory one block may ask for on sm_90."""

_PROPERTIES = SimpleNamespace(
    name="stub sm_90",
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    total_memory=141 << 30,
    L2_cache_size=50 << 20,
    shared_memory_per_block_optin=MAX_SHARED_BYTES,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65_536,
)


class StubDriver(DriverBase):  # type: ignore[misc]
    """Answers Triton's questions about the active device; autotuning runs each choice once."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None: ...

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0)

    def clear_cache(self, cache: torch.Tensor) -> None: ...

    def get_benchmarker(self) -> Any:
        def once(kernel_call: Any, *, quantiles: list[float], **_: Any) -> list[float]:
            kernel_call()
            return [1.0] * len(quantiles)

        return once


@contextmanager
def active_driver() -> Iterator[None]:
    """Compile without a GPU; afterwards Triton looks for its driver anew."""
    driver.set_active(StubDriver())
    try:
        yield
    finally:
        driver._active = None


def install() -> None:
    """Make the stub Triton's active driver, and answer `torch.cuda`'s harmless questions."""
    driver.set_active(StubDriver())
    answers: dict[str, Any] = {
        "get_device_properties": lambda *_: _PROPERTIES,
        "get_device_capability": lambda *_: (9, 0),
        "current_device": lambda: 0,
        "synchronize": lambda *_: None,
        "device": lambda *_: nullcontext(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
