"""Sizes of a program's values as text: symbols for kernels, and expressions for the wrapper.

Kernels are written for any sizes. So the sizes of a result are not copied from the program at hand:
the operator's rule computes them from the sizes of the operands.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from math import prod

from kernelwright.programs.program import Call, Program
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.moved_sizes import RULES, Texts, broadcast_sizes
from kernelwright.teacher.tile.index import Dim, Index, Term, flat_axis, size_of, times
from kernelwright.teacher.tile.views import (
    Side,
    is_elementwise,
    is_view,
    source,
    sources,
    view_index,
)


class ValueSizes:
    """Symbols for the sizes of values, computed on demand from the sizes of the inputs."""

    def __init__(self, program: Program, known: Mapping[str, str] | None = None) -> None:
        """Sizes of a program's values.

        Args:
            known: symbols that exist already -> their wrapper texts.
        """
        self.program = program
        self.symbols: dict[str, str] = dict(known or {})
        """Symbol -> its text in the wrapper, over shapes of inputs and earlier symbols."""
        self._producer = program.producer()
        self._of: dict[str, Texts] = {}
        self._closed: dict[str, str] = {}
        """Text -> the same over shapes of inputs alone."""
        self._by_closed: dict[str, str] = {}
        """Closed text -> the first symbol that stands for it."""
        self._undefined: set[str] = set()
        """Names in closed texts that were no symbols: a symbol of that name changes the texts."""
        for symbol, text in self.symbols.items():
            self._by_closed.setdefault(self.closed(text), symbol)
        for value in program.inputs:
            self._of[value.name] = tuple(
                "1" if size == 1 else self.symbol(f"{value.name}.shape[{i}]", f"{value.name}D{i}")
                for i, size in enumerate(value.type.shape)
            )

    def fork(self) -> "ValueSizes":
        """A copy; symbols that are added to the copy are not added to this object."""
        fork = copy(self)
        fork.symbols, fork._of = dict(self.symbols), dict(self._of)
        fork._closed, fork._by_closed = dict(self._closed), dict(self._by_closed)
        fork._undefined = set(self._undefined)
        return fork

    def of(self, value: str) -> Texts:
        """The size of each dimension of a value, as text over symbols.

        Raises:
            NotWritable: a call behind the value has no rule for its sizes.
        """
        if value not in self._of:
            self._follow(self.program.calls[self._producer[value]])
        return self._of[value]

    def closed(self, text: str) -> str:
        """The text with every symbol replaced, so that it reads shapes of inputs alone.

        Two texts of one size may use different symbols; their closed texts are equal.
        """
        if text not in self._closed:
            self._closed[text] = self._substituted(text)
        return self._closed[text]

    def _substituted(self, text: str) -> str:
        return re.sub(r"\b[A-Z]\w*", lambda symbol: self._closed_symbol(symbol[0]), text)

    def _closed_symbol(self, symbol: str) -> str:
        definition = self.symbols.get(symbol)
        if definition is None or definition == symbol:
            self._undefined.add(symbol)
            return symbol
        text = self.closed(definition)
        return f"({text})" if re.search(r" [-+/%*]", text) else text

    def symbol(self, text: str, name: str) -> str:
        """The symbol that stands for a wrapper text; names and numbers stand for themselves.

        Args:
            text: wrapper text over shapes and symbols.
            name: name of the symbol if the text has none yet.
        """
        if text.isidentifier() or text.isdigit():
            return text
        known = self._by_closed.get(self.closed(text))
        if known is None:
            known, number = name.upper(), 0
            while known in self.symbols:
                known, number = f"{name.upper()}{number}", number + 1
            self._define(known, text)
        return known

    def _define(self, symbol: str, text: str) -> None:
        """Add a symbol; if a closed text names the symbol already, all texts are closed anew."""
        self.symbols[symbol] = text
        if symbol not in self._undefined:
            self._by_closed[self.closed(text)] = symbol
            return
        self._closed.clear()
        self._by_closed.clear()
        self._undefined.clear()
        for name, definition in self.symbols.items():
            self._by_closed.setdefault(self.closed(definition), name)

    def needed(self, texts: Iterable[str]) -> dict[str, str]:
        """Symbol -> text of the symbols that these texts name, with those behind them, in order."""
        words = set(re.findall(r"\w+", " ".join(texts)))
        # A symbol is made of earlier ones only, so one pass from the end reaches all of them.
        for symbol, text in reversed(self.symbols.items()):
            if symbol in words:
                words.update(re.findall(r"\w+", text))
        return {symbol: text for symbol, text in self.symbols.items() if symbol in words}

    def dims(self, value: str, axis: str) -> Index:
        """Index of a value whose dimensions walk axes of their own, "s0", "s1" for axis "s"."""
        result_type = self.program.type_of(value)
        return tuple(
            () if length == 1 else (Term(f"{axis}{i}", text, length),)
            for i, (text, length) in enumerate(zip(self.of(value), result_type.shape, strict=True))
        )

    def walked(self, value: str, axis: str, places: Iterable[int]) -> dict[int, Dim]:
        """Dimension of a value -> its index, where the dimensions `places` walk one axis together.

        Dimensions of one element are left out. The last dimension of `places` is the fastest.
        """
        texts, shape = self.of(value), self.program.type_of(value).shape
        wide = [at for at in places if shape[at] > 1]
        dims = flat_axis(axis, [texts[at] for at in wide], [shape[at] for at in wide])
        return dict(zip(wide, dims, strict=True))

    def _follow(self, call: Call) -> None:
        """Computes the sizes of a call's results."""
        for at, (name, result_type) in enumerate(zip(call.outputs, call.types, strict=True)):
            texts = self._made(call, at)
            self._of[name] = tuple(
                "1" if length == 1 else self._short(text, f"{name}D{i}")
                for i, (text, length) in enumerate(zip(texts, result_type.shape, strict=True))
            )

    def _short(self, text: str, name: str) -> str:
        """The text if it is a product of symbols and numbers, else a symbol that stands for it."""
        return text if all(c.isalnum() or c in " *" for c in text) else self.symbol(text, name)

    def _made(self, call: Call, output: int) -> Texts:
        """Size texts of one of a call's results, over the sizes of its operands."""
        if call.op in RULES:
            return RULES[call.op](self.of, call, output)
        if call.op == "broadcast_to":
            return self._expanded(call)
        if is_view(call):
            return self._viewed(call)
        if is_elementwise(call):
            return broadcast_sizes(("1",) * call.types[0].rank, *map(self.of, call.refs()))
        raise NotWritable(f"{call.op} is not computed element by element")

    def _viewed(self, call: Call) -> Texts:
        try:
            index = view_index(self.program, call, self.dims(source(call), "s"))
            return tuple(map(size_of, index))
        except NotWritable:  # dimensions that do not divide each other: a view gives them all
            result_type = call.types[0].shape
            wanted = call.arg("shape") if call.op == "reshape" else result_type
            rest = prod(size for size in wanted if size != -1)
            whole = times("1", *self.of(source(call)))
            return tuple(f"{whole} // {rest}" if n == -1 else str(n) for n in wanted)

    def _expanded(self, call: Call) -> Texts:
        return broadcast_sizes(self.of(source(call)), tuple(map(str, call.types[0].shape)))


