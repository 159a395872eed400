"""A pool with what is fused around it: programs own outputs and loop over their windows.

Two forms: "flat", a block of outputs in memory order; "plane", a tile of channels x pixels. The
second is for inputs and outputs of different layouts: each has one side of the tile in its order.
`pool_rows` has a third form, for long windows.
"""

from dataclasses import dataclass
from math import prod

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.reduction.accumulators import functions
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.scope import launch_order
from kernelwright.teacher.text.value_sizes import ValueSizes, measure
from kernelwright.teacher.tile.index import (
    AxisText,
    Index,
    Term,
    flat_axis,
    mask,
    memory_order,
    parts,
    position,
    times,
)
from kernelwright.teacher.tile.program import TileChoice, TileProgram, finish, out_buffers, the_only
from kernelwright.teacher.tile.views import Side
from kernelwright.teacher.window.slide import POOLS, Slide, slides

_MAX_UNROLLED = 32
"""Windows of more elements are unrolled along the innermost dimension only, and not there either
where it is longer by itself: 512 steps take minutes to compile."""
MAX_WALKED = 1 << 13
"""The most elements of a window that one thread walks."""


@dataclass(frozen=True)
class WindowPool:
    """A program with one pool, as its kernels see it."""

    program: Program
    call: Call
    kind: str
    """"max" or "avg"."""
    window: tuple[Slide, ...]
    source: TensorType

    @property
    def out(self) -> TensorType:
        return self.call.types[0]

    @property
    def value(self) -> str:
        """The value that the window slides over."""
        return next(self.call.refs())

    @property
    def length(self) -> int:
        """The number of elements of a window; of an adaptive pool, the most that it has."""
        return prod(slide.kernel for slide in self.window)

    @property
    def outer(self) -> tuple[str, ...]:
        """Symbols of the dimensions before the spatial ones."""
        # An input without a batch has channels only; an input without both has spatial dimensions
        # only.
        return ("B", "C")[2 - (self.source.rank - len(self.window)) :]

    @property
    def is_wide(self) -> bool:
        """Whether the input or the output needs 64-bit offsets."""
        return max(self.source.numel, self.out.numel) >= 2**31


def find(program: Program) -> WindowPool:
    """The program's one pool.

    Raises:
        NotWritable: the program has no pool or several, or longer windows than MAX_WALKED in an
            input that is not contiguous.
    """
    call = the_only(program, lambda call: call.op in POOLS, "pools")
    kind, spatial = POOLS[call.op]
    source = program.type_of(next(call.refs()))
    window = tuple(slides(call, source.shape[source.rank - spatial :]))
    pool = WindowPool(program, call, kind, window, source)
    if pool.length > MAX_WALKED and source.layout is not Layout.CONTIGUOUS:
        raise NotWritable("a long window in channels-last")
    return pool


