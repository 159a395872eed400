"""The optimized.py of a target for which no kernel is kept: the original behind the same names, as
it is or inside torch.compile."""

import inspect

from kernelwright.programs.fragments.source_merge import rename
from kernelwright.search.contest.graph_trees import replayed
from kernelwright.search.module.emit import LAYOUTS_STAY, options_text

GRAPH_IMPORTS = """import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

Call = Callable[..., Any]
"""
"""The imports that the text of `replayed` needs."""


def model_original(text: str) -> str:
    """For a file that defines `Model`: the same file with the class named `ModelNew`."""
    return rename(text, {"Model": "ModelNew"})


def model_compiled(
    text: str, *, moves_layouts: bool = True, is_graph: bool = False, is_sized: bool = False
) -> str:
    """The same, with `forward` inside torch.compile.

    Args:
        moves_layouts: as of `emit.compiled`.
        is_graph: torch.compile replays CUDA graphs.
        is_sized: sizes vary from call to call.
    """
    imports = GRAPH_IMPORTS if is_graph else "import torch\n"
    last = f"ModelNew.forward = {_inside('ModelNew.forward', moves_layouts, is_graph, is_sized)}\n"
    helper = f"\n\n{inspect.getsource(replayed)}\n\n" if is_graph else "\n"
    return f"{model_original(text).rstrip()}\n\n\n{imports}{helper}{last}"


def flat_compiled(
    text: str, *, moves_layouts: bool = True, is_graph: bool = False, is_sized: bool = False
) -> str:
    """For a flat program: the same file, with `fused_operator` inside torch.compile."""
    last = f"fused_operator = {_inside('fused_operator', moves_layouts, is_graph, is_sized)}\n"
    helper = f"{GRAPH_IMPORTS}\n\n{inspect.getsource(replayed)}\n\n" if is_graph else ""
    return f"{text.rstrip()}\n\n\n{helper}{last}"


def _inside(call: str, moves_layouts: bool, is_graph: bool, is_sized: bool) -> str:
    """Text of a function inside torch.compile."""
    if is_graph:
        return f"replayed({call}, {{}})" if moves_layouts else f"replayed({call}, {LAYOUTS_STAY})"
    return f"torch.compile({call}{options_text(moves_layouts, is_sized)})"


def factory_original(spec: str) -> str:
    """For "package.module:factory": `attach(module)` gives the factory's module back as it is."""
    return f'''"""No kernel is kept for {spec}: its module computes as before."""


def attach(module):
    """The module that {spec} makes, unchanged."""
    return module
'''


def factory_compiled(
    spec: str, *, moves_layouts: bool = True, is_graph: bool = False, is_sized: bool = False
) -> str:
    """For "package.module:factory": `attach(module)` has torch.compile compile the module."""
    helper = f"{GRAPH_IMPORTS}\n\n{inspect.getsource(replayed)}\n\n" if is_graph else "\n"
    step = f"module.compile({options_text(moves_layouts, is_sized).removeprefix(', ')})"
    # `Module.compile` always uses torch.compile itself, so `replayed` takes the place of forward.
    if is_graph:
        step = f"module.forward = {_inside('module.forward', moves_layouts, is_graph, is_sized)}"
    return f'''"""No kernel is kept for {spec}: torch.compile is the fastest known."""

{helper}def attach(module):
    """The module that {spec} makes, inside torch.compile."""
    {step}
    return module
'''
