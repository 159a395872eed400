"""Measures a call of a model with the backend: values, times, compile time, memory, and the share
of our kernels. PyTorch and torch.compile are measured in the same process.

The three are called "sides": `EAGER`, `COMPILE` and `OURS`.
"""

import gc
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from kernelwright.bench.models.tensors import CacheState, changed, tensors_of
from kernelwright.bench.models.zoo import ModelCall
from kernelwright.compile.backend import Compiler
from kernelwright.compile.reports import FAULT, GraphReport
from kernelwright.core.delivered import COMPILE, EAGER
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.search.contest.side_by_side import MESSAGE_LIMIT, CalledContender
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.turns import OURS, compared, take_turns
from kernelwright.verify.tasks.oracle import called_in_double
from kernelwright.verify.values.compare import Expected, compare

SEED = 0
"""Seed of the order in which the sides take turns."""
PROFILED_CALLS = 3
"""Calls that the share of our kernels is measured over."""

Run = Callable[..., Any]


def search(call: ModelCall, compiler: Compiler) -> Record:
    """Call the model once with the backend. The searches of the backend fill its library.

    Returns:
        "search_s": seconds of the call; "searches_failed": for each search without a result, the
        reason.

    Raises:
        Exception: whatever the model or the compiler raises.
    """
    compiled, begin_s = torch.compile(call.module, backend=compiler), time.monotonic()
    with torch.no_grad():
        compiled(*call.args, **call.kwargs)
    spent_s = time.monotonic() - begin_s
    failed = [report.why for report in compiler.reports if report.why.startswith(FAULT)]
    return {"search_s": spent_s, "searches_failed": failed}


def measure(host: ModelCall, compiler: Compiler, device: torch.device) -> Record:
    """The figures of `core.kinds.models.ModelCaseLine` for a call.

    Args:
        host: the call on the CPU; copies go to the device one after another, because a GPU has
            room for only one copy of the largest models.
        compiler: the backend, with a library that a search has filled.
        device: where the call is measured. Times, memory and share need "cuda".

    Raises:
        Exception: whatever the model raises in PyTorch, in its own dtype or in float64. If
            torch.compile or the backend fails, "sides_failed" has the message, and nothing is
            raised.
    """
    with beside_others(device):
        oracle = _oracle(host, device)
        # Modules may refer to each other in a circle, and so keep the memory of the GPU.
        gc.collect()
        call = changed(host, device)
    state = CacheState(call)
    # Dynamo keeps compiled code for each module object. So each side gets a copy of the module,
    # which shares the parameters.
    modules: dict[str, Run] = {
        EAGER: call.module,
        COMPILE: torch.compile(copy(call.module)),
        OURS: torch.compile(copy(call.module), backend=compiler),
    }
    runs: dict[str, Run] = {
        name: partial(module, *call.args, **call.kwargs) for name, module in modules.items()
    }
    with torch.no_grad():
        with beside_others(device):
            _warm_compiler(device)
            facts = _first_calls(runs, state, oracle)
        working = {name: run for name, run in runs.items() if name not in facts["sides_failed"]}
        is_timed = device.type == "cuda" and not _is_broken()
        facts |= _on_gpu(working, state, compiler) if is_timed else _UNTIMED
    return facts | {"graphs": [_graph_facts(report) for report in compiler.reports]}


def beside_others(device: torch.device) -> AbstractContextManager[None]:
    """The lock of the GPU, shared with processes that compute: other processes wait with their
    times. On a CPU nothing is timed."""
    return gpu_lock(shared=True) if device.type == "cuda" else nullcontext()


def _warm_compiler(device: torch.device) -> None:
    """Load Inductor and start its workers. Otherwise the side that is called first would pay the
    seconds of both sides."""
    with suppress(Exception):  # the error comes again in the first call of a side, which tells it
        torch.compile(torch.nn.Softmax(dim=-1))(torch.ones(2, 2, device=device))


def _is_broken() -> bool:
    """Whether an error of a kernel has ended the CUDA context, in which no call works any more."""
    try:
        _synchronize()
    except Exception:
        return True
    return False


_UNTIMED: Record = {
    **dict.fromkeys((EAGER, COMPILE, OURS, "peak_bytes", "share")),
    "speedup_intervals": {},
}
"""The figures that need a GPU."""


def _oracle(host: ModelCall, device: torch.device) -> tuple[torch.Tensor, ...]:
    """The results of the call in float64, computed on the device and kept on the CPU."""
    wide = changed(host, device, is_wide=True)
    native = next((p.dtype for p in host.module.parameters()), torch.float32)

    def run(*args: Any) -> Any:
        return wide.module(*args, **wide.kwargs)

    output = called_in_double(run, wide.args, native)
    return tuple(tensor.cpu() for tensor in tensors_of(output))


