"""Attention in one kernel: scores of a block of keys at a time, never in memory.

A program owns rows of queries and columns of values. It walks the keys block by block, with the
largest score of each row so far, the sum of exponentials and the weighted values; when a larger
score comes, what was summed is scaled down. Axes: "b" a batch and head, "m" queries, "n" keys,
"e" the width of queries and keys, "v" of values.
"""

from functools import cached_property

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.programs.program import Program, Ref
from kernelwright.teacher.expressions import NotWritable, literal
from kernelwright.teacher.flash_split import (
    merged,
    split_bounds,
    split_buffers,
    split_stores,
)
from kernelwright.teacher.flash_tile import ONLINE, START, Tile
from kernelwright.teacher.pull_body import PullBody
from kernelwright.teacher.pull_rules import CUTS, RULES
from kernelwright.teacher.source import Kernel, kernel_name
from kernelwright.teacher.tile_index import (
    AxisText,
    Dim,
    Index,
    Term,
    align,
    factor,
    flat_axis,
    mask,
    times,
)
from kernelwright.teacher.tile_source import Buffer, assemble, is_wide, kernel, out_buffers
from kernelwright.teacher.tile_views import only_views
from kernelwright.teacher.value_sizes import Sizes

_COLUMN, _ROW = "[:, None]", "[None, :]"
_SUFFIXES = {
    "q": {"m": _COLUMN, "e": _ROW},
    "k": {"e": _COLUMN, "n": _ROW},
    "v": {"n": _COLUMN, "v": _ROW},
    "mask": {"m": _COLUMN, "n": _ROW},
    "out": {"m": _COLUMN, "v": _ROW},
}
"""Tile -> its axes, rows first. Keys are loaded transposed."""