def measure(program: Program, symbol: str, sides: Sequence[Side]) -> str:
    """The wrapper's expression for a size.

    The first of these that exists: a dimension of an input; a product of dimensions that a view
    joined; a dimension of a value that other calls make; the number that a view gives.

    Args:
        symbol: size text of a term in the sides' indices.
        sides: values with indices over the kernel's axes.
    """
    [term] = {t for side in sides for dim in side.index for t in dim if t.size == symbol}
    inputs = {value.name for value in program.inputs}
    joined = viewed = ""
    for side in sides:
        for name, index in sources(program, side.value, side.index):
            alone = next((i for i, dim in enumerate(index) if _is_alone(dim, symbol)), None)
            if name not in inputs:
                if alone is not None and not viewed:
                    sizes = ValueSizes(program)
                    text = sizes.of(name)[alone]
                    viewed = sizes.closed(sizes.symbols.get(text, text))
                continue
            if alone is not None:
                return f"{name}.shape[{alone}]"
            # Dimensions that hold other axes too would make the product too large.
            along = [i for i, dim in enumerate(index) if term.axis in {t.axis for t in dim}]
            is_apart = all(t.axis == term.axis for i in along for t in index[i])
            if along and is_apart and term.is_whole:
                joined = joined or " * ".join(f"{name}.shape[{i}]" for i in along)
    return joined or viewed or str(term.length)


def _is_alone(dim: Dim, symbol: str) -> bool:
    """Whether the dimension has this size, apart from parts of one element that a view added."""
    sizes = [term.size for term in dim]
    return sizes == [symbol] or [t.size for t in dim if t.length > 1] == [symbol]
