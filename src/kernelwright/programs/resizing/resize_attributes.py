"""Attributes that name sizes, at other sizes of what a call reads."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kernelwright.programs.program import Call

Pick = Callable[[int], int]
"""Old size -> new size."""
Shape = tuple[int, ...]
Rule = Callable[[Call, Shape, Shape, Pick], dict[str, Any]]
"""(call, old shape of its input, new shape, sizes) -> the attributes that change."""


def blocks(old: Shape, new: Shape) -> Iterator[tuple[Shape, Shape]]:
    """The shortest runs of dimensions of equal product: (6, 4, 5), (2, 3, 20) -> (6,), (2, 3) and
    (4, 5), (20,)."""
    i = j = 0
    while i < len(old) or j < len(new):
        start = i, j
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while (a := math.prod(old[start[0] : i])) != (b := math.prod(new[start[1] : j])):
            if a < b and i < len(old):
                i += 1
            elif j < len(new):
                j += 1
            else:
                return
        yield old[start[0] : i], new[start[1] : j]


def _reshape(call: Call, old: Shape, new: Shape, sizes: Pick) -> dict[str, Any]:
    shape: list[int] = []
    at = 0
    for before, after in blocks(old, call.types[0].shape):
        total = math.prod(new[at : at + len(before)])
        shape += _factored(total, after, before, new[at : at + len(before)], sizes)
        at += len(before)
    requested = call.arg("shape")
    kept = [-1 if wanted == -1 else size for wanted, size in zip(requested, shape, strict=True)]
    return {"shape": tuple(kept)}


def _factored(total: int, parts: Shape, old: Shape, new: Shape, sizes: Pick) -> list[int]:
    """`total` as a product with one factor for each old part: mapped ones, all but one of them
    where these do not fit, or all but one unchanged."""
    known = dict(zip(old, new, strict=True))
    mapped = [known.get(part, sizes(part)) for part in parts]
    if math.prod(mapped) == total:
        return mapped
    for i in sorted(range(len(parts)), key=lambda i: -parts[i]):
        for others in (mapped, list(parts)):
            rest = math.prod(others[:i] + others[i + 1 :])
            if rest and total % rest == 0:
                return [*others[:i], total // rest, *others[i + 1 :]]
    raise ValueError(f"{total} is not {parts} at other sizes")


def _broadcast_to(call: Call, old: Shape, new: Shape, sizes: Pick) -> dict[str, Any]:
    wanted = call.types[0].shape
    lead = len(wanted) - len(old)
    shape = call.arg("size")
    return {"size": tuple(
        -1 if shape[i] == -1
        else new[i - lead] if i >= lead and old[i - lead] == size
        else sizes(size)
        for i, size in enumerate(wanted)
    )}  # fmt: skip


def _normalized_shape(call: Call, _: Shape, new: Shape, __: Pick) -> dict[str, Any]:
    return {"normalized_shape": new[len(new) - len(call.arg("normalized_shape")) :]}


def _num_groups(call: Call, _: Shape, __: Shape, sizes: Pick) -> dict[str, Any]:
    return {"num_groups": sizes(call.arg("num_groups"))}


def convolution(call: Call, old: Shape, new: Shape, sizes: Pick) -> dict[str, Any]:
    groups = call.arg("groups")
    return {"groups": new[1] if groups == old[1] else sizes(groups)}


def _split(call: Call, old: Shape, new: Shape, _: Pick) -> dict[str, Any]:
    sections, dim = call.arg("split_size_or_sections"), call.arg("dim")
    return {"split_size_or_sections": map_sizes(sections, old[dim], new[dim])}


def map_sizes(value: Any, old: int, new: int) -> Any:
    """Parts of `old` as the same shares of `new`; ValueError where they are not whole."""
    if isinstance(value, tuple):
        return tuple(map_sizes(item, old, new) for item in value)
    if value * new % old:
        raise ValueError(f"{value} of {old} is no whole part of {new}")
    return value * new // old


def _slice(call: Call, old: Shape, new: Shape, _: Pick) -> dict[str, Any]:
    before, after = old[call.arg("dim")], new[call.arg("dim")]
    start, end = call.arg("start"), call.arg("end")
    if after == before:
        return {}
    try:
        return {
            key: map_sizes(value, before, after)
            for key, value in (("start", start), ("end", end))
            if value is not None
        }
    except ValueError:  # offsets from the ends: x[1:], x[:-1]
        if end is not None and end > 0:
            end = after - (before - end)
        if (start or 0) >= after or (end is not None and 0 <= end <= (start or 0)):
            raise
        return {"start": start, "end": end}


def _select(call: Call, _: Shape, new: Shape, __: Pick) -> dict[str, Any]:
    size, index = new[call.arg("dim")], call.arg("index")
    return {"index": max(-size, min(index, size - 1))}


def _num_classes(call: Call, _: Shape, __: Shape, sizes: Pick) -> dict[str, Any]:
    return {"num_classes": sizes(call.arg("num_classes"))}


def _arange(call: Call, _: Shape, __: Shape, sizes: Pick) -> dict[str, Any]:
    """From the same start in the same steps, as many positions as the size of that length has."""
    length = call.types[0].shape[0]
    if sizes(length) == length:
        return {}
    return {"end": call.arg("start") + sizes(length) * call.arg("step")}


def _full(call: Call, _: Shape, __: Shape, sizes: Pick) -> dict[str, Any]:
    return {"size": tuple(map(sizes, call.arg("size")))}


ATTRIBUTES: Mapping[str, Rule] = {
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "layer_norm": _normalized_shape,
    "rms_norm": _normalized_shape,
    "group_norm": _num_groups,
    "split": _split,
    "slice": _slice,
    "select": _select,
    "one_hot": _num_classes,
    "slice_scatter": _slice,
    "select_scatter": _select,
    "arange": _arange,
    "full": _full,
}
