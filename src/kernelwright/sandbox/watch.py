"""Guest side: what happens during a judged call. Kernel launches and ATen operators are counted,
fresh memory is poisoned, and named kernels can be made to do nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from kernelwright.timing.cuda_timer import event_pair

_FRESH = {
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.empty_permuted.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
}
"""Operators that return memory nobody has written."""

_INTEGER_POISON = 0x5A


class Launches:
    """Kernel launches of this process, counted by name; `skipped` names are not launched.

    Where `spans` is a list, each launch adds the CUDA events around it.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.skipped: frozenset[str] = frozenset()
        self.spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] | None = None

    def install(self) -> None:
        """Count every launch from here on, interpreted or on a GPU."""
        for function in (JITFunction, InterpretedFunction):
            self._wrap(function)

    def _wrap(self, function: Any) -> None:
        run = function.run

        def counted(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            name = kernel.fn.__name__
            if not warmup and name in self.skipped:
                return None
            with _disable_current_modes(), self._span():  # the interpreter's own tensor work
                result = run(kernel, *args, grid=grid, warmup=warmup, **kwargs)  # is not recorded
            if not warmup:  # a launch that raises is none
                self.counts[name] += 1
            return result

        function.run = counted

    @contextmanager
    def _span(self) -> Iterator[None]:
        if self.spans is None:
            yield
            return
        begin, end = event_pair()
        begin.record()
        yield
        end.record()
        self.spans.append((begin, end))

    def reset(self, skipped: frozenset[str] = frozenset()) -> None:
        self.counts.clear()
        self.skipped = skipped


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active: ATen operators of this thread are counted in `operators`, and memory fresh
    from the allocator holds `poison` (floats) or a pattern (integers)."""

    def __init__(self, poison: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poison = poison
        self.operators: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch._dynamo (2 s) at the first operator

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = str(func)
        self.operators[name] += 1
        result = func(*args, **(kwargs or {}))
        if name in _FRESH:
            poison(result, self.poison)
        return result


def poison(tensor: torch.Tensor, value: float) -> None:
    """Fill memory nobody has written with what no kernel would leave there by chance."""
    if tensor.dtype is torch.bool:
        tensor.fill_(True)
    elif tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(value)
    else:
        tensor.fill_(_INTEGER_POISON)


def poison_allocator(device: torch.device, value: float) -> None:
    """Leave poison in the blocks the caching allocator will hand out next, 512 bytes to 64 MiB."""
    blocks = [
        torch.empty(512 << size, dtype=torch.uint8, device=device)
        for size in range(18)
        for _ in range(2)
    ]
    for block in blocks:
        block.view(torch.float32).fill_(value)
