"""Proposing fragments: convex connected parts of a program that one candidate may replace.

From every call a fragment is grown neighbour by neighbour for as long as a writer can still write
it as a whole. What growth passes on the way is proposed too where the kind of kernel changes there
(a pointwise group before it swallows a reduction), so the search can cut elsewhere than at the
largest fragment.
"""

from collections.abc import Callable, Iterator

from kernelwright.programs.fragment import extract, is_convex
from kernelwright.programs.program import Program

Family = Callable[[Program], str | None]
"""Which kind of kernel a writer would use for a fragment; None where it cannot write it."""

RELABELLING = frozenset({"reshape", "flatten", "squeeze", "unsqueeze", "broadcast_to", "transpose",
                         "permute", "slice", "select", "chunk", "split"})  # fmt: skip
"""Views: they cost nothing in PyTorch, so a fragment of these alone is not worth a kernel."""


def propose(program: Program, family: Family) -> list[frozenset[int]]:
    """Fragments worth trying, the largest first, without duplicates."""
    known: dict[frozenset[int], str | None] = {}

    def family_of(part: frozenset[int]) -> str | None:
        if part not in known:
            opaque = any(program.calls[i].is_extern for i in part)
            known[part] = None if opaque else family(extract(program, part).program)
        return known[part]

    found: set[frozenset[int]] = set()
    for start in range(len(program.calls)):
        found.update(_grow(program, start, family_of))
    return sorted((p for p in found if _worthwhile(program, p)), key=lambda p: (-len(p), sorted(p)))


def _grow(
    program: Program, start: int, family_of: Callable[[frozenset[int]], str | None]
) -> Iterator[frozenset[int]]:
    part = frozenset({start})
    if family_of(part) is None:
        return
    while True:
        for neighbour in _neighbours(program, part):
            bigger = _closure(program, part | {neighbour})
            if family_of(bigger) is not None:
                break
        else:
            yield part
            return
        if family_of(bigger) != family_of(part):
            yield part
        part = bigger


def _neighbours(program: Program, part: frozenset[int]) -> list[int]:
    """Calls one edge away: users first, nearest first, then producers, nearest first."""
    producer, users = program.producer(), program.users()
    after = {u for i in part for name in program.calls[i].outputs for u in users[name]} - part
    before = {
        producer[name] for i in part for name in program.calls[i].refs() if name in producer
    } - part
    return sorted(after) + sorted(before, reverse=True)


def _closure(program: Program, part: frozenset[int]) -> frozenset[int]:
    """The smallest convex set around `part`: with it, every call on a path between its calls."""
    if is_convex(program, part):
        return part
    producer = program.producer()
    reached, reaching = set(part), set(part)
    users = program.users()
    for i in range(min(part), max(part) + 1):
        if any(producer.get(name) in reached for name in program.calls[i].refs()):
            reached.add(i)
    for i in range(max(part), min(part) - 1, -1):
        if any(u in reaching for name in program.calls[i].outputs for u in users[name]):
            reaching.add(i)
    return frozenset(reached & reaching)


def _worthwhile(program: Program, part: frozenset[int]) -> bool:
    """Fusing saves traffic, or the lone call is one that a kernel of its own may do better."""
    computing = [i for i in part if program.calls[i].op not in RELABELLING]
    if len(computing) != 1:
        return bool(computing)
    return program.calls[computing[0]].operator.family != "pointwise"