class PoolKernel(TileProgram):
    """The kernel of a pool: a block of outputs and a loop over their windows.

    Axes: "i" outputs in memory order; in a plane "c" channels and "p" pixels.
    """

    def __init__(self, pool: WindowPool, blocks: TileChoice) -> None:
        """The kernel without lines.

        Args:
            blocks: tile sizes BLOCK, or BLOCK_C and BLOCK_P of a plane; and num_warps.
        """
        self.program, self.call, self.is_wide = pool.program, pool.call, pool.is_wide
        self.pool, self.blocks, self.is_plane = pool, blocks, "BLOCK_C" in blocks.tiles
        self.view = {"i": AxisText("offs", "", "TOTAL")}
        if self.is_plane:
            chan, pix = AxisText("chan", "[:, None]", "C"), AxisText("pix", "[None, :]", "PIXELS")
            self.view = {"c": chan, "p": pix}
        self.index, spatial = self._out_index(), len(pool.window)
        inner = tuple(
            (Term(slide.at, slide.symbol, size),)
            for slide, size in zip(pool.window, pool.source.shape[-spatial:], strict=True)
        )
        side = Side(pool.value, (*self.index[: len(self.index) - spatial], *inner))
        self.texts = ValueSizes(pool.program, self._sizes(side))
        self.neutral = 'float("-inf")' if pool.kind == "max" else "0.0"
        # Positions along the window are axes of the loop, so their masks come with the loads.
        view = self._loop_view()
        self.leaves = any(view[slide.at].tests for slide in pool.window)
        """Whether positions may be invalid: each step then has its own mask."""
        self.inside = mask(list(view), view)
        axes = [slide.at for slide in pool.window]
        self.loop = self.body(view, inside=self.inside, loop=axes, tag="_in")
        self.element = self.loop.value(side.value, side.index)
        self.starts = [
            line
            for slide, [term] in zip(pool.window, self.index[-spatial:], strict=True)
            for line in slide.start(position(term, self.view))
        ]

    def _loop_view(self) -> dict[str, AxisText]:
        """The axes in the loop over windows."""
        return {**self.view, **{slide.at: slide.axis for slide in self.pool.window}}

    def candidate(self) -> Candidate:
        """The candidate: one kernel for the pool and all calls around it.

        Raises:
            NotWritable: a call around the pool has no kernel text.
        """
        program, view = self.program, self.view
        edge = mask(list(view), view)
        body = self.body(view, inside=edge)
        body.place(self.call.outputs[0], self.index, "pooled")
        body.follow(self.after())
        end = finish(body, program.outputs)
        # One variable `inside` serves two masks. If windows can leave the input, each step sets it
        # for its own loads, so the mask of the outputs is set again after the loop.
        lines = [
            *self._place(),
            # `finish` begins with the slices of axes, from which window starts are computed.
            *end[: len(parts(view))],
            *self.starts,
            *([f"inside = {edge}"] if not self.leaves else []),
            *self.loop.before,
            *self._gathered_windows(),
            *self._divided(),
            *([f"inside = {edge}"] if self.leaves else []),
            *end[len(parts(view)) :],
        ]
        slides = self.pool.window
        computed = {name: text for slide in slides for name, text in slide.constants.items()}
        kernel = self.kernel(
            self.blocks, self.loop_name, program.calls, lines, self._grid(), computed=computed
        )
        extra = "".join(functions(lines))
        return self.assembled([kernel], out_buffers(body, program.outputs), extra=extra)

    @property
    def loop_name(self) -> str:
        """The plan's name of the loop."""
        return "window_plane" if self.is_plane else "window"

    # Indices and sizes

    def _out_index(self) -> Index:
        """Index of the pool's result: one axis in memory order, or channels and pixels."""
        pool, shape = self.pool, self.pool.out.shape
        names = (*pool.outer, *(f"O{slide.symbol}" for slide in pool.window))
        if self.is_plane:
            [channels] = flat_axis("c", ["C"], shape[1:2])
            rest = flat_axis("p", [names[0], *names[2:]], (shape[0], *shape[2:]))
            return (rest[0], channels, *rest[1:])
        layout = pool.out.layout
        moved = flat_axis("i", memory_order(names, layout), memory_order(shape, layout))
        is_last = layout is Layout.CHANNELS_LAST
        return (moved[0], moved[-1], *moved[1:-1]) if is_last else moved

    def _sizes(self, side: Side) -> dict[str, str]:
        pool = self.pool
        read = [*pool.outer, *(slide.symbol for slide in pool.window)]
        sizes = {name: measure(pool.program, name, [side]) for name in read}
        out_sizes = {f"O{slide.symbol}": slide.out_size for slide in pool.window}
        if self.is_plane:
            pixels = times(*(symbol for symbol in pool.outer if symbol != "C"), *out_sizes)
            return sizes | out_sizes | {"PIXELS": pixels}
        return sizes | out_sizes | {"TOTAL": times(*pool.outer, *out_sizes)}

    # Lines

    def _place(self) -> list[str]:
        wide = ".to(tl.int64)" if self.is_wide else ""
        if not self.is_plane:
            return [f"offs = tl.program_id(0){wide} * BLOCK + tl.arange(0, BLOCK)"]
        pixels, channels = (f"tl.program_id({self._order().index(at)}){wide}" for at in (0, 1))
        return [
            f"pix = {pixels} * BLOCK_P + tl.arange(0, BLOCK_P)",
            f"chan = {channels} * BLOCK_C + tl.arange(0, BLOCK_C)",
        ]

    def _order(self) -> list[int]:
        """Places of the pixels' blocks and of the channels' along x and y."""
        channels, tiles = self.pool.out.shape[1], self.blocks.tiles
        pixels = self.pool.out.numel // channels
        return launch_order(-(-pixels // tiles["BLOCK_P"]), -(-channels // tiles["BLOCK_C"]))

    def _grid(self) -> str:
        if self.is_plane:
            sizes = "triton.cdiv(PIXELS, BLOCK_P)", "triton.cdiv(C, BLOCK_C)"
            return f"({', '.join(sizes[at] for at in self._order())})"
        return f"(triton.cdiv(TOTAL, {self.blocks.tiles['BLOCK']}),)"

    def _gathered(self) -> str:
        """The line that adds an element of the window to `pooled`, or keeps the larger."""
        element = self.element
        if self.leaves:
            # What lies outside must not count, whatever fused code makes of it.
            element = f"tl.where(inside, {element}, {self.neutral})"
        if self.pool.kind == "avg":
            return f"pooled += {element}"
        # PyTorch's max pools pass NaN on; `tl.maximum` drops NaN by default.
        return f"pooled = tl.maximum(pooled, {element}, propagate_nan=tl.PropagateNan.ALL)"

    def _gathered_windows(self) -> list[str]:
        """The lines that reduce the windows to `pooled`."""
        shape = "(BLOCK_C, BLOCK_P)" if self.is_plane else "(BLOCK,)"
        return [f"pooled = tl.full({shape}, {self.neutral}, dtype=tl.float32)", *self._nested()]

    def _nested(self) -> list[str]:
        """The lines of a step inside one loop for each dimension of the window."""
        window = self.pool.window
        is_short = self.pool.length <= _MAX_UNROLLED
        lines: list[str] = []
        indent = ""
        for slide in window:
            is_inner = slide is window[-1] and slide.kernel <= _MAX_UNROLLED
            header, place = slide.loop(is_short or is_inner)
            if header:
                lines.append(indent + header)
                indent += "    "
            lines.append(indent + place)
        return lines + [indent + line for line in self.step_lines()]

    def step_lines(self) -> list[str]:
        """The lines of one step of the loop, after its positions."""
        inside = [f"inside = {self.inside}"] if self.leaves else []
        return [*inside, *self.loop.lines, self._gathered()]

    def _divided(self) -> list[str]:
        """The lines that divide a sum by the number of elements that the average counts."""
        pool = self.pool
        if pool.kind == "max":
            return []
        is_adaptive = pool.window[0].adaptive > 0
        divisor = None
        # Neither adaptive pools nor avg_pool1d have a `divisor_override`.
        if not is_adaptive and len(pool.window) > 1:
            divisor = pool.call.arg("divisor_override")
        if divisor is not None:
            return [f"pooled = pooled / {divisor}"]
        includes = not is_adaptive and pool.call.arg("count_include_pad")
        counts = [slide.count(includes) for slide in pool.window]
        text = " * ".join(counts)
        if all(count.isdigit() for count in counts):
            return [f"pooled = pooled / {text if len(counts) == 1 else f'({text})'}"]
        return [f"count = {text}", "pooled = pooled / count"]