class Flash:
    """A program with one attention, as its kernel sees it."""

    def __init__(self, program: Program) -> None:
        """Raises: NotWritable: it has not one attention, or something around it has no form."""
        self.program = program
        calls = [c for c in program.calls if c.op == "scaled_dot_product_attention"]
        if len(calls) != 1:
            raise NotWritable(f"{len(calls)} attentions where one is needed")
        [self.call] = calls
        self.names = {
            short: ref.name
            for short, parameter in (
                ("q", "query"), ("k", "key"), ("v", "value"), ("mask", "attn_mask")
            )
            if isinstance(ref := self.call.arg(parameter), Ref)
        }  # fmt: skip
        self.out, self.outputs = self.call.types[0], tuple(dict.fromkeys(program.outputs))
        self.dtype = self.out.dtype
        self.sizes = Sizes(program)
        self._parts: dict[str, dict[str, str]] = {axis: {} for axis in "bmnev"}
        self.lengths = self._lengths()
        if self.dtype == "float64":
            raise NotWritable("float64 is left to PyTorch")
        self.epilogue = self._epilogue()

    def _lengths(self) -> dict[str, int]:
        """Of the axes "m", "n", "e" and "v"."""
        query, value = (self.program.type_of(self.names[name]).shape for name in "qv")
        return {"m": query[-2], "n": value[-2], "e": query[-1], "v": value[-1]}

    @cached_property
    def symbols(self) -> dict[str, str]:
        """Axis -> size."""
        query, value = (self.sizes.of(self.names[name]) for name in "qv")
        return {"m": query[-2], "n": value[-2], "e": query[-1], "v": value[-1]}

    @cached_property
    def batch(self) -> Index:
        """Index of the result's dimensions before the last two."""
        shape, texts = self.out.shape[:-2], self.sizes.of(self.call.outputs[0])[:-2]
        wide = [at for at, size in enumerate(shape) if size > 1]
        walked = flat_axis("b", [texts[at] for at in wide], [shape[at] for at in wide])
        known = dict(zip(wide, walked, strict=True))
        return tuple(known.get(at, ()) for at in range(len(shape)))

    def body(self, name: str, *, widens: bool = True) -> PullBody:
        """A body over one of the kernel's tiles."""
        view: dict[str, AxisText] = {}
        if any(self.batch):
            view["b"] = AxisText("pid_b", parts=self._parts["b"])
        for axis, suffix in _SUFFIXES[name].items():
            symbol, given = self.symbols[axis], self._parts[axis]
            view[axis] = AxisText(f"offs_{axis}", suffix, symbol, parts=given)
        return PullBody(
            self.program, view, self.sizes, RULES,
            is_wide=self.is_wide, tag="" if name == "out" else f"_{name}", widens=widens,
        )  # fmt: skip

    @property
    def is_wide(self) -> bool:
        return is_wide(self.program)

    def _dim(self, axis: str) -> Dim:
        return (Term(axis, self.symbols[axis], self.lengths[axis]),)

    def load(self, name: str) -> list[str]:
        """Lines that load the tile of a factor, in its dtype, zero where it is not."""
        value = self.names[name]
        is_plain = only_views(self.program, value, CUTS)
        body = self.body(name, widens=not is_plain)
        inner = ("m", "e") if name == "q" else ("n", "e") if name == "k" else ("n", "v")
        before = self._shared(body, align(self.batch, body.shape(value)[:-2]), value, name)
        text = body.value(value, (*before, *map(self._dim, inner)))
        if not is_plain:
            inside = mask([axis for axis in body.view if axis in _SUFFIXES[name]], body.view)
            cast = "" if self.dtype == "float32" else f".to(tl.{self.dtype})"
            text = f"tl.where({inside}, {text}, 0.0){cast}"
        return [*body.lines, f"{name} = {text}"]

    @cached_property
    def num_loads(self) -> dict[str, int]:
        """How many tensors each factor's tile is made of."""
        return {name: sum("tl.load(" in line for line in self.load(name)) for name in "qkv"}

    def _shared(self, body: PullBody, before: Index, value: str, name: str) -> Index:
        """The batch's index with the head that a group of queries shares."""
        heads, own = self.out.shape[-3:-2], body.shape(value)[-3:-2]
        if name == "q" or not self.call.arg("enable_gqa") or heads == own:
            return before
        if own == (1,):
            return (*before[:-1], ())
        texts = self.sizes.of(self.names["q"])[-3], self.sizes.of(value)[-3]
        group = self.sizes.symbol(" // ".join(texts), "GROUP")
        head = body.position(f"{body.text(before[-1])} // {group}", texts[1], own[0])
        return (*before[:-1], head)

    def masked(self) -> list[str]:
        """Lines that leave out, or add to, scores as mask and causality say."""
        inside = f"offs_n[None, :] < {self.symbols['n']}"
        if self.call.arg("is_causal"):
            inside = f"({inside}) & (offs_n[None, :] <= offs_m[:, None])"
        if "mask" not in self.names:
            return [f'scores = tl.where({inside}, scores, float("-inf"))']
        body, value = self.body("mask"), self.names["mask"]
        index = (*self.batch, self._dim("m"), self._dim("n"))
        text = body.value(value, align(index, body.shape(value)))
        if self.program.type_of(value).dtype == "bool":
            inside = f"({inside}) & {text}"
            return [*body.lines, f'scores = tl.where({inside}, scores, float("-inf"))']
        added = f"scores + {text}"
        return [*body.lines, f'scores = tl.where({inside}, {added}, float("-inf"))']

    def _epilogue(self) -> PullBody:
        """What follows on the result."""
        body = self.body("out")
        index = (*self.batch, self._dim("m"), self._dim("v"))
        body.place(self.call.outputs[0], index, "result")
        body.follow(self.program.calls[self.program.calls.index(self.call) + 1 :])
        for name in self.program.outputs:
            if name not in body.path:
                raise NotWritable(f"output {name} does not come from the attention")
        return body

    @property
    def scale(self) -> str:
        """Symbol or number that scores are multiplied by."""
        given = self.call.arg("scale")
        width = self.symbols["e"]
        return (
            literal(float(given))
            if given is not None
            else self.sizes.symbol(f"{width} ** -0.5", "SCALE")
        )

    def candidate(self, tile: Tile) -> Candidate:
        """One kernel, or one of partial results and one that merges them."""
        made, buffers = self._kernels(tile)
        buffers += out_buffers(self.epilogue, self.outputs)
        named = [text for one in made for text in (*one.sizes, one.grid, *one.constants.values())]
        named += [size for buffer in buffers for size in buffer.sizes]
        sizes = self.sizes.needed(named)
        return assemble(self.program, sizes, buffers, made, self.is_wide)

    def _kernels(self, tile: Tile) -> tuple[list[Kernel], list[Buffer]]:
        """The kernels in order, and the memory between them."""
        is_held = tile.width >= self.lengths["e"]
        loop = "flash" if is_held else "flash_chunked"
        # All of the width at any size: the wrapper knows how long it is.
        whole = {"BLOCK_E": f"max(16, triton.next_power_of_2({self.symbols['e']}))"}
        ops, given = tuple(call.op for call in self.program.calls), whole if is_held else None
        finished = self._finished()  # first: it asks for slices of axes
        if tile.splits == 1:
            lines = [*self._weighted(tile, "0", self._end, is_held=is_held), *finished]
            why = "scores stay on chip: keys and values are read once a block of queries"
            plan = self._plan(tile, ops, loop, why)
            return [kernel(plan, lines, f"({self._grid},)", self.sizes.symbols, given)], []
        why = f"few blocks of queries: {tile.splits} programs share the keys of each"
        plan = self._plan(tile, (self.call.op,), f"{loop}_split", why, "split")
        lines = [
            *self._weighted(tile, "begin", "end", is_held=is_held),
            *split_stores(self._row("split"), self.symbols),
        ]
        grid = f"({self._grid}, SPLIT_N)"
        parts = kernel(plan, lines, grid, self.sizes.symbols, given)
        plan = self._plan(tile, ops, "flash_merge", "what the splits of a row found", "merge")
        lines = [*self._place(), *merged(self._row("split"), self.symbols), *finished]
        merge = kernel(plan, lines, f"({self._grid},)", self.sizes.symbols)
        return [parts, merge], split_buffers(tile.splits, self._batches, self.symbols)

    def _plan(
        self, tile: Tile, ops: tuple[str, ...], loop: str, why: str, suffix: str = ""
    ) -> KernelPlan:
        tiles = {"BLOCK_M": tile.queries, "BLOCK_N": tile.keys, "BLOCK_V": tile.values}
        tiles |= {"BLOCK_E": tile.width} | ({"SPLIT_N": tile.splits} if tile.splits > 1 else {})
        names = [self.call.op] if suffix else [call.op for call in self.program.calls]
        return KernelPlan(
            kernel=kernel_name(names, suffix),
            fuses=ops,
            loop=loop,
            tiles={**tiles, "num_warps": tile.num_warps, "num_stages": tile.num_stages},
            precision=tile.precision,
            why=why,
        )

    @property
    def _batches(self) -> str:
        return times(*(term.size for dim in self.batch for term in dim))

    @property
    def _grid(self) -> str:
        """Text of how many tiles there are."""
        rows, columns = self.symbols["m"], self.symbols["v"]
        batches = f"{self._batches} * " if any(self.batch) else ""
        return f"{batches}triton.cdiv({rows}, BLOCK_M) * triton.cdiv({columns}, BLOCK_V)"

    @property
    def _end(self) -> str:
        """Text of where the keys of a block of queries end."""
        keys = self.symbols["n"]
        return f"tl.minimum({keys}, (pid_m + 1) * BLOCK_M)" if self.call.arg("is_causal") else keys

    def _row(self, split: str) -> str:
        """Text of the number of a split's row."""
        rows = self.symbols["m"]
        if not any(self.batch):
            return f"{split} * {rows} + offs_m"
        return f"({split} * {factor(self._batches)} + pid_b) * {rows} + offs_m"

    def _weighted(self, tile: Tile, begin: str, end: str, *, is_held: bool) -> list[str]:
        """Lines that leave the values' sum in `acc`, with the rows' `row_max` and `row_sum`."""
        query = self.load("q")
        scores = self._scores(tile, [] if is_held else query)
        value = self.load("v")
        weights = "weights" if self.dtype == "float32" else f"weights.to(tl.{self.dtype})"
        loop = [
            *scores,
            *self.masked(),
            *ONLINE,
            *value,
            f"acc = tl.dot({weights}, v, acc * shrink[:, None]{self._mode(tile)})",
        ]
        held = ["offs_e = tl.arange(0, BLOCK_E)", *self._slices("e"), *query] if is_held else []
        return [
            *self._place(),
            *(split_bounds(self.symbols["n"], self._end) if tile.splits > 1 else []),
            *held,
            *START,
            f"for start in range({begin}, {end}, BLOCK_N):",
            "    offs_n = start + tl.arange(0, BLOCK_N)",
            *(f"    {line}" for line in [*self._slices("n"), *loop]),
        ]

    def _finished(self) -> list[str]:
        """Lines that make the result of the sums, what follows on it, and store."""
        stores = [self.epilogue.store(f"{name}_ptr", name) for name in self.outputs]
        return [
            "# Rows without any key are zero.",
            "result = acc / tl.where(row_sum == 0, 1.0, row_sum)[:, None]",
            *self.epilogue.lines,
            *stores,
        ]

    def _scores(self, tile: Tile, query: list[str]) -> list[str]:
        """Lines that make a block of scores; in chunks of the width where `query` is loaded."""
        key = self.load("k")
        if not query:
            return [*key, f"scores = tl.dot(q, k{self._mode(tile)}) * {self.scale}"]
        chunk = [
            "offs_e = chunk + tl.arange(0, BLOCK_E)",
            *self._slices("e"),
            *query,
            *key,
            f"scores = tl.dot(q, k, scores{self._mode(tile)})",
        ]
        return [
            "scores = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for chunk in range(0, {self.symbols['e']}, BLOCK_E):",
            *(f"    {line}" for line in chunk),
            f"scores = scores * {self.scale}",
        ]

    def _mode(self, tile: Tile) -> str:
        return f', input_precision="{tile.precision}"' if self.dtype == "float32" else ""

    def _slices(self, axis: str) -> list[str]:
        """Lines of the variables for slices of an axis.

        Raises:
            NotWritable: one has the name of another axis's.
        """
        taken = {name for other, made in self._parts.items() if other != axis for name in made}
        if taken & self._parts[axis].keys():
            raise NotWritable("views split two axes alike")
        return [f"{name} = {text}" for name, text in self._parts[axis].items()]

    def _place(self) -> list[str]:
        """Lines that find the program's tile."""
        rows, columns = self.symbols["m"], self.symbols["v"]
        batch = "pid // (num_m * num_v)"
        if self.is_wide:
            batch = f"({batch}).to(tl.int64)"
        return [
            "pid = tl.program_id(0)",
            f"num_m, num_v = tl.cdiv({rows}, BLOCK_M), tl.cdiv({columns}, BLOCK_V)",
            "pid_m, pid_v = pid // num_v % num_m, pid % num_v",
            *([f"pid_b = {batch}"] if any(self.batch) else []),
            "offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)",
            "offs_v = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)",
            *(line for axis in "bmv" for line in self._slices(axis)),
        ]
