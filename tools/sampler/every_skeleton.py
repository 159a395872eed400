"""Every skeleton of a few small forms, found by trying all and keeping what fits the definition.

What `synth.skeletons.skeleton` counts without looking at one; tests and figures hold the two
together.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from kernelwright.ops.forms.form import Form, Slot, ValueKind
from kernelwright.synth.skeletons.calls import Pattern, Place, Read, places
from kernelwright.synth.skeletons.skeleton import Skeleton, SkeletonCall

OWN, NEW = "an input of its own", "a new shared input"
Calls = tuple[SkeletonCall, ...]
Kinds = tuple[ValueKind, ...]


def every_skeleton(forms: Sequence[Form], n: int, width: int = 3) -> Iterator[Skeleton]:
    """Each once; `forms` in the sense of `Skeletons`."""

    def grow(calls: Calls, kinds: Kinds) -> Iterator[Skeleton]:
        if len(calls) == n:
            if is_skeleton(calls, width):
                yield Skeleton(calls)
        elif len(unread(calls)) <= width:  # what is unread waits, whatever comes
            for call, results in dict.fromkeys(next_calls(forms, kinds)):
                yield from grow((*calls, call), kinds + results)

    yield from grow((), ())


def next_calls(forms: Sequence[Form], kinds: Kinds) -> Iterator[tuple[SkeletonCall, Kinds]]:
    """Calls that may come next, and the Kinds of the values they make. Some come twice."""
    for form in forms:
        order = sorted(range(len(form.slots)), key=lambda at: places(form)[at])
        for sources in product(*(sources_of(form.slots[at], kinds) for at in order)):
            old = [source for source in sources if isinstance(source, int)]
            if len(set(old)) == len(old):
                slots = [(places(form)[at], form.slots[at].kind) for at in order]
                yield wired(form, slots, sources, len(kinds))


def sources_of(slot: Slot, kinds: Kinds) -> list[object]:
    sources: list[object] = []
    if slot.reads_inputs:
        sources.append(OWN)
    if slot.reads_results:
        sources.extend(value for value, kind in enumerate(kinds) if kind == slot.kind)
    if slot.reads_inputs and slot.reads_results:
        sources.append(NEW)
    return sources


def wired(
    form: Form, slots: Sequence[tuple[Place, ValueKind]], sources: Sequence[object], num_values: int
) -> tuple[SkeletonCall, Kinds]:
    reads: list[Read] = []
    values: list[int] = []
    input_kinds: list[ValueKind] = []
    for (place, kind), source in zip(slots, sources, strict=True):
        if source == OWN:
            continue
        reads.append(Read(place, kind, source == NEW))
        values.append(source if isinstance(source, int) else num_values + len(input_kinds))
        if source == NEW:
            input_kinds.append(kind)
    first = num_values + len(input_kinds)
    results = tuple(range(first, first + len(form.results)))
    pattern = Pattern(tuple(reads), form.results)
    return SkeletonCall(form.op, pattern, tuple(values), results), (*input_kinds, *form.results)


def last_reads(calls: Calls) -> dict[int, int]:
    """Value -> the last call that reads it; a shared input's first reading does not count."""
    readers = {}
    for index, call in enumerate(calls):
        for read, value in zip(call.pattern.reads, call.values, strict=True):
            if not read.is_new:
                readers[value] = index
    return readers


def shared_inputs(call: SkeletonCall) -> list[int]:
    pairs = zip(call.pattern.reads, call.values, strict=True)
    return [value for read, value in pairs if read.is_new]


def unread(calls: Calls) -> list[object]:
    """Shared inputs that are read once only, and calls of which no result is read."""
    last = last_reads(calls)
    inputs = [value for call in calls for value in shared_inputs(call) if value not in last]
    return [*inputs, *(call for call in calls if not last.keys() & set(call.results))]


def is_skeleton(calls: Calls, width: int) -> bool:
    last = last_reads(calls)
    maker = {
        value: index
        for index, call in enumerate(calls)
        for value in (*shared_inputs(call), *call.results)
    }
    return unread(calls) == [calls[-1]] and all(
        sum(maker[value] <= index < last[value] for value in last) <= width
        for index in range(len(calls))
    )
