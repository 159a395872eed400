"""Graphs whose gradients are wanted: AOTAutograd makes a forward and a backward graph of each.

Inductor drives the compilation with its own passes and its own choice of saved tensors. When
Inductor compiles one of the two graphs, the graph is also read as a program of ours.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import torch
from torch._guards import TracingContext

from kernelwright.compile.memory import MemoryPlace, OutputLayout
from kernelwright.compile.served import Call

Strides = tuple[tuple[int, ...] | None, ...]
"""The strides of a graph's outputs; None for an output that is no tensor."""
Part = Callable[[torch.fx.GraphModule, Sequence[Any], Call, bool], Call]
"""A forward or backward graph: (graph, example inputs, Inductor's code, whether it is backward) ->
what is called in the place of that code."""


def compile_training(graph: torch.fx.GraphModule, inputs: Sequence[Any], part: Part) -> Call:
    """The function of a graph of Dynamo whose gradients are wanted.

    Args:
        part: is asked for each graph of AOTAutograd.
    """
    from torch._functorch import config  # with Inductor: seconds
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        original = torch.fx.GraphModule(graph, deepcopy(graph.graph))  # Inductor changes graphs
        code: Any = compile_fx_inner(graph, inputs, **options)
        return part(original, inputs, code, bool(options.get("is_backward")))

    # A graph from the cache would come without a call of `inner`.
    with config.patch(enable_autograd_cache=False):
        whole: Any = compile_fx(graph, list(inputs), inner_compile=inner)
    return cast(Call, whole)


def reported_strides(is_backward: bool) -> Strides:
    """Strides of the outputs of the forward code that Inductor compiled last in this thread, on
    which Inductor's backward code relies; () for a backward graph."""
    context = TracingContext.try_get()
    if is_backward or context is None or context.output_strides is None:
        return ()
    return tuple(
        None if strides is None else tuple(map(int, strides)) for strides in context.output_strides
    )


def laid_out(layout: OutputLayout, strides: Strides) -> OutputLayout:
    """The layout of a graph's outputs with these strides.

    A view with other strides becomes a tensor of its own, since AOTAutograd does not need views.
    """
    places = list(layout.places)
    if len(strides) != layout.num_outputs or len(places) < layout.num_outputs:
        return layout
    changed = {
        number
        for number, wanted in enumerate(strides)
        if wanted is not None and wanted != places[number].strides
    }
    for number, place in enumerate(places):
        shows_changed = place.view is not None and place.view.output in changed
        if number in changed or shows_changed:
            wanted = strides[number] if number < len(strides) else None
            places[number] = MemoryPlace(place.shape, wanted or place.strides)
    return replace(layout, places=tuple(places))


def with_reshapes(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with reshapes in the place of views, as Inductor compiles it: a view may not fit
    the strides of another kernel's results."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
    graph.recompile()
    return graph
