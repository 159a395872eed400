"""Fragments as models can write them, which know programs as they were trained on: views of what is
given stay with PyTorch, where they are free, and what fails as a whole is tried in parts."""

from collections.abc import Collection

from kernelwright.programs.fragments.fragment import (
    RELABELLING,
    RESHAPING,
    CallGraph,
    enumerate_fragments,
)
from kernelwright.programs.program import Call, Program

MAX_CALLS = 3
"""The most calls of a part."""
MAX_PARTS = 16
"""The most parts of one fragment."""
MAX_PARTS_FROM = 32
"""The most parts looked at that begin at one call: there may be exponentially many."""


def without_outer_views(
    program: Program, calls: frozenset[int], graph: CallGraph
) -> frozenset[int]:
    """The calls without those that only give an input or a result another shape. All of them where
    nothing else is left, or where what is left does not hang together."""
    kept = set(calls)
    while outer := [i for i in kept if _is_outer_view(program, i, kept, graph)]:
        kept -= {outer[0]}
    return frozenset(kept) if graph.is_connected(kept) else calls


def _is_outer_view(program: Program, call: int, kept: set[int], graph: CallGraph) -> bool:
    is_inner = graph.before[call] & kept and graph.after[call] & kept
    return program.calls[call].op in RESHAPING and not is_inner


def smaller_parts(
    program: Program, calls: frozenset[int], known: Collection[frozenset[int]]
) -> list[frozenset[int]]:
    """Parts of a fragment that are not known yet, those of most calls first. In none are
    convolutions and products, which are rarely worth a kernel on their own, and calls that draw:
    no kernel draws the same."""
    graph = CallGraph(program)
    light = {i for i in calls if _is_light(program.calls[i])}
    grown = (
        without_outer_views(program, part, graph)
        for part in enumerate_fragments(program, MAX_CALLS, MAX_PARTS_FROM)
        if part <= light
    )
    parts = {part for part in grown if _computes(program, part)} - {calls, *known}
    return sorted(parts, key=lambda part: (-len(part), sorted(part)))[:MAX_PARTS]


def _is_light(call: Call) -> bool:
    return not (call.is_extern or call.is_product or call.is_random)


def _computes(program: Program, part: frozenset[int]) -> bool:
    return any(program.calls[i].op not in RELABELLING for i in part)
