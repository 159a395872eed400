"""Sizes of the results of joins, cuts, picks, scans and attention, from the operands' sizes."""

from collections.abc import Callable

from kernelwright.ops.indexing import index_place
from kernelwright.ops.registry import names_with, operators
from kernelwright.ops.rules import dim_index
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.tile.index import replaced, times

Texts = tuple[str, ...]
"""The size of each dimension: a symbol, a number, or a product of them. Size 1 is "1"."""
SizesOf = Callable[[str], Texts]
"""The sizes of a value, by its name."""
Rule = Callable[[SizesOf, Call, int], Texts]
"""Sizes of one of a call's results, by its place."""


def _input(of: SizesOf, call: Call, parameter: str = "input") -> Texts:
    ref = call.arg(parameter)
    assert isinstance(ref, Ref)
    return of(ref.name)


def _unchanged(of: SizesOf, call: Call, _: int) -> Texts:
    return _input(of, call)


def _dim(call: Call, texts: Texts, name: str = "dim") -> int:
    return dim_index(call.arg(name), len(texts))


def broadcast_sizes(*rows: Texts) -> Texts:
    """The sizes to which values of these sizes broadcast, right-aligned."""
    rank = max(map(len, rows))
    columns = zip(*(("1",) * (rank - len(row)) + row for row in rows), strict=True)
    return tuple(next((text for text in column if text != "1"), "1") for column in columns)


def _slice(of: SizesOf, call: Call, _: int) -> Texts:
    texts = _input(of, call)
    at = _dim(call, texts)
    return replaced(texts, at, f"len({slice_range(call, texts[at])})")


def slice_range(call: Call, size: str) -> str:
    """Wrapper text of the range of positions that a slice takes of a dimension."""
    start, end, step = (call.arg(name) for name in ("start", "end", "step"))
    return f"range({size})[{start or 0}:{'' if end is None else end}:{step}]"


def _select(of: SizesOf, call: Call, _: int) -> Texts:
    texts = _input(of, call)
    return replaced(texts, _dim(call, texts))


def _unfold(of: SizesOf, call: Call, _: int) -> Texts:
    texts = _input(of, call)
    at, size, step = _dim(call, texts, "dimension"), call.arg("size"), call.arg("step")
    return (*replaced(texts, at, f"({texts[at]} - {size}) // {step} + 1"), str(size))


def _split(of: SizesOf, call: Call, output: int) -> Texts:
    texts = _input(of, call)
    at = _dim(call, texts)
    start, end = piece(call, texts[at], output)
    if start.isdigit() and end.isdigit():
        return replaced(texts, at, str(int(end) - int(start)))
    return replaced(texts, at, end if start == "0" else f"{end} - {start}")


def piece(call: Call, size: str, output: int) -> tuple[str, str]:
    """Wrapper texts of the start and the end (exclusive) of a piece of a split dimension.

    Args:
        call: a `split` or `chunk`.
        size: text of the dimension's size.
        output: number of the piece.
    """
    if call.op == "chunk":
        part = f"-(-{size} // {call.arg('chunks')})"
        return f"{part} * {output}" if output else "0", f"min({part} * {output + 1}, {size})"
    sections = call.arg("split_size_or_sections")
    if isinstance(sections, tuple):
        return str(sum(sections[:output])), str(sum(sections[: output + 1]))
    return str(sections * output), f"min({sections * (output + 1)}, {size})"


