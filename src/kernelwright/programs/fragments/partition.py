"""Proposing fragments: convex connected parts of a program that one candidate may replace.

From every call a fragment is grown neighbour by neighbour for as long as a writer can still write
it as a whole. A smaller fragment on the way is proposed too where the kind of kernel changes (a
pointwise group before it swallows a reduction). So the search can cut elsewhere than at the largest
fragment. Where two of them overlap, what the later one leaves is proposed as well.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import combinations

from kernelwright.programs.fragments.fragment import RELABELLING, CallGraph, extract
from kernelwright.programs.program import Program
from kernelwright.timing.stages import stage

Family = Callable[[Program], str | None]
"""Which kind of kernel a writer would use for a fragment; None where it cannot write it."""

MAX_CALLS = 48
"""Calls at which a part has its full size."""


@stage("propose")
def propose(
    program: Program,
    family: Family,
    *,
    every: bool = False,
    for_s: float = math.inf,
    within: Collection[int] | None = None,
) -> list[frozenset[int]]:
    """Fragments worth trying, the largest first, without duplicates.

    Args:
        for_s: seconds after which fragments grow no further.
        every: a lone pointwise call inside a larger program too: nothing may stay in PyTorch.
        within: the calls that fragments may hold; all unless said.
    """
    until_s = time.monotonic() + for_s
    graph = CallGraph(program)
    allowed = frozenset(range(len(program.calls)) if within is None else within)
    known: dict[frozenset[int], str | None] = {}
    # Layers of a network repeat: equal fragments at other places have the same answer.
    answer = cache(family)

    def family_of(part: frozenset[int]) -> str | None:
        if part not in known:
            is_allowed = part <= allowed and not undoes_layout(program, part, graph)
            known[part] = answer(extract(program, part, graph).program) if is_allowed else None
        return known[part]

    def is_late() -> bool:
        return time.monotonic() > until_s

    growth = _Growth(program, graph, family_of, is_late)
    fragments: set[frozenset[int]] = set()
    for start in range(len(program.calls)):
        if is_late():
            break
        fragments.update(growth.parts_from(start))
    fragments.update(
        rest
        for rest in _remainders(program, fragments, every=every)
        if not is_late()
        and graph.is_convex(rest)
        and graph.is_connected(rest)
        and family_of(rest) is not None
    )
    worthwhile = (part for part in fragments if _is_worthwhile(program, part, every=every))
    return sorted(worthwhile, key=lambda part: (-len(part), sorted(part)))


def covering_first(proposals: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Proposals no other contains come first; within both groups the larger ones."""
    return sorted(proposals, key=lambda p: (any(p < q for q in proposals), -len(p), sorted(p)))


def undoes_layout(program: Program, part: frozenset[int], graph: CallGraph) -> bool:
    """Whether a product or a view in the part reads the result of a `to_layout` call in the part.
    A fused kernel would read the old layout, and would never store the new layout."""
    laid_out = (i for i in part if program.calls[i].op == "to_layout")
    users = (program.calls[user] for i in laid_out for user in graph.after[i] & part)
    return any(user.op in RELABELLING or user.is_product for user in users)


def has_ready_factors(
    program: Program, part: Collection[int], graph: CallGraph | None = None
) -> bool:
    """Whether the part holds a product (of matrices, a convolution, attention), and only views
    precede the product within the part. A kernel would compute any other preceding call again for
    every tile of the result."""
    graph = graph or CallGraph(program)
    pending = [i for i in part if program.calls[i].is_product]
    has_product = bool(pending)
    while pending:
        feeding = graph.before[pending.pop()].intersection(part)
        if any(program.calls[i].op not in RELABELLING for i in feeding):
            return False
        pending.extend(feeding)
    return has_product


