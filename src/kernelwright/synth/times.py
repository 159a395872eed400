"""Reference times: the time of a program in eager PyTorch, on the GPU of this machine."""

import json
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.programs.reference import make_inputs
from kernelwright.programs.text import parse
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.cuda_timer import stopwatch

NUM_WARM_UPS = 3
NUM_CALLS = 15


class EagerClock:
    """Times programs in eager PyTorch, with a cold L2 cache and exclusive use of the GPU.

    Raises:
        UsageError: there is no GPU.
    """

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise UsageError("reference times need a GPU", remedy="leave --time out")
        self.gpu = torch.cuda.get_device_name()
        self._stopwatch = stopwatch()

    def timed(self, line: str) -> str:
        """The record of a program (a JSON text) with `eager_s`, the median time in seconds.

        `eager_s` is null if the program needs more memory than the GPU has. Records that are no
        programs stay as they are.
        """
        record = json.loads(line)
        if record["record"] != "program":
            return line
        return json.dumps(record | {"eager_s": self._seconds(record["text"])}, allow_nan=False)

    def _seconds(self, text: str) -> float | None:
        try:
            inputs = make_inputs(parse(text), 0, "cuda")
            return self._median_s(_function(text), inputs)
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.empty_cache()

    def _median_s(self, function: Callable[..., object], inputs: list[torch.Tensor]) -> float:
        with torch.no_grad(), gpu_lock():
            for _ in range(NUM_WARM_UPS):
                function(*inputs)
            calls = [self._stopwatch(lambda: function(*inputs)) for _ in range(NUM_CALLS)]
        return median(call.time_ms for call in calls) / 1e3


def _function(text: str) -> Callable[..., object]:
    """The function that the text of a program of ours defines."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "program.py", "exec"), namespace)
    function: Callable[..., object] = namespace["fused_operator"]
    return function