def _pad(of: SizesOf, call: Call, _: int) -> Texts:
    texts, pad = list(_input(of, call)), call.arg("pad")
    for i in range(len(pad) // 2):
        sides = pad[2 * i : 2 * i + 2]
        if any(sides):
            texts[-1 - i] += "".join(f" + {n}" if n >= 0 else f" - {-n}" for n in sides)
    return tuple(texts)


def tensors(call: Call) -> list[str]:
    """Names of the tensors that a call joins."""
    return [ref.name for ref in call.arg("tensors")]


def _cat(of: SizesOf, call: Call, _: int) -> Texts:
    rows = [of(name) for name in tensors(call)]
    at = _dim(call, rows[0])
    return replaced(rows[0], at, " + ".join(row[at] for row in rows))


def _stack(of: SizesOf, call: Call, _: int) -> Texts:
    names = tensors(call)
    texts = of(names[0])
    at = dim_index(call.arg("dim"), len(texts) + 1)
    return (*texts[:at], str(len(names)), *texts[at:])


def _repeat(of: SizesOf, call: Call, _: int) -> Texts:
    texts, repeats = _input(of, call), call.arg("repeats")
    padded = ("1",) * (len(repeats) - len(texts)) + texts
    return tuple(times(text, str(n)) for text, n in zip(padded, repeats, strict=True))


def _embedding(of: SizesOf, call: Call, _: int) -> Texts:
    return (*_input(of, call), _input(of, call, "weight")[1])


def _gather(of: SizesOf, call: Call, _: int) -> Texts:
    return _input(of, call, "index")


def _index_select(of: SizesOf, call: Call, _: int) -> Texts:
    texts = _input(of, call)
    if not texts:
        return texts
    return replaced(texts, _dim(call, texts), *(_input(of, call, "index") or ("1",)))


def _take_along_dim(of: SizesOf, call: Call, _: int) -> Texts:
    texts, index = _input(of, call), _input(of, call, "indices")
    at = _dim(call, texts)
    return replaced(broadcast_sizes(texts, index), at, index[at])


def _index(of: SizesOf, call: Call, _: int) -> Texts:
    texts, indices = _input(of, call), call.arg("indices")
    rows = {at: of(ref.name) for at, ref in enumerate(indices) if ref is not None}
    kept = [text for at, text in enumerate(texts) if at not in rows]
    first = index_place(tuple(rows))
    return (*kept[:first], *broadcast_sizes(*rows.values()), *kept[first:])


def _as_spelled(_: SizesOf, call: Call, __: int) -> Texts:
    return tuple(map(str, call.types[0].shape))


def _one_hot(of: SizesOf, call: Call, _: int) -> Texts:
    return (*_input(of, call), str(call.arg("num_classes")))


def _attention(of: SizesOf, call: Call, _: int) -> Texts:
    query, key, value = (_input(of, call, name) for name in ("query", "key", "value"))
    return (*broadcast_sizes(query[:-2], key[:-2], value[:-2]), query[-2], value[-1])


def _interpolate(of: SizesOf, call: Call, _: int) -> Texts:
    texts = _input(of, call)
    scales = call.arg("scale_factor")
    if scales is None:
        return (*texts[:2], *map(str, call.types[0].shape[2:]))
    scales = scales if isinstance(scales, tuple) else (scales,) * (len(texts) - 2)
    pairs = zip(texts[2:], scales, strict=True)
    return (*texts[:2], *(f"int({text} * {scale})" for text, scale in pairs))


RULES: dict[str, Rule] = {
    **dict.fromkeys(names_with(Trait.REORDERS, Trait.CUTS_TRIANGLE), _unchanged),
    **dict.fromkeys((op.name for op in operators().values() if op.family == "scan"), _unchanged),
    **dict.fromkeys(("select_scatter", "slice_scatter"), _unchanged),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like"), _unchanged),
    "slice": _slice,
    "select": _select,
    "unbind": _select,
    "unfold": _unfold,
    "chunk": _split,
    "split": _split,
    "pad": _pad,
    "cat": _cat,
    "stack": _stack,
    "repeat": _repeat,
    "embedding": _embedding,
    "gather": _gather,
    "index_select": _index_select,
    "take_along_dim": _take_along_dim,
    "index": _index,
    **dict.fromkeys(("arange", "full"), _as_spelled),
    "one_hot": _one_hot,
    "interpolate": _interpolate,
    "scaled_dot_product_attention": _attention,
}
