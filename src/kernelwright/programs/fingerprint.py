"""Fingerprints: one short text for all programs that are the same graph.

Names, the order of calls, of inputs and of returned values, and the order of operands that commute
do not matter; what is drawn for inputs does not either. Sharing does: relu(x) + relu(x) of one call
and of two are different programs.

Every value and call has a colour, a hash. One round passes colours up, from inputs to their
readers, and then down, from results to their operands. So a colour tells all that leads to a value,
and all that the value leads to. Rounds go on until they tell no more values apart; the fingerprint
is the hash of all colours, sorted. This is colour refinement: where all colours differ, and they
nearly always do, equal fingerprints mean isomorphic graphs (or a collision of hashes).
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program, Ref

DIGITS = 16
"""Hexadecimal, of the hash: among 10^8 programs the chance of any collision is about 1 in 3,000."""

_DIMENSIONS = frozenset({"dim", "dims", "dim0", "dim1", "dimension", "start_dim", "end_dim"})
_ADDS_DIMENSION = frozenset({"unsqueeze", "stack"})
_TYPES = frozenset({"dtype", "memory_format"})

Colour = bytes


def fingerprint(program: Program, *, sizes: bool = True) -> str:
    """16 hexadecimal digits that all programs with the same graph share.

    Args:
        sizes: whether shapes, dtypes, layouts and numbers count. If not, only the graph of calls,
            dimensions (counted from the last), flags and modes count.
    """
    graph = _ColouredGraph(program, sizes)
    # A round never merges colours. So when a round tells no more nodes apart, no later one does.
    num_colours = graph.refine()
    while num_colours < graph.num_nodes and (num_refined := graph.refine()) > num_colours:
        num_colours = num_refined
    return _hash(sorted([*graph.calls, *graph.values.values()])).hex()[:DIGITS]


@dataclass(slots=True)
class _ColouredGraph:
    """The colours of a program's calls and of the values that they read or make."""

    program: Program
    sizes: bool
    calls: list[Colour] = field(init=False)
    values: dict[str, Colour] = field(init=False)
    reads: list[list[tuple[bytes, str]]] = field(init=False)
    """The readings of each call: (slot, name of the value). Operands that commute have one slot."""
    uses: dict[str, list[tuple[bytes, int]]] = field(init=False)
    """The uses of each value: (slot, call)."""

    def __post_init__(self) -> None:
        program = self.program
        described = [_described(program, call, self.sizes) for call in program.calls]
        self.calls = [label for label, _ in described]
        self.reads = [reads for _, reads in described]
        self.uses = {name: [] for call in program.calls for name in call.outputs}
        for name in program.outputs:
            self.uses.setdefault(name, [])
        for i, reads in enumerate(self.reads):
            for slot, name in reads:
                self.uses.setdefault(name, []).append((slot, i))
        self.values = {}
        for value in program.inputs:
            if value.name in self.uses:
                result_type = value.type
                text = (
                    f"{result_type.shape} {result_type.dtype} {result_type.layout}"
                    if self.sizes
                    else ""
                )
                self.values[value.name] = _hash([b"input", text.encode()])

    @property
    def num_nodes(self) -> int:
        return len(self.calls) + len(self.values)

    def refine(self) -> int:
        """One round; returns the number of different colours."""
        for i, call in enumerate(self.program.calls):
            read = sorted((slot, self.values[name]) for slot, name in self.reads[i])
            self.calls[i] = _hash([self.calls[i], *_flat(read)])
            for k, name in enumerate(call.outputs):
                colour = self.values.get(name, b"")
                self.values[name] = _hash([colour, self.calls[i], k.to_bytes(2)])
        for i in reversed(range(len(self.calls))):
            names = self.program.calls[i].outputs
            for name in names:
                self._look_down(name)
            self.calls[i] = _hash([self.calls[i], *(self.values[name] for name in names)])
        for value in self.program.inputs:
            if value.name in self.values:
                self._look_down(value.name)
        return len({*self.calls, *self.values.values()})

    def _look_down(self, name: str) -> None:
        used = sorted((slot, self.calls[i]) for slot, i in self.uses[name])
        returned = self.program.outputs.count(name).to_bytes(2)
        self.values[name] = _hash([self.values[name], returned, *_flat(used)])


def _hash(parts: Iterable[bytes]) -> Colour:
    """A hash of parts that are hashes, or that never begin like one another."""
    return hashlib.sha256(b"\0".join(parts)).digest()


def _flat(pairs: list[tuple[bytes, Colour]]) -> Iterator[bytes]:
    for slot, colour in pairs:
        yield slot
        yield colour


def _described(program: Program, call: Call, sizes: bool) -> tuple[Colour, list[tuple[bytes, str]]]:
    """(A hash of the call without its operands, its operands as (slot, name of the value))."""
    op, slots = call.op, _slots(call)
    if not sizes and call.has(Trait.MATMUL):  # the products differ in ranks alone
        op, slots = "matmul", {call.operator.factors[1].name: "other"}
    lines: list[str] = []
    reads: list[tuple[bytes, str]] = []
    for name, value in _arguments(call):
        slot = slots.get(name, name)
        if isinstance(value, Ref):
            reads.append((slot.encode(), value.name))
        elif isinstance(value, tuple) and any(isinstance(item, Ref) for item in value):
            items = [(k, item) for k, item in enumerate(value) if isinstance(item, Ref)]
            reads += [(f"{slot} {k}".encode(), item.name) for k, item in items]
        elif sizes or name not in _TYPES:
            if name in _DIMENSIONS and not call.is_extern:
                text = _dimensions(program, call, value)
            else:
                text = repr(value) if sizes else _kept(value)
            lines.append(f"{slot}={text}")
    return _hash([op.encode(), *(text.encode() for text in sorted(lines))]), reads


def _slots(call: Call) -> dict[str, str]:
    """One name for operands that may change places."""
    if call.is_extern or dict(call.args).get("alpha", 1) != 1:
        return {}
    return dict.fromkeys(call.operator.commutes, "either")


def _arguments(call: Call) -> Iterator[tuple[str, Any]]:
    """All arguments of an operator, those at their defaults too."""
    if call.is_extern:
        yield from call.args
    else:
        by_name = dict(call.args)
        yield from ((p.name, by_name.get(p.name, p.default)) for p in call.operator.params)


def _dimensions(program: Program, call: Call, value: Any) -> str:
    """Dimensions counted from the last; "all" where a reduction names every one."""
    first = next(call.refs(), None)
    rank = program.type_of(first).rank if first is not None else call.types[0].rank
    rank = max(rank + (call.op in _ADDS_DIMENSION), 1)
    is_reduction = call.operator.family == "reduction"
    if isinstance(value, int):
        counted = (value % rank - rank,)
    elif isinstance(value, tuple):
        counted = tuple(dim % rank - rank for dim in value)
    else:
        return "all" if is_reduction else repr(value)
    if is_reduction and len(counted) in (0, rank):
        return "all"
    return repr(tuple(sorted(counted)) if is_reduction else counted)


def _kept(value: Any) -> str:
    """The part of an attribute that counts where sizes do not."""
    if isinstance(value, bool | str) or value is None:
        return repr(value)
    return "numbers"
