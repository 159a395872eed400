"""Guest side: what happens during a judged call. Kernel launches and ATen operators are counted,
fresh memory is poisoned and guarded, and named kernels can be made to do nothing."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch._C import _len_torch_dispatch_stack
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from kernelwright.sandbox.guest.crossings import Crossings, Departures
from kernelwright.sandbox.guest.disguise import disguised
from kernelwright.sandbox.guest.interpreter.arguments import (
    HostCode,
    has_code_in_constants,
    plain,
    plain_number,
)
from kernelwright.sandbox.guest.red_zones import RedZones
from kernelwright.sandbox.guest.witness import Witness
from kernelwright.sandbox.shared.modes import PlainDispatchMode
from kernelwright.sandbox.shared.tensors import TensorMeta
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
_RESIZE = "aten.resize_.default"
"""The operator that gives a tensor more memory, which nobody has written."""

_STOCK_NAMESPACES = {
    schema.name.partition("::")[0] for schema in torch._C._jit_get_all_schemas()
} | {name.partition("::")[0] for name in OPDEFS}
"""Namespaces of operators before any candidate is loaded."""
_INTEGER_POISON, _INTEGER_POISONS = 0x5A, 37
"""The least of them, and how many there are: all fit into eight bits."""


class Launches:
    """Kernel launches of this process, counted by name; `skipped` names are not launched.

    A launch that a CUDA graph captures counts when the graph is replayed. Where `spans` is a list,
    each launch adds the CUDA events around it.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.skipped: frozenset[str] = frozenset()
        self.witness: Witness | None = None
        """The observer below Python of the call in progress."""
        self.crossings: Crossings | None = None
        """The counters of the watched call in progress."""
        self.watch: CallWatch | None = None
        """The dispatch mode of the watched call in progress."""
        self.suppressed: Counter[str] = Counter()
        """Launches that `skipped` kept from happening."""
        self.operators: Counter[str] = Counter()
        """Operators that ran where the call's watch does not look: in graphs captured outside of
        it, and in functions that the interpreter calls."""
        self._captured: Counter[str] | None = None
        self.spans: list[tuple[torch.cuda.Event, torch.cuda.Event]] | None = None
        self._streams: set[int] = set()
        # Looked up before candidates load, and as Triton asks: `torch.cuda.current_stream` takes
        # as long as a small kernel. PyTorch for CPUs has neither.
        self._device: Any = getattr(torch._C, "_cuda_getDevice", None)
        self._stream_of: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def install(self) -> None:
        """Counts every launch from here on, interpreted or on a GPU."""
        for function in (JITFunction, InterpretedFunction):
            self._wrap(function)
        self._wrap_graphs(torch.cuda.CUDAGraph)

    def _wrap(self, function: Any) -> None:
        run = function.run
        is_interpreted = function is InterpretedFunction

        @disguised(run)
        def counted(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            name = kernel.fn.__name__
            if not warmup and name in self.skipped:
                self.suppressed[name] += 1
                return None
            crossings = None if warmup else self.crossings
            # Before the launch, because methods of the candidate's own classes would run inside it.
            if crossings is not None or (is_interpreted and not warmup):
                args = tuple(self._plain(value, is_interpreted) for value in args)
                kwargs = {key: self._plain(value, is_interpreted) for key, value in kwargs.items()}
            if crossings is not None:
                if is_interpreted and has_code_in_constants(kernel.fn):
                    crossings.notes["leaves.Python in a kernel (a class of constants)"] += 1
                with _disable_current_modes():
                    crossings.before_launch((*args, *kwargs.values()))
            if is_interpreted and (self.witness or _len_torch_dispatch_stack()):
                grid = self._observed_grid(grid, (*args, *kwargs.values()))
                with self._observed_hooks(kernel), _disable_current_modes():
                    result = run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            elif self.spans is None:
                result = run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            else:
                with self._span():
                    result = run(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            if crossings is not None:
                with _disable_current_modes():
                    crossings.after_launch((*args, *kwargs.values()))
            if not warmup:  # a launch that raises is none
                (self.counts if self._captured is None else self._captured)[name] += 1
                self._note_stream()
            return result

        function.run = counted

    def _wrap_graphs(self, graph: Any) -> None:
        """Counts, at each replay, the launches that its graph captured. A graph with a skipped
        kernel is not replayed."""
        begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay
        kernels: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
        witnesses: WeakKeyDictionary[Any, Witness] = WeakKeyDictionary()

        @disguised(begin)
        def begin_counted(captured: Any, *args: Any, **kwargs: Any) -> Any:
            result = begin(captured, *args, **kwargs)
            self._captured = kernels[captured] = Counter()
            if self.witness is None:
                witnesses[captured] = Witness().__enter__()
            return result

        @disguised(end)
        def end_counted(captured: Any) -> Any:
            self._captured = None
            if captured in witnesses:
                witnesses[captured].__exit__()
            return end(captured)

        @disguised(replay)
        def replay_counted(captured: Any) -> Any:
            names = kernels.get(captured, Counter())
            if captured in witnesses:
                self.operators.update(witnesses[captured].seen())
            # A graph cannot be replayed in part, so all of its kernels are suppressed.
            if names.keys() & self.skipped:
                self.suppressed.update(names)
                return None
            self.counts.update(names)
            self._note_stream()
            with self._span() if names else nullcontext():
                return replay(captured)

        graph.capture_begin, graph.capture_end = begin_counted, end_counted
        graph.replay = replay_counted

    def _plain(self, value: Any, is_interpreted: bool) -> Any:
        """Returns an argument without code of the candidate's, and notes a function that no GPU
        would call."""
        if not is_interpreted:
            return plain_number(value)
        try:
            return plain(value)
        except HostCode as code:
            if self.crossings is not None:
                self.crossings.notes[f"leaves.Python in a kernel ({code})"] += 1
            return value

    def _observed_grid(self, grid: Any, args: tuple[Any, ...]) -> Any:
        """Returns the grid as a function that runs under the dispatch mode of the call, which a
        launch lifts. The interpreter calls it last before the kernel's body, so memory that
        anything else has changed in the launch shows here."""

        def computed(meta: Any) -> Any:
            with self.watch or nullcontext():
                sizes = _plain_grid(grid(meta) if callable(grid) else grid)
            if self.crossings is not None:
                self.crossings.before_launch(args)
            return sizes

        return computed

    @contextmanager
    def _observed_hooks(self, kernel: Any) -> Iterator[None]:
        """Makes a kernel's hooks run under the dispatch mode of the call inside."""
        hooks = kernel.pre_run_hooks
        kernel.pre_run_hooks = [self._observed(hook) for hook in hooks]
        try:
            yield
        finally:
            kernel.pre_run_hooks = hooks

    def _observed(self, hook: Any) -> Any:
        def observed(*args: Any, **kwargs: Any) -> Any:
            with self.watch or nullcontext():
                return hook(*args, **kwargs)

        return observed

    @contextmanager
    def _span(self) -> Iterator[None]:
        if self.spans is None or self._captured is not None:  # a capture takes no time
            yield
            return
        begin, end = event_pair()
        begin.record()
        yield
        end.record()
        self.spans.append((begin, end))

    def watch_spans(self) -> list[tuple[torch.cuda.Event, torch.cuda.Event]]:
        """Puts events around launches from here on, until `spans` is None again; returns the list
        of event pairs."""
        self.spans = []
        return self.spans

    def reset(self, skipped: frozenset[str] = frozenset()) -> None:
        self.counts.clear()
        self.suppressed.clear()
        self._streams.clear()
        self.operators.clear()
        self.skipped = skipped

    def _note_stream(self) -> None:
        if self._captured is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            self._streams.add(self._stream_of(self._device()))

    def unfinished(self) -> int:
        """Counts streams with launched kernels that still have work when the current stream is
        through. A user of the outputs does not wait for this work."""
        if not self._streams:
            return 0
        current = torch.cuda.current_stream()
        others = self._streams - {current.cuda_stream}
        if not others:
            return 0
        current.synchronize()
        streams: list[Any] = [
            torch.cuda.ExternalStream(other)  # type: ignore[no-untyped-call]
            for other in others
        ]
        return sum(not stream.query() for stream in streams)


def _plain_grid(grid: Any) -> Any:
    """Returns the grid as a tuple of plain integers."""
    return tuple(int(size) for size in grid) if isinstance(grid, tuple | list) else grid


class CallWatch(PlainDispatchMode):
    """Counts ATen operators of this thread, and values that leave PyTorch or enter it, while
    active. Memory fresh from the allocator holds `poison` (floats) or a pattern (integers), between
    `zones` where they are given."""

    def __init__(self, poison: float, crossings: Crossings, zones: RedZones | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poison, self.zones = poison, zones
        self.operators = crossings.notes
        self._crossings = crossings
        self._departures = Departures(crossings)

    def __enter__(self) -> Self:
        self._departures.__enter__()  # type: ignore[no-untyped-call]
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._departures.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = str(func)
        if (body := _candidates_body(func, args)) is not None:
            with self:  # what runs inside counts
                return body(*args, **(kwargs or {}))
        self.operators[name] += 1
        self._crossings.before_operator(name, args, kwargs)
        num_bytes = args[0].untyped_storage().nbytes() if name == _RESIZE else 0
        result = func(*args, **(kwargs or {}))
        if name in _FRESH:
            result = self._guarded(result)
            poison(result, self.poison)
        elif name == _RESIZE:
            poison(_grown(result, num_bytes), self.poison)
        self._crossings.after_operator(args, result)
        return result

    def _guarded(self, fresh: torch.Tensor) -> torch.Tensor:
        """Returns the fresh tensor between guarded zones, where there is room."""
        if self.zones is None or fresh.device != self.zones.device:
            return fresh
        meta = TensorMeta.of(fresh)
        if not self.zones.has_room(meta):
            return fresh
        del fresh  # room for the guarded one
        return self.zones.empty(meta)


def _grown(tensor: torch.Tensor, num_bytes: int) -> torch.Tensor:
    """Returns the elements of a tensor's storage beyond the first bytes."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole.set_(torch.Tensor.untyped_storage(tensor))
    return whole[-(-num_bytes // tensor.itemsize) :]


def _candidates_body(operator: Any, args: tuple[Any, ...]) -> Any:
    """Returns the function of an operator that the candidate defined with `torch.library`; None
    for any other operator."""
    if operator.namespace in _STOCK_NAMESPACES:
        return None
    devices = [value.device.type for value in args if isinstance(value, torch.Tensor)]
    defined: Any = OPDEFS.get(operator.name().partition(".")[0])
    if defined is not None:
        return defined._backend_fns.get(devices[0] if devices else None, defined._init_fn)
    # Straight to the implementation for the device: the mode would be asked again.
    key = {"cpu": "CPU", "cuda": "CUDA"}.get(devices[0] if devices else "")
    if key is None:
        return None
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    return partial(operator.redispatch, keys)


def poison(tensor: torch.Tensor, value: float) -> None:
    """Fills unwritten memory with values that no kernel leaves there by chance. If the value is
    finite, booleans and integers follow it, so that no candidate can know them. A value of 0 is
    zero in every type."""
    if value == 0:
        tensor.zero_()
        return
    whole = 0 if value != value else int(value)
    if tensor.dtype is torch.bool:
        tensor.fill_(whole % 2 == 0)
    elif tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.fill_(value)
    else:
        tensor.fill_(_INTEGER_POISON + whole % _INTEGER_POISONS)


def poison_allocator(device: torch.device, value: float) -> None:
    """Leaves poison in the blocks that the caching allocator hands out next, 512 bytes to 64
    MiB."""
    blocks = [
        torch.empty(512 << size, dtype=torch.uint8, device=device)
        for size in range(18)
        for _ in range(2)
    ]
    for block in blocks:
        block.view(torch.float32).fill_(value)
