"""Values that are moved about and end up as they were."""

from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.dataflow import axes_of, permutation
from kernelwright.programs.fragments.fragment import PERMUTING, RESHAPING
from kernelwright.programs.program import Ref


def idle_view(site: Site) -> tuple[Ref, ...] | None:
    """Views that together rebuild the value that they began with: unsqueeze and squeeze, a permute
    and its inverse, a reshape to the shape that is there."""
    call = site.call
    if call.op in RESHAPING:
        value = call.arg("input")
        while True:
            if site.shape(value) == call.types[0].shape:
                return (value,)
            before = site.maker(value)
            if before is None or before.op not in RESHAPING:
                return None
            value = before.arg("input")
    if call.op in PERMUTING:
        return _restored(site)
    return None


def _restored(site: Site) -> tuple[Ref, ...] | None:
    """The value that a chain of permutes gives back."""
    value, order = site.call.arg("input"), permutation(site.call, site.call.types[0].rank)
    while order != tuple(range(len(order))):
        before = site.maker(value)
        if before is None or before.op not in PERMUTING:
            return None
        first = permutation(before, len(order))
        value, order = before.arg("input"), tuple(first[axis] for axis in order)
    return (value,)


def idle_copy(site: Site) -> tuple[Ref, ...] | None:
    """Repeating once, padding by nothing, rolling by nothing, joining one, a slice of all."""
    call = site.call
    if call.op == "roll":
        return (call.arg("input"),) if not any(_each(call.arg("shifts"))) else None
    if call.op == "pad":
        return (call.arg("input"),) if not any(call.arg("pad")) else None
    if call.op == "cat" and len(call.arg("tensors")) == 1:
        return (call.arg("tensors")[0],)
    is_whole = (
        call.op in ("repeat", "broadcast_to", "slice")
        and site.shape(call.arg("input")) == call.types[0].shape
    )
    return (call.arg("input"),) if is_whole else None


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def double_flip(site: Site) -> tuple[Ref, ...] | None:
    """A flip of a flip of the same dimensions."""
    if site.call.op != "flip":
        return None
    before = site.maker(site.call.arg("input"))
    if before is None or before.op != "flip":
        return None
    rank = site.call.types[0].rank
    flipped = [set(axes_of(c.arg("dims"), rank)) for c in (before, site.call)]
    return (before.arg("input"),) if flipped[0] == flipped[1] else None


def rejoined_pieces(site: Site) -> tuple[Ref, ...] | None:
    """All pieces of a chunk or a split, joined again in their order."""
    if site.call.op != "cat":
        return None
    pieces = site.call.arg("tensors")
    before = site.maker(pieces[0])
    if before is None or not before.has(Trait.SPLITS):
        return None
    rank = site.call.types[0].rank
    is_same = axes_of(site.call.arg("dim"), rank) == axes_of(before.arg("dim"), rank)
    all_of_it = tuple(ref.name for ref in pieces) == before.outputs
    return (before.arg("input"),) if is_same and all_of_it else None
