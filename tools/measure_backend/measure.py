"""One model, measured in a process of its own: values, times, compile time, memory, host time."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import BackendSettings
from kernelwright.core.record import Record, environment
from kernelwright.search.contest.side_by_side import CalledContender
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.turns import OURS, compared, take_turns
from tools.measure_backend.models import MODELS, Made

THEIRS = "compiled"
"""torch.compile's name in records."""
ROUNDS, HOST_CALLS = 20, 50
BATCHES = (16, 1, 2, 3, 4, 5, 7, 8, 12, 24, 31, 32, 48, 64, 96, 100, 128, 192, 255, 256)
"""Twenty batches that one compiled module serves; kernels are tuned at the first."""

Call = Callable[..., Any]


def main(name: str, dtype: str, phase: str, library: str, budget_s: str) -> None:
    """Print the record of one phase as a line of JSON."""
    search = "off" if phase == "time" else "now"
    settings = BackendSettings.of(
        {"library": library, "budget_s": float(budget_s), "search": search}
    )
    model = next(candidate for candidate in MODELS if candidate.name == name)
    torch.manual_seed(0)
    module, args, kwargs = model.make()
    made_task = (module.eval(), *_moved((args, kwargs), dtype))
    module.cuda().to(getattr(torch, dtype))
    measure = {"search": _search, "time": _time, "batches": _batches, "train": _train}[phase]
    compiler = Compiler(settings)
    facts: Record = {"record": "backend_model", "model": name, "dtype": dtype, "phase": phase}
    facts |= measure(made_task, compiler)
    facts["graphs"] = [str(report).split("\n")[0] for report in compiler.reports]
    sys.stdout.write(json.dumps(facts | {"environment": environment()}) + "\n")


def _moved(values: Any, dtype: str) -> Any:
    """Tensors on the GPU, floats in a dtype."""

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.cuda().to(getattr(torch, dtype)) if value.is_floating_point() else value.cuda()

    return tree_map(moved, values)


def _search(made: Made, compiler: Compiler) -> Record:
    """Fill the library."""
    module, args, kwargs = made
    fast, begin_s = torch.compile(module, backend=compiler), time.monotonic()
    with torch.no_grad():
        fast(*args, **kwargs)
    return {"seconds": time.monotonic() - begin_s}


def _time(made: Made, compiler: Compiler) -> Record:
    """Values beside PyTorch's; times, compile time, memory and host time beside torch.compile's."""
    module, args, kwargs = made
    facts: Record = {"error": {}, "first_call_s": {}, "peak_bytes": {}, "host_us": {}}
    with torch.no_grad():
        expected = module(*args, **kwargs)
        # Dynamo keeps code by object, so that each side gets an object of its own.
        compiled = {
            THEIRS: torch.compile(module),
            OURS: torch.compile(copy(module), backend=compiler),
        }
        sides = {name: partial(call, **kwargs) for name, call in compiled.items()}
        for name, side in sides.items():
            call = partial(side, *args)
            facts["first_call_s"][name], result = _first(call)
            facts["error"][name] = _error(result, expected)
            del result
            facts["peak_bytes"][name], facts["host_us"][name] = _peak(call), _host_us(call)
        return _turns(sides, list(args)) | facts


def _batches(made: Made, compiler: Compiler) -> Record:
    """One compiled module at twenty batches, beside torch.compile(dynamic=True)."""
    module, args, kwargs = made
    ours = torch.compile(copy(module), backend=compiler, dynamic=True)
    theirs = torch.compile(module, dynamic=True)
    rows = []
    with torch.no_grad():
        for batch in BATCHES:
            some, named = tree_map(partial(_resized, batch=batch), (args, kwargs))
            expected = module(*some, **named)
            error = {
                THEIRS: _error(theirs(*some, **named), expected),
                OURS: _error(ours(*some, **named), expected),
            }
            sides = {THEIRS: partial(theirs, **named), OURS: partial(ours, **named)}
            rows.append({"batch": batch, "error": error, **_turns(sides, list(some))})
    return {"batches": rows, "over_compile": median(row["over_compile"] for row in rows)}


def _train(made: Made, compiler: Compiler) -> Record:
    """One training step: gradients beside PyTorch's, times beside torch.compile's."""
    module, args, kwargs = made

    def step(call: Call) -> None:
        module.zero_grad(set_to_none=True)
        tensors = (v for v in tree_leaves(call(*args, **kwargs)) if isinstance(v, torch.Tensor))
        output = next(tensor for tensor in tensors if tensor.requires_grad)
        loss: Any = output.float().square().mean()
        loss.backward()

    def gradients(call: Call) -> list[torch.Tensor]:
        step(call)
        return [p.grad.clone() for p in module.parameters() if p.grad is not None]

    sides = {
        THEIRS: torch.compile(module),
        OURS: torch.compile(copy(module), backend=compiler),
    }
    expected = gradients(module)
    error = {name: _error(gradients(side), expected) for name, side in sides.items()}
    steps = {name: partial(step, side) for name, side in sides.items()}
    return _turns(steps, []) | {"error": error}


def _first(call: Call) -> tuple[float, Any]:
    """Seconds until the first result, and the result."""
    torch.cuda.synchronize()
    begin_s = time.monotonic()
    result = call()
    torch.cuda.synchronize()
    return time.monotonic() - begin_s, result


def _peak(call: Call) -> int:
    """Bytes of the GPU's memory at most in a call."""
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _host_us(call: Call) -> float:
    """Microseconds of the host for a call that is queued."""
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        for _ in range(HOST_CALLS):
            call()
        times.append((time.perf_counter() - begin_s) / HOST_CALLS * 1e6)
    return median(times)


def _error(one: Any, other: Any) -> float:
    """The largest relative error, by norms, among floating-point results."""
    errors = [
        float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30))
        for a, b in zip(tree_leaves(one), tree_leaves(other), strict=True)
        if isinstance(a, torch.Tensor) and a.is_floating_point()
    ]
    return max(errors, default=0.0)


def _turns(sides: Mapping[str, Call], inputs: list[Any]) -> Record:
    """Times of both sides in turn, and the speed-up over torch.compile with its interval."""
    with gpu_lock():
        called = {name: CalledContender(side) for name, side in sides.items()}
        samples = take_turns(called, lambda _: inputs, seed=0, rounds=ROUNDS)
    medians = {name: median(times) for name, times in samples.items()}
    return {
        "median_ms": medians,
        "over_compile": medians[THEIRS] / medians[OURS],
        "interval": list(compared(samples).speedup_intervals.get(THEIRS, ())),
    }


def _resized(value: Any, *, batch: int) -> Any:
    """A tensor with this many rows."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    num_copies = (batch + value.shape[0] - 1) // value.shape[0]
    return value.repeat(num_copies, *[1] * (value.dim() - 1))[:batch]


if __name__ == "__main__":
    main(*sys.argv[1:])
