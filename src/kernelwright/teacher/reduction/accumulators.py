"""Running states of reductions, as kernel text: start, step, merge.

A loop keeps one state a lane; a split reduction keeps one a split in memory. Both are merged by the
same formulas: sums add, maxima compare, a rescaled sum follows its maximum (online softmax), and
mean and squared deviations combine as in Chan, Golub and LeVeque (1979).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelwright.ops.rules import is_int
from kernelwright.teacher.nodes.graph import LARGEST, Node

MULTIPLY = """@triton.jit
def multiply(a, b):
    return a * b"""
"""`tl.reduce` has no product of its own."""
LARGER, SMALLER = (
    f"""@triton.jit
def {name}(a, b):
    return tl.{function}(a, b, propagate_nan=tl.PropagateNan.ALL)"""
    for name, function in (("larger", "maximum"), ("smaller", "minimum"))
)
"""`tl.max` and `tl.min` drop NaN, and PyTorch passes NaN on. On a GPU both are one instruction."""

COMBINED = {"prod": "multiply", "amax": "larger", "amin": "smaller"}
"""Reduction -> the function by which it combines two elements, if it needs one."""


def functions(lines: Iterable[str]) -> tuple[str, ...]:
    """The texts of the functions that lines of a kernel combine elements by."""
    texts = {"multiply": MULTIPLY, "larger": LARGER, "smaller": SMALLER}
    text = " ".join(lines)
    return tuple(texts[name] for name in texts if f"combine_fn={name}," in text)


_EXPONENTIALS = ("softmax", "logsumexp")
_LOWEST = "-3.4028235e38"
"""Finite, so that a lane that has seen nothing rescales by exp(0), not by exp(inf - inf)."""

_MEANS_ARE_KEPT = ("batch_norm_train",)
"""Operators whose means are results: a sum rounds as the mean is large, what it left over rounds as
the deviations are, and a network adds up over its layers what means are off by."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """Texts for a tile of a reduction kernel: its shape, its lanes and reductions of it."""

    has_rows: bool
    """Two dimensions, rows first; without, one."""
    width: str = "BLOCK"
    """The constexpr of the reduced dimension."""

    @property
    def shape(self) -> str:
        return f"[ROWS, {self.width}]" if self.has_rows else f"[{self.width}]"

    @property
    def axis(self) -> str:
        """Arguments of a `tl` reduction over the tile's last dimension."""
        # A result (ROWS, 1) broadcasts against the next tile without an index expression.
        return "axis=1, keep_dims=True" if self.has_rows else "axis=0"

    @property
    def lanes(self) -> str:
        return f"tl.arange(0, {self.width})" + ("[None, :]" if self.has_rows else "")

    def reduced(self, kind: str, text: str) -> str:
        """Text that reduces a tile to one value a row.

        The text of "mean" is a sum: the caller divides by the number of elements, which the tile
        does not know because its width is padded.

        Args:
            kind: "sum", "mean", "max", "min", "amax", "amin", "prod", "argmax" or "argmin".
            text: expression for the tile.
        """
        if kind in COMBINED:
            return f"tl.reduce({text}, combine_fn={COMBINED[kind]}, {self.axis})"
        function = {"sum": "sum", "mean": "sum"}.get(kind, kind)
        return f"tl.{function}({text}, {self.axis})"


