"""Fragments: convex connected parts of a program, taken out and enumerated."""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.build import canonical, default_init
from kernelwright.programs.draws.initial import Uses
from kernelwright.programs.program import Call, Input, Program

RESHAPING = names_with(Trait.RESHAPES)
"""Views with all elements in the order in which they were."""
PERMUTING = names_with(Trait.PERMUTES)
CUTS = names_with(Trait.CUTS)
"""Views of a part of a value."""
RELABELLING = RESHAPING | PERMUTING | CUTS | names_with(Trait.BROADCASTS)
"""Views: they cost nothing in PyTorch, so a fragment of these alone is not worth a kernel."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a program as a program of its own, and its place in the whole."""

    program: Program
    """The fragment as a program, with canonical names."""
    calls: frozenset[int]
    """Indices of its calls in the whole program."""
    inputs: tuple[str, ...]
    """The whole's values it reads: one for each of its inputs, in order."""
    outputs: tuple[str, ...]
    """The whole's values it makes that are used outside it: one for each of its outputs."""


class CallGraph:
    """The edges between the calls of a program, computed once."""

    def __init__(self, program: Program) -> None:
        self.users = program.users()
        """Value name -> the calls that read it."""
        self.before = program.feeding()
        self.after: list[set[int]] = [set() for _ in program.calls]
        for user, feeding in enumerate(self.before):
            for i in feeding:
                self.after[i].add(user)

    def is_convex(self, part: Collection[int]) -> bool:
        """Whether no path leaves the part and comes back. Only such a part can run as one step."""
        # Calls are in topological order: a path that has passed the last call cannot come back.
        last = max(part, default=-1)
        pending = [user for i in part for user in self.after[i] if user not in part]
        outside = set(pending)
        while pending:
            for user in self.after[pending.pop()]:
                if user in part:
                    return False
                if user < last and user not in outside:
                    outside.add(user)
                    pending.append(user)
        return True

    def is_connected(self, part: Collection[int]) -> bool:
        """Every call reaches every other by edges within the part, in either direction."""
        if not part:
            return False
        reached = {next(iter(part))}
        pending = list(reached)
        while pending:
            i = pending.pop()
            fresh = {n for n in (*self.before[i], *self.after[i]) if n in part} - reached
            reached |= fresh
            pending.extend(fresh)
        return len(reached) == len(set(part))


def extract(program: Program, calls: Collection[int], graph: CallGraph | None = None) -> Fragment:
    """The part as a program of its own.

    Inputs of the whole program keep their draw. For results of other calls, a draw is chosen by the
    calls that read them.

    Args:
        graph: the graph of the program, if the caller has it. To make the graph is most of the work
            on a small part of a large program.

    Raises:
        ValueError: the part is empty or not convex.
    """
    own = part_of(program, calls, graph)
    inputs = tuple(value.name for value in own.inputs)
    return Fragment(
        program=canonical(own), calls=frozenset(calls), inputs=inputs, outputs=own.outputs
    )


def part_of(program: Program, calls: Collection[int], graph: CallGraph | None = None) -> Program:
    """The part as a program with the names of the whole (see `extract`).

    Inputs are in the order in which the part reads them.

    Raises:
        ValueError: the part is empty or not convex.
    """
    part, graph = frozenset(calls), graph or CallGraph(program)
    if not part or not graph.is_convex(part):
        raise ValueError(f"calls {sorted(part)} are not a convex part of the program")
    inside = [program.calls[i] for i in sorted(part)]
    results = {name for call in inside for name in call.outputs}
    reads = dict.fromkeys(name for call in inside for name in call.refs() if name not in results)
    outputs = tuple(
        name
        for call in inside
        for name in call.outputs
        if name in program.outputs or not part.issuperset(graph.users[name])
    )
    return Program(_inputs(program, tuple(reads), inside, outputs), tuple(inside), outputs)


def _inputs(
    program: Program, names: tuple[str, ...], inside: list[Call], outputs: tuple[str, ...]
) -> tuple[Input, ...]:
    known = {value.name: value for value in program.inputs}
    bare = tuple(Input(name, program.type_of(name)) for name in names)
    uses = Uses(Program(bare, tuple(inside), outputs))
    return tuple(
        known.get(value.name)
        or Input(value.name, value.type, uses.init(value.name) or default_init(value.type))
        for value in bare
    )


def enumerate_fragments(
    program: Program, max_calls: int, most_a_call: int | None = None
) -> Iterator[frozenset[int]]:
    """Yields every convex connected part of at most `max_calls` calls, each once.

    Parts are grouped by their first call, smaller parts first. There may be exponentially many, so
    they are made lazily.

    Args:
        most_a_call: the most parts with the same first call; None for all.
    """
    graph = CallGraph(program)
    for start in range(len(program.calls)):
        yield from islice(_with_first(graph, start, max_calls), most_a_call)


def _with_first(graph: CallGraph, start: int, max_calls: int) -> Iterator[frozenset[int]]:
    """Yields the convex parts among all connected parts whose first call is `start`.

    Parts grow along edges. A neighbour that was passed over is excluded from later growth, so each
    part is found once. Parts that are not convex grow too: a larger part may be convex.
    """
    pending = deque([(frozenset({start}), frozenset(range(start)))])
    while pending:
        part, excluded = pending.popleft()
        if graph.is_convex(part):
            yield part
        if len(part) == max_calls:
            continue
        near = {n for i in part for n in (*graph.before[i], *graph.after[i])}
        for neighbour in sorted(near - part - excluded):
            excluded |= {neighbour}
            pending.append((part | {neighbour}, excluded))
