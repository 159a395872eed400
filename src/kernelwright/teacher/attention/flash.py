"""Reads, masks and results of an attention, tile by tile: scores never lie in memory.

A program owns rows of queries and columns of values, and walks the keys block by block. For each
row it keeps the largest score so far, the sum of exponentials and the weighted values. When a
larger score comes, both sums are scaled down (Dao et al., 2022, arXiv:2205.14135). Axes: "b" a
batch and head, "m" queries, "n" keys, "e" the width of queries and keys, "v" the width of values.
"""

from functools import cached_property

from kernelwright.programs.fragments.fragment import CUTS
from kernelwright.programs.program import Program, Ref
from kernelwright.teacher.text.expressions import NotWritable, literal
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    AxisText,
    Dim,
    Index,
    Term,
    align,
    mask,
    times,
)
from kernelwright.teacher.tile.program import TileProgram, the_only
from kernelwright.teacher.tile.views import only_views

_COLUMN, _ROW = "[:, None]", "[None, :]"
_SUFFIXES = {
    "q": {"m": _COLUMN, "e": _ROW},
    "k": {"e": _COLUMN, "n": _ROW},
    "v": {"n": _COLUMN, "v": _ROW},
    "mask": {"m": _COLUMN, "n": _ROW},
    "out": {"m": _COLUMN, "v": _ROW},
}
"""Tile -> its axes, rows first. Keys are loaded transposed."""


