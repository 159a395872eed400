"""Sizes of a program's values as text: of kernels, by symbols, and of the wrapper that reads them.

Kernels are written for any sizes, so that a result's sizes are computed from its operands' as the
operator does it, not copied from the program at hand.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from math import prod

from kernelwright.ops.rules import dim_index
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.tile_index import Index, Term, size_of, times
from kernelwright.teacher.tile_views import is_elementwise, is_view, source, view_index

Texts = tuple[str, ...]
"""Of each dimension: a symbol, a number, or a product of them. Size 1 is "1"."""


class Sizes:
    """Symbols for the sizes of values, found forwards from the inputs when they are asked for."""

    def __init__(self, program: Program, known: Mapping[str, str] | None = None) -> None:
        """Args: known: symbols that sizes have already, by their texts in the wrapper."""
        self.program = program
        self.symbols: dict[str, str] = dict(known or {})
        """Symbol -> its text in the wrapper, over shapes of inputs and earlier symbols."""
        self._producer = program.producer()
        self._of: dict[str, Texts] = {}
        for given in program.inputs:
            self._of[given.name] = tuple(
                "1" if size == 1 else self.symbol(f"{given.name}.shape[{i}]", f"{given.name}D{i}")
                for i, size in enumerate(given.type.shape)
            )

    def fork(self) -> "Sizes":
        """The same, to which symbols can be added apart."""
        made = copy(self)
        made.symbols, made._of = dict(self.symbols), dict(self._of)
        return made

    def of(self, value: str) -> Texts:
        """Raises: NotWritable: it comes from what is no view and not computed by element."""
        if value not in self._of:
            self._follow(self.program.calls[self._producer[value]])
        return self._of[value]

    def closed(self, text: str) -> str:
        """The text over shapes of inputs alone."""
        return re.sub(r"\b[A-Z]\w*", lambda symbol: self._closed_symbol(symbol[0]), text)

    def _closed_symbol(self, symbol: str) -> str:
        made = self.symbols.get(symbol)
        if made is None or made == symbol:
            return symbol
        text = self.closed(made)
        return f"({text})" if re.search(r" [-+/%*]", text) else text

    def symbol(self, text: str, name: str) -> str:
        """The symbol of a wrapper text; `name` is its name if it is new. Numbers stay."""
        if text.isidentifier() or text.isdigit():
            return text
        whole = self.closed(text)
        known = next((s for s, made in self.symbols.items() if self.closed(made) == whole), None)
        if known is None:
            known, number = name.upper(), 0
            while known in self.symbols:
                known, number = f"{name.upper()}{number}", number + 1
            self.symbols[known] = text
        return known

    def needed(self, texts: Iterable[str]) -> dict[str, str]:
        """The symbols that these texts name, and those that they are made of, in order."""
        words = set(re.findall(r"\w+", " ".join(texts)))
        for symbol, text in reversed(self.symbols.items()):
            if symbol in words:
                words.update(re.findall(r"\w+", text))
        return {symbol: text for symbol, text in self.symbols.items() if symbol in words}

    def dims(self, value: str, axis: str) -> Index:
        """Index of a value whose dimensions walk axes of their own: axis0, axis1 ..."""
        made = self.program.type_of(value)
        return tuple(
            () if length == 1 else (Term(f"{axis}{i}", text, length),)
            for i, (text, length) in enumerate(zip(self.of(value), made.shape, strict=True))
        )

    def _follow(self, call: Call) -> None:
        """Sizes of a call's results."""
        for at, (name, made) in enumerate(zip(call.outputs, call.types, strict=True)):
            texts = self._made(call, at)
            self._of[name] = tuple(
                "1" if length == 1 else self._short(text, f"{name}D{i}")
                for i, (text, length) in enumerate(zip(texts, made.shape, strict=True))
            )

    def _short(self, text: str, name: str) -> str:
        """Products of symbols stay, everything else gets a symbol."""
        return text if all(c.isalnum() or c in " *" for c in text) else self.symbol(text, name)

    def _made(self, call: Call, output: int) -> Texts:
        if call.op in _RULES:
            return _RULES[call.op](self, call, output)
        if call.op == "broadcast_to":
            return self._expanded(call)
        if is_view(call):
            return self._viewed(call)
        if is_elementwise(call):
            return self._broadcast(list(call.refs()), len(call.types[0].shape))
        raise NotWritable(f"{call.op} is not computed element by element")

    def _viewed(self, call: Call) -> Texts:
        try:
            index = view_index(self.program, call, self.dims(source(call), "s"))
            return tuple(map(size_of, index))
        except NotWritable:  # dimensions that do not divide each other: a view gives them all
            made = call.types[0].shape
            wanted = call.arg("shape") if call.op == "reshape" else made
            rest = prod(size for size in wanted if size != -1)
            whole = times("1", *self.of(source(call)))
            return tuple(f"{whole} // {rest}" if n == -1 else str(n) for n in wanted)

    def _expanded(self, call: Call) -> Texts:
        given = self._aligned(source(call), call.types[0].rank)
        made = call.types[0].shape
        return tuple(text if text != "1" else str(n) for text, n in zip(given, made, strict=True))

    def _broadcast(self, values: list[str], rank: int) -> Texts:
        rows = [self._aligned(value, rank) for value in values]
        return tuple(
            next((t for t in column if t != "1"), "1") for column in zip(*rows, strict=True)
        )

    def _aligned(self, value: str, rank: int) -> Texts:
        texts = self.of(value)
        return ("1",) * (rank - len(texts)) + texts


Rule = Callable[[Sizes, Call, int], Texts]


def _input(sizes: Sizes, call: Call, parameter: str = "input") -> Texts:
    ref = call.arg(parameter)
    assert isinstance(ref, Ref)
    return sizes.of(ref.name)


