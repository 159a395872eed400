"""Choosing which verified fragments to use together.

DRTriton replaces a single fragment; here the disjoint fragments with the largest total saving are
combined, exactly, by dynamic programming over the calls in program order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from kernelwright.programs.program import Program


@dataclass(frozen=True, slots=True)
class Option:
    """A fragment that may be replaced, and what that saves."""

    calls: frozenset[int]
    saving: float
    """Milliseconds where they were measured, else bytes: any one unit, larger is better."""


def combine(program: Program, options: Sequence[Option]) -> list[int]:
    """Indices of the disjoint options with the largest total saving that can run together.

    Options without a saving are never taken. Two convex fragments may still wait for each other
    once each is one step; then the cheaper one of the circle is left out and the choice repeated.
    """
    usable = [i for i, option in enumerate(options) if option.saving > 0]
    # Circles are rare. The greedy step is therefore good enough, and each round removes one option,
    # so the loop ends.
    while True:
        chosen = _best_disjoint(options, usable, len(program.calls))
        cycle = circular(program, [options[i].calls for i in chosen])
        if not cycle:
            return chosen
        dropped = min((chosen[k] for k in cycle), key=lambda i: options[i].saving)
        usable.remove(dropped)


def _best_disjoint(options: Sequence[Option], usable: list[int], num_calls: int) -> list[int]:
    by_first: dict[int, list[int]] = {}
    for i in usable:
        by_first.setdefault(min(options[i].calls), []).append(i)
    # Later calls already inside a chosen option -> the best saving that leads there, and how.
    states: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {frozenset(): (0.0, ())}
    for call in range(num_calls):
        after: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}
        for taken, (saving, chosen) in states.items():
            # A call that has passed cannot meet a later option: without it, more paths share a
            # state.
            moves = [(taken - {call}, saving, chosen)]
            # Options are indexed by their first call, so each option is decided once, when that
            # call is reached.
            if call not in taken:
                moves += [
                    ((taken | options[i].calls) - {call}, saving + options[i].saving, (*chosen, i))
                    for i in by_first.get(call, ())
                    if not options[i].calls & taken
                ]
            for state, total, picks in moves:
                if state not in after or total > after[state][0]:
                    after[state] = (total, picks)
        states = after
    return list(states[frozenset()][1])


def circular(program: Program, groups: Sequence[frozenset[int]]) -> list[int]:
    """Indices of the groups that wait for each other once each is a single step."""
    return [step for step in _order(program, groups)[1] if step < len(groups)]


def schedule(program: Program, groups: Sequence[frozenset[int]]) -> list[int]:
    """Execution order of steps: k < len(groups) is group k, len(groups) + i is the lone call i.

    Raises:
        ValueError: groups wait for each other (see `circular`).
    """
    order, stuck = _order(program, groups)
    if stuck:
        raise ValueError(f"steps {stuck} wait for each other")
    return order


def _order(program: Program, groups: Sequence[frozenset[int]]) -> tuple[list[int], list[int]]:
    """Steps in an order that runs, ties by program order, and the steps that never become ready."""
    inside = {call: k for k, group in enumerate(groups) for call in group}
    step_of = [inside.get(i, len(groups) + i) for i in range(len(program.calls))]
    waits: dict[int, set[int]] = {step: set() for step in step_of}  # in order of first call
    for step, feeding in zip(step_of, program.feeding(), strict=True):
        waits[step].update([step_of[i] for i in feeding])
        waits[step].discard(step)
    place = {step: at for at, step in enumerate(waits)}
    after: dict[int, list[int]] = {step: [] for step in waits}
    for step, before in waits.items():
        for earlier in before:
            after[earlier].append(step)
    missing = {step: len(before) for step, before in waits.items()}
    ready = [(place[step], step) for step, count in missing.items() if not count]  # a heap
    order: list[int] = []
    while ready:
        _, step = heappop(ready)
        order.append(step)
        del waits[step]
        for later in after[step]:
            missing[later] -= 1
            if not missing[later]:
                heappush(ready, (place[later], later))
    return order, list(waits)