def _values(run: Run) -> tuple[torch.Tensor, ...]:
    """Copies of the tensors that a call returns. Without copies, the next call would change the
    tensors of a cache.

    The copies are contiguous, because torch.compile promises values and no strides.
    """
    layout = torch.contiguous_format
    return tuple(tensor.clone(memory_format=layout) for tensor in tensors_of(run()))


def _first_calls(
    runs: Mapping[str, Run], state: CacheState, oracle: tuple[torch.Tensor, ...]
) -> Record:
    """For both compiled sides, the seconds of the first call, and the comparison of its values with
    the float64 reference."""
    expected = Expected(native=_values(runs[EAGER]), oracle=oracle)
    facts: Record = {"sides_failed": {}, "correct": {}, "mismatch": {}, "errors": {}}
    facts["compile_s"] = {}
    for name in (COMPILE, OURS):
        state.restore()
        _synchronize()
        begin_s = time.monotonic()
        try:
            values = _values(runs[name])
            _synchronize()  # kernels that fail raise here
        except Exception as error:  # whatever a compiler raises
            text = f"{type(error).__name__}: {error}"
            facts["sides_failed"][name] = " ".join(text.split())[:MESSAGE_LIMIT]
            continue
        facts["compile_s"][name] = time.monotonic() - begin_s
        comparison = compare(values, expected, Precision.STRICT)
        facts["correct"][name] = comparison.mismatch is None
        facts["errors"][name] = asdict(comparison.errors) if comparison.errors else None
        if comparison.mismatch is not None:
            facts["mismatch"][name] = comparison.mismatch.message
    return facts


def _synchronize() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()


def _on_gpu(runs: Mapping[str, Run], state: CacheState, compiler: Compiler) -> Record:
    """Times of all sides, which take turns; the peak memory of each side, in bytes; the share of
    our kernels."""
    facts: Record = {EAGER: None, COMPILE: None, OURS: None, "share": None, "peak_bytes": {}}
    for name, run in runs.items():
        facts["peak_bytes"][name] = _peak_bytes(run, state)
    with gpu_lock():
        contenders = {name: CalledContender(run, state.restore) for name, run in runs.items()}
        figures = compared(take_turns(contenders, lambda _: [], seed=SEED))
        if OURS in runs:
            names = [name for report in compiler.reports for name in report.kernels]
            facts["share"] = _share(runs[OURS], state, names)
    facts |= {name: asdict(timing) for name, timing in figures.times.items()}
    return facts | {"speedup_intervals": figures.speedup_intervals}


def _peak_bytes(run: Run, state: CacheState) -> int:
    """The peak of GPU memory in a call, in bytes, weights included."""
    state.restore()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _share(run: Run, state: CacheState, names: Sequence[str]) -> float | None:
    """The GPU time of kernels with these names, divided by the GPU time of the whole call. None if
    the profiler saw no kernel."""
    whole_us = ours_us = 0.0
    for _ in range(PROFILED_CALLS):
        state.restore()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
            torch.cuda.synchronize()
        for event in profiler.events():
            if event.device_type == DeviceType.CUDA and not event.is_user_annotation:
                spent_us = event.time_range.elapsed_us()
                whole_us += spent_us
                ours_us += spent_us * is_ours(event.name, names)
    return ours_us / whole_us if whole_us else None


def is_ours(kernel: str, names: Sequence[str]) -> bool:
    """Whether a kernel on the device is one of these functions of ours.

    Inductor appends a number to the name of a function that it takes over.
    """
    return re.sub(r"_\d+$", "", kernel) in names or kernel in names


def _graph_facts(report: GraphReport) -> Record:
    """The fields of `core.kinds.models.ModelGraphFields`."""
    left = [
        # A fragment may have a kernel that the graph does not run: the graph says why.
        {"operators": list(part.operators), "why": report.why if part.has_kernel else part.why}
        for part in report.left
    ]
    return {
        "calls": report.num_calls,
        "runs": report.runs,
        "why": report.why,
        "graph_break": report.graph_break,
        "kernels": list(report.kernels),
        "left": left,
        "outside": list(report.outside),
    }


@contextmanager
def without_caches() -> Iterator[None]:
    """A context in which Inductor does not reuse code of an earlier call. Reused code would make
    the compile time of one side too short."""
    from torch._inductor import config  # seconds

    with config.patch(force_disable_caches=True):
        yield