def _unchanged(sizes: Sizes, call: Call, _: int) -> Texts:
    return _input(sizes, call)


def replaced(texts: Texts, at: int, *new: str) -> Texts:
    return (*texts[:at], *new, *texts[at + 1 :])


def _dim(call: Call, texts: Texts, name: str = "dim") -> int:
    return dim_index(call.arg(name), len(texts))


def _slice(sizes: Sizes, call: Call, _: int) -> Texts:
    texts = _input(sizes, call)
    at = _dim(call, texts)
    return replaced(texts, at, f"len({slice_range(call, texts[at])})")


def slice_range(call: Call, size: str) -> str:
    """Wrapper text of the positions that a slice takes of a dimension."""
    start, end, step = (call.arg(name) for name in ("start", "end", "step"))
    return f"range({size})[{start or 0}:{'' if end is None else end}:{step}]"


def _select(sizes: Sizes, call: Call, _: int) -> Texts:
    texts = _input(sizes, call)
    return replaced(texts, _dim(call, texts))


def _unfold(sizes: Sizes, call: Call, _: int) -> Texts:
    texts = _input(sizes, call)
    at, size, step = _dim(call, texts, "dimension"), call.arg("size"), call.arg("step")
    return (*replaced(texts, at, f"({texts[at]} - {size}) // {step} + 1"), str(size))


def _split(sizes: Sizes, call: Call, output: int) -> Texts:
    texts = _input(sizes, call)
    at = _dim(call, texts)
    start, end = piece(call, texts[at], output)
    if start.isdigit() and end.isdigit():
        return replaced(texts, at, str(int(end) - int(start)))
    return replaced(texts, at, end if start == "0" else f"{end} - {start}")


def piece(call: Call, size: str, output: int) -> tuple[str, str]:
    """Wrapper texts of where a piece of a split dimension starts and ends."""
    if call.op == "chunk":
        part = f"-(-{size} // {call.arg('chunks')})"
        return f"{part} * {output}" if output else "0", f"min({part} * {output + 1}, {size})"
    given = call.arg("split_size_or_sections")
    if isinstance(given, tuple):
        return str(sum(given[:output])), str(sum(given[: output + 1]))
    return str(given * output), f"min({given * (output + 1)}, {size})"


def _pad(sizes: Sizes, call: Call, _: int) -> Texts:
    texts, pad = list(_input(sizes, call)), call.arg("pad")
    for i in range(len(pad) // 2):
        if more := pad[2 * i] + pad[2 * i + 1]:
            texts[-1 - i] += f" + {more}" if more > 0 else f" - {-more}"
    return tuple(texts)


def tensors(call: Call) -> list[str]:
    """Names of the tensors that a call joins."""
    return [ref.name for ref in call.arg("tensors")]


def _cat(sizes: Sizes, call: Call, _: int) -> Texts:
    rows = [sizes.of(name) for name in tensors(call)]
    at = _dim(call, rows[0])
    return replaced(rows[0], at, " + ".join(row[at] for row in rows))


def _stack(sizes: Sizes, call: Call, _: int) -> Texts:
    names = tensors(call)
    texts = sizes.of(names[0])
    at = dim_index(call.arg("dim"), len(texts) + 1)
    return (*texts[:at], str(len(names)), *texts[at:])


def _repeat(sizes: Sizes, call: Call, _: int) -> Texts:
    texts, repeats = _input(sizes, call), call.arg("repeats")
    padded = ("1",) * (len(repeats) - len(texts)) + texts
    return tuple(times(text, str(n)) for text, n in zip(padded, repeats, strict=True))


def _embedding(sizes: Sizes, call: Call, _: int) -> Texts:
    return (*_input(sizes, call), _input(sizes, call, "weight")[1])


def _gather(sizes: Sizes, call: Call, _: int) -> Texts:
    return _input(sizes, call, "index")


def _index_select(sizes: Sizes, call: Call, _: int) -> Texts:
    texts = _input(sizes, call)
    if not texts:
        return texts
    return replaced(texts, _dim(call, texts), *(_input(sizes, call, "index") or ("1",)))


def _take_along_dim(sizes: Sizes, call: Call, _: int) -> Texts:
    texts, index = _input(sizes, call), _input(sizes, call, "indices")
    at = _dim(call, texts)
    pairs = zip(texts, index, strict=True)
    both = tuple(mine if mine != "1" else theirs for mine, theirs in pairs)
    return replaced(both, at, index[at])


def _one_hot(sizes: Sizes, call: Call, _: int) -> Texts:
    return (*_input(sizes, call), str(call.arg("num_classes")))


def _attention(sizes: Sizes, call: Call, _: int) -> Texts:
    query, key, value = (_input(sizes, call, name) for name in ("query", "key", "value"))
    rank = max(len(query), len(key), len(value))
    rows = [("1",) * (rank - len(texts)) + texts for texts in (query, key, value)]
    batch = zip(*(row[:-2] for row in rows), strict=True)
    shared = (next((text for text in each if text != "1"), "1") for each in batch)
    return (*shared, query[-2], value[-1])


def _interpolate(sizes: Sizes, call: Call, _: int) -> Texts:
    texts = _input(sizes, call)
    scales = call.arg("scale_factor")
    if scales is None:
        return (*texts[:2], *map(str, call.types[0].shape[2:]))
    scales = scales if isinstance(scales, tuple) else (scales,) * (len(texts) - 2)
    pairs = zip(texts[2:], scales, strict=True)
    return (*texts[:2], *(f"int({text} * {scale})" for text, scale in pairs))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("flip", "roll", "triu", "tril"), _unchanged),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), _unchanged),
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
    "one_hot": _one_hot,
    "interpolate": _interpolate,
    "scaled_dot_product_attention": _attention,
}
