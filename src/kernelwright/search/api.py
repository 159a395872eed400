"""`kernelwright.optimize`: a drop-in module that computes with verified kernels."""

import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import SearchInterrupted
from kernelwright.core.progress import OnProgress
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.names import DEFAULT, DEFAULT_MODE
from kernelwright.programs.compose import compose
from kernelwright.programs.lowering import Lowered, lower
from kernelwright.search.arguments import Call, call_of, warn_of_weights
from kernelwright.search.captured import replay
from kernelwright.search.describe import graph_record
from kernelwright.search.display import displayed
from kernelwright.search.graphed import can_be_graphed, waits_for_launches
from kernelwright.search.importing import imported_function
from kernelwright.search.optimize import judges, search_target
from kernelwright.search.original import flat_compiled
from kernelwright.search.search import Search
from kernelwright.search.shelf import Shelf, open_library
from kernelwright.search.side_by_side import Called
from kernelwright.search.sources import Sources
from kernelwright.search.steps import Steps
from kernelwright.search.target import Target
from kernelwright.search.variant import Served
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.deadline import Budget
from kernelwright.timing.turns import take_turns
from kernelwright.verify.compare import Precision
from kernelwright.verify.judge import device_named
from kernelwright.verify.judging import Rules
from kernelwright.verify.program_task import program_task

REPLACED = "_forward_before_optimization"
"""Attribute of an optimized module: the `forward` that was replaced on the original instance."""
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
) -> torch.nn.Module:
    """A module with the same signature, parameters, buffers and state_dict keys, optimized for
    inputs of the examples' shapes, dtypes and device.

    Parameters and buffers are shared with `module`, so loading a state_dict into either serves
    both. A `forward` that was replaced on the instance is what is optimized. Inputs of another
    signature, the other of train and eval mode, and tensors on a CPU (where Triton does not run)
    take the original forward. Calls run the fastest that is known: our kernels, our kernels inside
    torch.compile, torch.compile alone, or the original; "form" in the attribute `optimization`
    says which. That attribute holds the result record: outcome, verdict, times, what became Triton.
    Where launches are what takes the time, calls replay a CUDA graph (`search.captured`): not from
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

    Returns:
        For use under `torch.no_grad()`; called with gradients wanted, it raises RuntimeError.

    Raises:
        UsageError: the module cannot be captured (data-dependent control flow, say), or the library
            cannot be used.
        InfraError: the sandbox or the device failed, or all models that were to write did before
            they wrote anything; a model that fails beside others, or later, is warned of.
        SearchInterrupted: Ctrl-C, a KeyboardInterrupt whose `module` is the best module that was
            verified until then.

    Warns:
        UserWarning: weights are NaN or infinite, or a model failed.
    """
    budget = Budget.start(budget_s)
    with displayed(progress) as on_progress:
        steps = Steps(on_progress, budget)
        args, kwargs = call_of(module, example_inputs, example_kwargs)
        warn_of_weights(module)
        name = type(module).__name__
        steps("lowering", name)
        lowered = lower(module, args, kwargs)
        device = lowered.gather(module, args, kwargs)[0].device.type
        target = Target(
            name=name,
            program=lowered.program,
            task=program_task(lowered.program, name=name),
            write=lambda composed: composed,
            original="",
            compiled=partial(flat_compiled, compose(lowered.program, []).source),
        )
        sources = Sources(policy)
        options = {"device": device, "precision": precision, "mode": mode}
        rules = Rules(device_named(device), Precision(precision), mode)
        shelf = Shelf(open_library(library, steps), rules, sources, steps)
        judging = judges(sources, budget_s, has_foreign=shelf.has_foreign(), **options)
        with judging as (judge, teacher_judge):
            search = Search(
                judge,
                sources,
                budget=budget,
                steps=steps,
                teacher_judge=teacher_judge,
                shelf=shelf,
            )
            outcome = search_target(target, search, judge, budget=budget, steps=steps)
    for failed in search.failed:
        warnings.warn(str(failed), stacklevel=2)
    is_original = outcome.whole.served is Served.ORIGINAL
    compute = None if is_original else imported_function(outcome.files["optimized.py"])
    attached = partial(_attach, module, lowered, (args, kwargs), compute, outcome.result)
    optimized = attached(graph=None)
    may_wait = search.interruption is None and outcome.verdict.accepted
    if may_wait and can_be_graphed(lowered):
        try:
            optimized = _faster(optimized, attached, lowered, outcome.verdict, (args, kwargs))
        except KeyboardInterrupt:
            raise SearchInterrupted(optimized) from None
    if search.interruption is not None:
        raise SearchInterrupted(optimized) from None
    return optimized


