"""One model, measured in a process of its own: twenty batches, or a training step."""

import json
import sys
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.bench.models.zoo import BATCH, ModelCall, model_named
from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import NOW, BackendSettings
from kernelwright.core.record import Record, environment
from kernelwright.search.contest.side_by_side import CalledContender
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.turns import OURS, compared, take_turns

THEIRS = "compiled"
"""torch.compile's name in records."""
ROUNDS, NUM_ROWS = 20, 8
BATCHES = (16, 1, 2, 3, 4, 5, 7, 8, 12, 24, 31, 32, 48, 64, 96, 100, 128, 192, 255, 256)
"""Twenty batches that one compiled module serves; kernels are tuned at the first."""

Call = Callable[..., Any]


def main(name: str, dtype: str, phase: str, library: str, budget_s: str) -> None:
    """Print the record of one phase as a line of JSON."""
    settings = BackendSettings.of({"library": library, "budget_s": float(budget_s), "search": NOW})
    call = model_named(name).call(BATCH, NUM_ROWS, getattr(torch, dtype), "cuda")
    config: Any = getattr(call.module, "config", None)
    if config is not None:
        config.use_cache = False  # training has no cache
    compiler = Compiler(settings)
    facts: Record = {"record": "backend_model", "model": name, "dtype": dtype, "phase": phase}
    facts |= {"batches": _batches, "train": _train}[phase](call, compiler)
    facts["graphs"] = [str(report).split("\n")[0] for report in compiler.reports]
    sys.stdout.write(json.dumps(facts | {"environment": environment()}) + "\n")


def _batches(call: ModelCall, compiler: Compiler) -> Record:
    """One compiled module at twenty batches, beside torch.compile(dynamic=True)."""
    module, args, kwargs = call.module, call.args, call.kwargs
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


def _train(call: ModelCall, compiler: Compiler) -> Record:
    """One training step: gradients beside PyTorch's, times beside torch.compile's."""
    module, args, kwargs = call.module, call.args, call.kwargs

    def step(side: Call) -> None:
        module.zero_grad(set_to_none=True)
        tensors = (v for v in tree_leaves(side(*args, **kwargs)) if isinstance(v, torch.Tensor))
        output = next(tensor for tensor in tensors if tensor.requires_grad)
        loss: Any = output.float().square().mean()
        loss.backward()

    def gradients(side: Call) -> list[torch.Tensor]:
        step(side)
        return [p.grad.clone() for p in module.parameters() if p.grad is not None]

    sides = {
        THEIRS: torch.compile(module),
        OURS: torch.compile(copy(module), backend=compiler),
    }
    expected = gradients(module)
    error = {name: _error(gradients(side), expected) for name, side in sides.items()}
    steps = {name: partial(step, side) for name, side in sides.items()}
    return _turns(steps, []) | {"error": error}


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