class Flash(TileProgram):
    """A program with one attention, as its kernel sees it.

    Shapes: query (*batch, m, e), key (*batch, n, e), value (*batch, n, v), result (*batch, m, v).
    """

    def __init__(self, program: Program) -> None:
        """Reads the program.

        Raises:
            NotWritable: the program has no attention or several, is in float64, or has a call
                after the attention without kernel text.
        """
        self.program = program
        attention = "scaled_dot_product_attention"
        self.call = the_only(program, lambda call: call.op == attention, "attentions")
        self.names = {
            short: ref.name
            for short, parameter in (
                ("q", "query"), ("k", "key"), ("v", "value"), ("mask", "attn_mask")
            )
            if isinstance(ref := self.call.arg(parameter), Ref)
        }  # fmt: skip
        # A value that the program returns twice is stored once.
        self.out, self.outputs = self.call.types[0], tuple(dict.fromkeys(program.outputs))
        self.dtype = self.out.dtype
        self._parts: dict[str, dict[str, str]] = {axis: {} for axis in "bmnev"}
        query, value = (program.type_of(self.names[name]).shape for name in "qv")
        self.lengths = {"m": query[-2], "n": value[-2], "e": query[-1], "v": value[-1]}
        if self.dtype == "float64":
            raise NotWritable("float64 is left to PyTorch")
        self.epilogue = self._epilogue()

    @cached_property
    def symbols(self) -> dict[str, str]:
        """Axis "m", "n", "e" or "v" -> size text."""
        query, value = (self.texts.of(self.names[name]) for name in "qv")
        return {"m": query[-2], "n": value[-2], "e": query[-1], "v": value[-1]}

    @cached_property
    def batch(self) -> Index:
        """Index of the result's dimensions before the last two; they walk the axis "b" together."""
        places = range(self.out.rank - 2)
        walked = self.texts.walked(self.call.outputs[0], "b", places)
        return tuple(walked.get(at, ()) for at in places)

    def tile(self, name: str, *, widens: bool = True) -> TileBody:
        """A body over one of the kernel's tiles.

        Args:
            name: "q", "k", "v", "mask" or "out".
            widens: whether 16-bit floats are loaded as fp32.
        """
        view: dict[str, AxisText] = {}
        if any(self.batch):
            view["b"] = AxisText("pid_b", parts=self._parts["b"])
        for axis, suffix in _SUFFIXES[name].items():
            # Tiles share the slices of an axis, so the kernel computes each slice once.
            symbol, parts = self.symbols[axis], self._parts[axis]
            view[axis] = AxisText(f"offs_{axis}", suffix, symbol, parts=parts)
        return self.body(view, tag="" if name == "out" else f"_{name}", widens=widens)

    def _dim(self, axis: str) -> Dim:
        return (Term(axis, self.symbols[axis], self.lengths[axis]),)

    def load(self, name: str) -> list[str]:
        """Lines that load the tile of a factor, in the program's dtype, with zeros outside.

        Args:
            name: "q", "k" or "v", which is also the variable of the tile.
        """
        value = self.names[name]
        # Values that are only moved keep their 16 bits for `tl.dot`. Calls on them are computed in
        # fp32.
        is_plain = only_views(self.program, value, CUTS)
        body = self.tile(name, widens=not is_plain)
        inner = ("m", "e") if name == "q" else ("n", "e") if name == "k" else ("n", "v")
        before = self._shared(body, align(self.batch, body.shape(value)[:-2]), value, name)
        text = body.value(value, (*before, *map(self._dim, inner)))
        if not is_plain:
            # Fused calls may turn the zeros of masked loads into other numbers. A weight of 0 does
            # not help against them: 0 * inf is NaN.
            inside = mask([axis for axis in body.view if axis in _SUFFIXES[name]], body.view)
            cast = "" if self.dtype == "float32" else f".to(tl.{self.dtype})"
            text = f"tl.where({inside}, {text}, 0.0){cast}"
        return [*body.lines, f"{name} = {text}"]

    @cached_property
    def num_loads(self) -> dict[str, int]:
        """Factor -> number of loads that its tile is made of, for the estimate of shared memory."""
        return {name: sum("tl.load(" in line for line in self.load(name)) for name in "qkv"}

    def _shared(self, body: TileBody, before: Index, value: str, name: str) -> Index:
        """The batch index of a factor, with grouped heads (`enable_gqa`) taken into account.

        Several heads of queries share one head of keys and values.
        """
        heads, own = self.out.shape[-3:-2], body.shape(value)[-3:-2]
        if name == "q" or not self.call.arg("enable_gqa") or heads == own:
            return before
        # A single head is shared by all queries; a dimension of size 1 has no position.
        if own == (1,):
            return (*before[:-1], ())
        # A group of neighbouring query heads shares a head, so head i reads i // group.
        texts = self.texts.of(self.names["q"])[-3], self.texts.of(value)[-3]
        group = self.texts.symbol(" // ".join(texts), "GROUP")
        head = body.position(f"{body.text(before[-1])} // {group}", texts[1], own[0])
        return (*before[:-1], head)

    def masked(self) -> list[str]:
        """Lines that set scores to -inf outside keys, mask and causality, or add a float mask."""
        # Keys past the end are loaded as zeros. Their score of 0 would get a weight.
        inside = f"offs_n[None, :] < {self.symbols['n']}"
        if self.call.arg("is_causal"):
            # PyTorch aligns the causal mask at the top left: query i sees keys 0 to i at any
            # lengths.
            inside = f"({inside}) & (offs_n[None, :] <= offs_m[:, None])"
        if "mask" not in self.names:
            return [f'scores = tl.where({inside}, scores, float("-inf"))']
        body, value, added = self.tile("mask"), self.names["mask"], ""
        index = (*self.batch, self._dim("m"), self._dim("n"))
        text = body.value(value, align(index, body.shape(value)))
        # A bool mask names the keys that take part; a float mask is added to the scores.
        if self.program.type_of(value).dtype == "bool":
            inside = f"({inside}) & {text}"
        else:
            added = f" + {text}"
        return [*body.lines, f'scores = tl.where({inside}, scores{added}, float("-inf"))']

    def _epilogue(self) -> TileBody:
        """A body with the calls that follow the attention, over the variable `result`."""
        body = self.tile("out")
        index = (*self.batch, self._dim("m"), self._dim("v"))
        body.place(self.call.outputs[0], index, "result")
        body.follow(self.after())
        for name in self.program.outputs:
            if name not in body.path:
                raise NotWritable(f"output {name} does not come from the attention")
        return body

    @property
    def scale(self) -> str:
        """Symbol or number by which scores are multiplied, 1 / sqrt(e) unless the call has one."""
        factor = self.call.arg("scale")
        width = self.symbols["e"]
        # The wrapper computes the root, so one kernel text serves all widths.
        return (
            literal(float(factor))
            if factor is not None
            else self.texts.symbol(f"{width} ** -0.5", "SCALE")
        )

    @property
    def batches(self) -> str:
        """Text of the number of batches times heads."""
        return times(*(term.size for dim in self.batch for term in dim))

    def slices(self, axis: str) -> list[str]:
        """Lines that compute the slice variables of an axis.

        Raises:
            NotWritable: a slice of another axis has the same name.
        """
        # All tiles share the slices of an axis, but each tile names slices from its own view.
        taken = {name for other, names in self._parts.items() if other != axis for name in names}
        if taken & self._parts[axis].keys():
            raise NotWritable("views split two axes alike")
        return [f"{name} = {text}" for name, text in self._parts[axis].items()]