def _faster(
    plain: torch.nn.Module,
    attached: Callable[..., torch.nn.Module],
    lowered: Lowered,
    verdict: Verdict,
    example: Call,
) -> torch.nn.Module:
    """The module, or the one that replays a CUDA graph, whichever is faster. A graph copies inputs
    and results, which can take more time than launches. A module that changes its buffers or inputs
    is not called for this."""
    changes = lowered.mutations or lowered.input_mutations
    if changes or not waits_for_launches(verdict):
        return plain
    args, kwargs = example
    replaying = attached(graph={})
    contenders = {
        "launched": Called(partial(plain, **kwargs)),
        "replayed": Called(partial(replaying, **kwargs)),
    }
    try:
        with torch.no_grad(), gpu_lock():
            samples = take_turns(contenders, lambda _: list(args), seed=0, rounds=GRAPH_ROUNDS)
    except RuntimeError:  # PyTorch cannot capture the call, or finds no memory for a graph
        return plain
    launched_ms, replayed_ms = median(samples["launched"]), median(samples["replayed"])
    if replayed_ms >= launched_ms:
        return plain
    return attached(graph=graph_record(replayed_ms, launched_ms))


def _attach(
    module: torch.nn.Module,
    lowered: Lowered,
    example: Call,
    compute: Callable[..., list[torch.Tensor]] | None,
    result: Record,
    *,
    graph: Record | None,
) -> torch.nn.Module:
    """A shallow copy of the module, its own class's subclass, whose forward uses `compute`.

    Args:
        result: the result record.
        graph: what a CUDA graph of the call saves, as `graph_record`; None: there is no graph.
    """
    kind = type(module)
    expected, mode = _signature(*pytree.tree_flatten(example)), module.training
    on_gpu = all(tensor.is_cuda for tensor in _tensors(pytree.tree_leaves(example)))

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = _tensors(leaves)
        if torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *self.parameters())
        ):
            raise RuntimeError(
                f"{kind.__name__} was optimized for inference only: call it under "
                "torch.no_grad(), or keep the original module for training"
            )
        is_other = self.training != mode or _signature(leaves, spec) != expected
        if compute is None or not on_gpu or is_other:
            replaced = vars(self).get(REPLACED)
            if replaced is not None:
                return replaced(*args, **kwargs)
            return kind.forward(self, *args, **kwargs)

        def run(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
            left = iter(tensors)
            given = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            results = compute(*lowered.gather(module, *pytree.tree_unflatten(given, spec)))
            lowered.store(module, results)
            return results

        results = run(self, tensors) if graph is None else replay(self, tensors, run)
        return lowered.rebuild(results, args, kwargs)

    optimized = copy.copy(module)
    optimized.__class__ = type(f"Optimized{kind.__name__}", (kind,), {"forward": forward})
    if "forward" in vars(module):  # would hide the class's forward
        vars(optimized)[REPLACED] = vars(optimized).pop("forward")
    vars(optimized)["optimization"] = result | {"graph": graph}
    return optimized


def _tensors(leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def _signature(leaves: Sequence[Any], spec: pytree.TreeSpec) -> tuple[Any, ...]:
    """What the program was specialised to: structure, shapes, dtypes, devices, plain values."""
    described = [
        (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]
    return spec, tuple(described)