@dataclass(frozen=True, slots=True)
class ReductionState:
    """One running variable of a reduction: one value a lane in a loop, one a split in memory."""

    name: str
    start: str
    """Value before anything is seen; also what stands for a missing split."""
    dtype: str = "float32"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A reduction that a loop over tiles computes, or two reductions of one value together."""

    kind: str
    """A node's reduction, or a pair's kind: "softmax", "logsumexp", "moments"."""
    value: str
    """The node that is reduced."""
    results: tuple[str, ...]
    dtype: str
    """The type of the running values; of "argmax" and "argmin", the type of the elements."""
    op: str
    """Operator it belongs to, for the comment."""

    @property
    def states(self) -> tuple[ReductionState, ...]:
        """The running variables, in the order in which `merge` names their results."""
        if self.kind in _EXPONENTIALS:
            names = [f"{result}_acc" for result in self.results]
            return (ReductionState(names[0], _LOWEST), ReductionState(names[1], "0.0"))
        if self.kind == "moments":
            return tuple(ReductionState(f"{result}_acc", "0.0") for result in self.results)
        [result] = self.results
        if self.kind.startswith("arg"):
            kind = self.kind.removeprefix("arg")
            # Rows of the start value alone never pass a strict comparison: position 0 is their
            # first.
            return (ReductionState(f"{result}_best", neutral(kind, self.dtype), self.dtype),
                    ReductionState(f"{result}_at", "0", "int32"))  # fmt: skip
        # 16-bit floats are added up in fp32, as PyTorch does.
        dtype = self.dtype if is_int(self.dtype) else "float32"
        return (ReductionState(f"{result}_acc", neutral(self.kind, dtype), dtype),)

    def start(self, tile: TileShape) -> list[str]:
        """Lines before the loop that give each state its start value in every lane."""
        return [
            f"{state.name} = tl.full({tile.shape}, {state.start}, tl.{state.dtype})"
            for state in self.states
        ]

    def step(self, mask: str, index: str, seen: str, *, is_clean: bool) -> list[str]:
        """Lines that add one tile of the value to the states.

        "softmax" is the online form of Milakov and Gimelshein (2018, arXiv:1805.02867), and so is
        "logsumexp". "moments" is Welford's update (1962) in each lane.

        Args:
            mask: text that is true at positions inside the row.
            index: variable of the reduced position.
            seen: text of the number of tiles so far, with this one.
            is_clean: whether positions beyond the row hold zeros already.
        """
        value = self.value
        names = [state.name for state in self.states]
        if self.kind in _EXPONENTIALS:
            top, total = names
            # `tl.maximum` drops NaN, but the sum of exponentials below keeps NaN.
            larger = f"tl.maximum({top}, {value}_in)"
            # PyTorch's logsumexp of infinities is infinite; inf - inf would be NaN.
            if self.kind == "logsumexp":
                larger = f"tl.minimum({larger}, {LARGEST})"
            # -inf beyond the row: exp turns it into 0, so padding adds nothing to the sum.
            return [
                f"{value}_in = tl.where({mask}, {value}, -float('inf'))",
                f"{top}_next = {larger}",
                f"{total} = {total} * tl.exp({top} - {top}_next)",
                f"{total} += tl.exp({value}_in - {top}_next)",
                f"{top} = {top}_next",
            ]
        if self.kind == "moments":
            mean, squares = names
            # `seen` is a scalar, so the division is done once a tile and not once a lane.
            # The last line needs a mask of its own: padding that holds inf would make 0 * inf.
            return [
                f"{value}_delta = tl.where({mask}, {value} - {mean}, 0.0)",
                f"{mean} += {value}_delta * (1.0 / {seen})",
                f"{squares} += tl.where({mask}, {value}_delta * ({value} - {mean}), 0.0)",
            ]
        if self.kind.startswith("arg"):
            best, at = names
            # A strict comparison keeps the first of equal values, as torch.argmax does.
            sign = ">" if self.kind == "argmax" else "<"
            return [
                f"{best}_new = {mask} & ({value} {sign} {best})",
                f"{at} = tl.where({best}_new, {index}, {at})",
                f"{best} = tl.where({best}_new, {value}, {best})",
            ]
        [state] = self.states
        # Padding that was loaded as zeros needs no second mask if zero is the neutral value.
        is_zero = is_clean and state.start in ("0", "0.0")
        masked = value if is_zero else f"tl.where({mask}, {value}, {state.start})"
        if self.kind in ("sum", "mean"):
            return [f"{state.name} += {masked}"]
        if self.kind == "prod":
            return [f"{state.name} *= {masked}"]
        if self.kind in COMBINED:
            return [f"{state.name} = {COMBINED[self.kind]}({state.name}, {masked})"]
        return [f"{state.name} = tl.{self.kind}imum({state.name}, {masked})"]

    def merge(
        self, tile: TileShape, into: Sequence[str], seen: str, total: str, *, is_last: bool
    ) -> list[str]:
        """Lines that merge the states of all lanes, or of all splits, into one value a row.

        Args:
            into: names of the merged states, or of the results if `is_last`.
            seen: variable with the number of elements that each lane, or split, has added.
            total: text of the number of elements of all of them.
            is_last: whether the merged states are the results, so that a mean is divided.
        """
        lines = self._merge(tile, into, seen, total, is_last=is_last)
        return [f"{line}  # {self.op}" for line in lines]

    def _merge(
        self, tile: TileShape, into: Sequence[str], seen: str, total: str, *, is_last: bool
    ) -> list[str]:
        names = [state.name for state in self.states]
        if self.kind in _EXPONENTIALS:
            top, rescaled = into
            return [
                f"{top} = {tile.reduced('max', names[0])}",
                f"{rescaled} = {tile.reduced('sum', f'{names[1]} * tl.exp({names[0]} - {top})')}",
            ]
        if self.kind == "moments":
            mean, squares = into
            drift = f"{mean}_drift"
            return [
                f"{mean} = {tile.reduced('sum', f'{seen} * {names[0]}')} / {total}",
                f"{drift} = {names[0]} - {mean}",
                # The first sum rounds as the mean is large; what it left over rounds as the drift.
                f"{mean} += {tile.reduced('sum', f'{seen} * {drift}')} / {total}",
                f"{squares} = {tile.reduced('sum', f'{names[1]} + {seen} * {drift} * {drift}')}",
            ]
        if self.kind.startswith("arg"):
            kind = self.kind.removeprefix("arg")
            top, at = (f"{names[0]}_top", into[0]) if is_last else into
            # Several lanes may hold the top value: the least of their positions is the first one.
            first = f"tl.where({names[0]} == {top}, {names[1]}, {2**31 - 1})"
            return [
                f"{top} = {tile.reduced(kind, names[0])}",
                f"{at} = {tile.reduced('min', first)}",
            ]
        divided = f" / {total}" if self.kind == "mean" and is_last else ""
        return [f"{into[0]} = {tile.reduced(self.kind, names[0])}{divided}"]


def one_pass(node: Node, tile: TileShape, mask: str, count: str, *, is_clean: bool) -> list[str]:
    """Lines that reduce rows which lie whole in one tile.

    Args:
        node: the reduction.
        mask: text that is true at positions inside the row.
        count: text of the number of elements of a row; read for a mean only.
        is_clean: whether positions beyond the row hold zeros already.
    """
    [value] = node.args
    kind = node.reduce.removeprefix("arg")
    if kind != node.reduce:  # the result is a position, of another type than the elements
        dtype = node.compared
    else:
        dtype = node.dtype if is_int(node.dtype) else "float32"
    start = neutral(kind, dtype)
    masked = value if is_clean and start in ("0", "0.0") else f"tl.where({mask}, {value}, {start})"
    divided = f" / {count}" if kind == "mean" else ""
    lines = [f"{node.name} = {tile.reduced(node.reduce, masked)}{divided}"]
    # A second sum, of the deviations, takes away the rounding error of the first mean.
    if kind == "mean" and node.op in _MEANS_ARE_KEPT:
        drift = f"tl.where({mask}, {value} - {node.name}, 0.0)"
        lines.append(f"{node.name} += {tile.reduced('sum', drift)} / {count}")
    return [f"{line}  # {node.op}" for line in lines]


def neutral(kind: str, dtype: str) -> str:
    """Text of the neutral element of a reduction that has no position, in a dtype."""
    if kind in ("sum", "mean"):
        return "0" if is_int(dtype) else "0.0"
    if kind == "prod":
        return "1" if is_int(dtype) else "1.0"
    if is_int(dtype):
        # The bits of the magnitude: only uint8 has no sign bit.
        bits = {"uint8": 8}.get(dtype) or int(dtype.removeprefix("int")) - 1
        low = 0 if dtype == "uint8" else -(2**bits)
        return str(low if kind == "max" else 2**bits - 1)
    return "-float('inf')" if kind in ("max", "amax") else "float('inf')"
