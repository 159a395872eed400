"""`kernelwright.optimize`: a drop-in module that computes with verified kernels."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.core.errors import SearchInterrupted
from kernelwright.core.progress import OnProgress
from kernelwright.core.record import Record, environment
from kernelwright.core.verdict import Verdict
from kernelwright.policy.names import DEFAULT, DEFAULT_MODE
from kernelwright.search.arguments import Call, call_of, warn_of_weights
from kernelwright.search.contest.graphed import can_be_graphed, waits_for_launches
from kernelwright.search.contest.side_by_side import CalledContender
from kernelwright.search.optimize import SearchJob, SearchOutcome
from kernelwright.search.optimized import Delivery, attach, tensors_of
from kernelwright.search.options import SearchOptions
from kernelwright.search.shelf import open_library
from kernelwright.search.sizes.requested import requested
from kernelwright.search.sizes.signature import Signature
from kernelwright.search.target import ModuleTarget, module_target
from kernelwright.search.telling.describe import graph_record
from kernelwright.search.telling.display import displayed
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.telling.summary import fragments_of
from kernelwright.search.variant import ServedForm
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.deadline import Budget
from kernelwright.timing.turns import take_turns

GRAPH_ROUNDS = 5
"""Turns in which calls with and without a CUDA graph are timed."""


def optimize(
    module: torch.nn.Module,
    example_inputs: tuple[Any, ...] | list[Any] | Mapping[str, Any] | torch.Tensor,
    example_kwargs: dict[str, Any] | None = None,
    *,
    precision: str = "strict",
    mode: str = DEFAULT_MODE,
    budget_s: float = 600.0,
    policy: str = DEFAULT,
    progress: bool | OnProgress = True,
    library: str | os.PathLike[str] | None = None,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
) -> torch.nn.Module:
    """A module with the same signature, parameters, buffers and state_dict keys, optimized for
    inputs of the examples' shapes, dtypes and device.

    Parameters and buffers are shared with `module`, so loading a state_dict into either serves
    both. A `forward` that was replaced on the instance is what is optimized. Inputs of another
    signature, the other of train and eval mode, and tensors on a CPU (where Triton does not run)
    take the original forward. Calls run the fastest that is known: our kernels, our kernels inside
    torch.compile, torch.compile alone, or the original; "form" in the attribute `optimization`
    says which. That attribute holds the result record: outcome, verdict, times, what became Triton.
    Where launches take the time, calls replay a CUDA graph (`search.contest.captured`): not from
    two threads or streams at once.

    Args:
        example_inputs: positional arguments of a typical call, whose shapes are kept. A tensor
            stands for a single argument, a dict with names of forward's parameters for keyword
            arguments.
        precision: "strict", "tf32" or "kernelbench".
        mode: "hybrid" (library calls may stay) or "pure".
        budget_s: seconds on the clock for everything.
        policy: who writes kernels: "teacher", "embedded", "hf:PATH", "openai:URL#model", or several
            with commas. What a model wrote runs in this process once the judge accepted it.
        progress: True shows each step on a terminal and in a notebook; False does not; a callable
            gets a `core.progress.Progress`. Steps also go to Python's logging as "kernelwright".
        library: a folder of kernels (docs/library.md). Fragments in it are not tuned again, and
            new ones are added. By default the folder that KERNELWRIGHT_LIBRARY names, if any.
        dynamic_shapes: sizes that vary from call to call, as of torch.export:
            {"x": {0: torch.export.Dim("batch", max=256)}}. Kernels are verified at several sizes of
            the range and serve all of the range. Without a maximum, the range ends at 16 times the
            example's size. A call outside of the range runs the original forward; Python warns
            of the first one.

    Returns:
        For use under `torch.no_grad()`; called with gradients wanted, it raises RuntimeError.

    Raises:
        UsageError: the module cannot be captured (data-dependent control flow, say), one program
            cannot serve all sizes, or the library cannot be used.
        InfraError: the sandbox or the device failed, or all models that were to write did before
            they wrote anything; a model that fails beside others, or later, is warned of.
        SearchInterrupted: Ctrl-C, a KeyboardInterrupt whose `module` is the best module that was
            verified until then.

    Warns:
        UserWarning: weights are NaN or infinite, or a model failed.
    """
    budget = Budget.start(budget_s)
    with displayed(progress) as on_progress:
        steps = SearchSteps(on_progress, budget)
        example = call_of(module, example_inputs, example_kwargs)
        warn_of_weights(module)
        steps("lowering", type(module).__name__)
        asked = None
        if dynamic_shapes is not None:
            asked = requested(module.forward, example, dynamic_shapes)
        whole = module_target(module, example, asked)
        options = SearchOptions(
            device=whole.device.type,
            precision=precision,
            mode=mode,
            policy=policy,
            budget_s=budget_s,
        )
        job = SearchJob.of(options, budget, steps, open_library(library, steps))
        outcome = job.run(lambda: whole.target)
    for failed in outcome.search.failed:
        warnings.warn(str(failed), stacklevel=2)
    return _delivered(module, whole, example, outcome)


def _delivered(
    module: torch.nn.Module, whole: ModuleTarget, example: Call, outcome: SearchOutcome
) -> torch.nn.Module:
    """The optimized module.

    Raises:
        SearchInterrupted: the search or the timing of a CUDA graph was interrupted.
    """
    is_interrupted = outcome.search.interruption is not None
    delivery = _delivery(module, whole, example, outcome)
    optimized = attach(module, delivery)
    may_wait = not is_interrupted and outcome.verdict.accepted
    # A graph has fixed sizes, so it cannot serve sizes that vary.
    if may_wait and whole.sizes is None and can_be_graphed(whole.lowered):
        try:
            optimized = _faster(module, delivery, outcome.verdict, example)
        # The launched module is right already, so only the choice of a graph is lost.
        except KeyboardInterrupt:
            raise SearchInterrupted(optimized) from None
    if is_interrupted:
        raise SearchInterrupted(optimized) from None
    return optimized


def _delivery(
    module: torch.nn.Module, whole: ModuleTarget, example: Call, outcome: SearchOutcome
) -> Delivery:
    is_original = outcome.whole.served is ServedForm.ORIGINAL
    return Delivery(
        kind=type(module),
        lowered=whole.lowered,
        source=None if is_original else outcome.files["optimized.py"],
        signature=Signature.of(example, whole.sizes),
        is_training=module.training,
        on_gpu=all(tensor.is_cuda for tensor in tensors_of(tree_leaves(example))),
        result=outcome.result | {"graph": None},
        fragments=fragments_of(outcome.records),
        environment=environment(),
    )


def _faster(
    module: torch.nn.Module, delivery: Delivery, verdict: Verdict, example: Call
) -> torch.nn.Module:
    """The module that launches its calls, or the one that replays a CUDA graph, whichever is
    faster. A graph copies inputs and results, which can take more time than launches. A module that
    changes its buffers or inputs is not called for this."""
    plain, lowered = attach(module, delivery), delivery.lowered
    changes = lowered.mutations or lowered.input_mutations
    if changes or not waits_for_launches(verdict):
        return plain
    args, kwargs = example
    replaying = attach(module, _with_graph(delivery, {}))
    contenders = {
        "launched": CalledContender(partial(plain, **kwargs)),
        "replayed": CalledContender(partial(replaying, **kwargs)),
    }
    try:
        with torch.no_grad(), gpu_lock():
            samples = take_turns(contenders, lambda _: list(args), seed=0, rounds=GRAPH_ROUNDS)
    except RuntimeError:  # PyTorch cannot capture the call, or finds no memory for a graph
        return plain
    launched_ms, replayed_ms = median(samples["launched"]), median(samples["replayed"])
    if replayed_ms >= launched_ms:
        return plain
    return attach(module, _with_graph(delivery, graph_record(replayed_ms, launched_ms)))


def _with_graph(delivery: Delivery, graph: Record) -> Delivery:
    """A delivery whose calls replay a CUDA graph."""
    return replace(delivery, result=delivery.result | {"graph": graph})