class _Growth:
    """Parts grown from calls of one program, neighbour by neighbour.

    The check whether a writer can write a part takes longer for larger parts, and an unrolled loop
    over time has hundreds of calls that fit together. So a part stops growing when it has at least
    `MAX_CALLS` calls, and the calls of such a part start no other part.

    Args:
        is_late: whether growing has to end, with the parts that there are.
    """

    def __init__(
        self,
        program: Program,
        graph: CallGraph,
        family_of: Callable[[frozenset[int]], str | None],
        is_late: Callable[[], bool],
    ) -> None:
        self._program, self._graph = program, graph
        self._family_of, self._is_late = family_of, is_late
        self._in_full_parts: set[int] = set()

    def parts_from(self, start: int) -> Iterator[frozenset[int]]:
        """The largest part around a call, and the smaller ones where the kind of kernel changed, or
        where a product took calls that compute its factors."""
        part = frozenset({start})
        # A call in a full part would grow nearly the same part again.
        if start in self._in_full_parts or self._family_of(part) is None:
            return
        while len(part) < MAX_CALLS and not self._is_late():
            bigger = self._with_a_neighbour(part)
            if bigger is None:
                break
            # The search can then choose the part before the change: a product with cheap kernels
            # around it may be faster than one large kernel.
            if self._family_of(bigger) != self._family_of(part) or (
                has_ready_factors(self._program, part, self._graph)
                and not has_ready_factors(self._program, bigger, self._graph)
            ):
                yield part
            part = bigger
        else:
            self._in_full_parts |= part
        yield part

    def _with_a_neighbour(self, part: frozenset[int]) -> frozenset[int] | None:
        """The part with the first neighbour with which it can be written; None without any."""
        for neighbour in _neighbours(self._graph, part):
            # A kernel is one step. A call between two calls of the part would have to wait for the
            # step and to run before it.
            bigger = _closure(self._graph, part | {neighbour})
            if self._family_of(bigger) is not None:
                return bigger
        return None


def _remainders(
    program: Program, found: Collection[frozenset[int]], *, every: bool
) -> set[frozenset[int]]:
    """For each two overlapping parts: the calls of the later part that the earlier part lacks.
    The shared calls must all be views, unless `every` is set."""
    holders: dict[int, list[frozenset[int]]] = {}
    for part in sorted(found, key=min):
        for call in part:
            if every or program.calls[call].op in RELABELLING:
                holders.setdefault(call, []).append(part)
    rests: set[frozenset[int]] = set()
    for parts in holders.values():
        for earlier, later in combinations(parts, 2):
            shared = earlier & later
            are_views = all(program.calls[i].op in RELABELLING for i in shared)
            if (every or are_views) and not later <= earlier:
                rests.add(later - shared)
    return rests - set(found)


def _neighbours(graph: CallGraph, part: frozenset[int]) -> list[int]:
    """Calls one edge away: users first, nearest first, then producers, nearest first."""
    after = frozenset(user for i in part for user in graph.after[i]) - part
    before = frozenset(feeder for i in part for feeder in graph.before[i]) - part
    # Users first: an epilogue costs nothing, a computed factor is computed again for every tile.
    return sorted(after) + sorted(before, reverse=True)


def _closure(graph: CallGraph, part: frozenset[int]) -> frozenset[int]:
    """The smallest convex set around `part`: with it, every call on a path between its calls."""
    reached, reaching = set(part), set(part)
    between = range(min(part), max(part) + 1)
    for i in between:
        if graph.before[i] & reached:
            reached.add(i)
    for i in reversed(between):
        if graph.after[i] & reaching:
            reaching.add(i)
    return frozenset(reached & reaching)


def _is_worthwhile(program: Program, part: frozenset[int], *, every: bool) -> bool:
    """Whether the part has several calls besides views, or a lone call that is not pointwise. A
    lone pointwise call counts if `every` is set, or if the program has no other computation."""
    computing = [i for i in part if program.calls[i].op not in RELABELLING]
    if len(computing) != 1:
        return bool(computing)
    is_all = sum(call.op not in RELABELLING for call in program.calls) == 1
    lone = program.calls[computing[0]]
    return every or is_all or lone.is_extern or lone.operator.family != "pointwise"
