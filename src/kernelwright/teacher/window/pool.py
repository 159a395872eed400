"""A pool with what is fused around it: programs own outputs and loop over their windows.

Two forms: "flat", a block of outputs in memory order; "plane", a tile of channels x pixels. The
second is for inputs and outputs of different layouts: each has one side of the tile in its order.
"""

from dataclasses import dataclass
from math import prod

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.movement.rules import RULES
from kernelwright.teacher.source import kernel_name
from kernelwright.teacher.text.axis_sizes import measure
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.scope import launch_order
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    AxisText,
    Index,
    Term,
    View,
    flat_axis,
    mask,
    parts,
    position,
    times,
)
from kernelwright.teacher.tile.source import after, assemble, finish, kernel, out_buffers, the_only
from kernelwright.teacher.tile.views import Side
from kernelwright.teacher.window.slide import POOLS, Slide, slides

_MAX_UNROLLED = 32
"""Windows of more elements are unrolled along the innermost dimension only, and not there either
where it is longer by itself: 512 steps take minutes to compile."""
_MAX_WINDOW = 1 << 13
"""Longer windows need several threads an output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    """The outputs that one program computes, as tile sizes."""

    tiles: dict[str, int]
    """BLOCK, or BLOCK_C and BLOCK_P; and num_warps."""
    why: str

    @property
    def is_plane(self) -> bool:
        return "BLOCK_C" in self.tiles


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
    def outer(self) -> tuple[str, ...]:
        """Symbols of the dimensions before the spatial ones."""
        return ("B", "C")[2 - (self.source.rank - len(self.window)) :]

    @property
    def is_wide(self) -> bool:
        """Whether the input or the output needs 64-bit offsets."""
        return max(self.source.numel, self.out.numel) >= 2**31


def find(program: Program) -> WindowPool:
    """The program's one pool.

    Raises:
        NotWritable: the program has no pool or several, or windows of more than _MAX_WINDOW
            elements.
    """
    call = the_only(program, lambda call: call.op in POOLS, "pools")
    kind, spatial = POOLS[call.op]
    source = program.type_of(next(call.refs()))
    window = tuple(slides(call, source.shape[source.rank - spatial :]))
    if prod(slide.kernel for slide in window) > _MAX_WINDOW:
        raise NotWritable("a long window: a reduction")
    return WindowPool(program, call, kind, window, source)


def write_pool(pool: WindowPool, blocks: Blocks) -> Candidate:
    """The candidate: one kernel for the pool and all calls around it.

    Raises:
        NotWritable: a call around the pool has no kernel text.
    """
    program, index = pool.program, _out_index(pool, blocks)
    view = _view(blocks)
    loop = _Loop(pool, blocks, index, view)
    edge = mask(list(view), view)
    body = TileBody(program, view, loop.texts, RULES, is_wide=pool.is_wide, inside=edge)
    body.place(pool.call.outputs[0], index, "pooled")
    body.follow(after(program, pool.call))
    end = finish(body, program.outputs)
    # One variable `inside` serves two masks. If windows can leave the input, each step sets it for
    # its own loads, so the mask of the outputs is set again after the loop.
    lines = [
        *_place(pool, blocks),
        *end[: len(parts(view))],
        *loop.starts,
        *([f"inside = {edge}"] if not loop.leaves else []),
        *loop.body.before,
        f"pooled = tl.full({_shape(blocks)}, {loop.neutral}, dtype=tl.float32)",
        *loop.lines,
        *loop.average,
        *([f"inside = {edge}"] if loop.leaves else []),
        *end[len(parts(view)) :],
    ]
    plan = KernelPlan(
        kernel=kernel_name(program),
        fuses=tuple(call.op for call in program.calls),
        loop="window" if not blocks.is_plane else "window_plane",
        tiles=blocks.tiles,
        why=blocks.why,
    )
    constants = {name: text for slide in pool.window for name, text in slide.constants.items()}
    pool_kernel = kernel(plan, lines, _grid(pool, blocks), loop.texts.symbols, constants)
    buffers = out_buffers(body, program.outputs)
    return assemble(loop.texts, buffers, [pool_kernel], is_wide=pool.is_wide)


# Indices and sizes


def _out_index(pool: WindowPool, blocks: Blocks) -> Index:
    """Index of the pool's result: one axis in memory order, or channels and pixels."""
    names = [*pool.outer, *(f"O{slide.symbol}" for slide in pool.window)]
    lengths = pool.out.shape
    is_last = pool.out.layout is Layout.CHANNELS_LAST
    if blocks.is_plane:
        [channels] = flat_axis("c", ["C"], lengths[1:2])
        rest = flat_axis("p", [names[0], *names[2:]], (lengths[0], *lengths[2:]))
        return (rest[0], channels, *rest[1:])
    if not is_last:
        return flat_axis("i", names, lengths)
    moved = flat_axis("i", [names[0], *names[2:], names[1]], (lengths[0], *lengths[2:], lengths[1]))
    return (moved[0], moved[-1], *moved[1:-1])


def _view(blocks: Blocks) -> View:
    if blocks.is_plane:
        return {
            "c": AxisText("chan", "[:, None]", "C"),
            "p": AxisText("pix", "[None, :]", "PIXELS"),
        }
    return {"i": AxisText("offs", "", "TOTAL")}


def _sizes(pool: WindowPool, blocks: Blocks, side: Side) -> dict[str, str]:
    sizes = {name: measure(pool.program, name, [side]) for name in pool.outer}
    sizes |= {s.symbol: measure(pool.program, s.symbol, [side]) for s in pool.window}
    out_sizes = {f"O{slide.symbol}": slide.out_size for slide in pool.window}
    if blocks.is_plane:
        pixels = times(*(symbol for symbol in pool.outer if symbol != "C"), *out_sizes)
        return sizes | out_sizes | {"PIXELS": pixels}
    return sizes | out_sizes | {"TOTAL": times(*pool.outer, *out_sizes)}


# Lines


def _place(pool: WindowPool, blocks: Blocks) -> list[str]:
    wide = ".to(tl.int64)" if pool.is_wide else ""
    if not blocks.is_plane:
        return [f"offs = tl.program_id(0){wide} * BLOCK + tl.arange(0, BLOCK)"]
    pixels, channels = (f"tl.program_id({_order(pool, blocks).index(at)}){wide}" for at in (0, 1))
    return [
        f"pix = {pixels} * BLOCK_P + tl.arange(0, BLOCK_P)",
        f"chan = {channels} * BLOCK_C + tl.arange(0, BLOCK_C)",
    ]


def _order(pool: WindowPool, blocks: Blocks) -> list[int]:
    """Places of the pixels' blocks and of the channels' along x and y."""
    channels = pool.out.shape[1]
    pixels = pool.out.numel // channels
    return launch_order(
        -(-pixels // blocks.tiles["BLOCK_P"]), -(-channels // blocks.tiles["BLOCK_C"])
    )


def _grid(pool: WindowPool, blocks: Blocks) -> str:
    if blocks.is_plane:
        sizes = "triton.cdiv(PIXELS, BLOCK_P)", "triton.cdiv(C, BLOCK_C)"
        return f"({', '.join(sizes[at] for at in _order(pool, blocks))})"
    return f"(triton.cdiv(TOTAL, {blocks.tiles['BLOCK']}),)"


def _shape(blocks: Blocks) -> str:
    return "(BLOCK_C, BLOCK_P)" if blocks.is_plane else "(BLOCK,)"


class _Loop:
    """The lines of the loop over a window, which gathers the elements in `pooled`."""

    def __init__(self, pool: WindowPool, blocks: Blocks, out: Index, view: View) -> None:
        spatial = len(pool.window)
        inner = tuple(
            (Term(slide.at, slide.symbol, size),)
            for slide, size in zip(pool.window, pool.source.shape[-spatial:], strict=True)
        )
        self.side = Side(pool.value, (*out[: len(out) - spatial], *inner))
        self.leaves = any(slide.axis.bound for slide in pool.window)
        """Windows may hang over an edge: every step has a mask of its own."""
        self.neutral = 'float("-inf")' if pool.kind == "max" else "0.0"
        # Positions along the window are axes of the loop, so their masks come with the loads.
        view = {**view, **{slide.at: slide.axis for slide in pool.window}}
        self.inside = mask(list(view), view)
        axes = "".join(slide.at for slide in pool.window)
        self.texts = ValueSizes(pool.program, _sizes(pool, blocks, self.side))
        self.body = TileBody(
            pool.program, view, self.texts, RULES,
            is_wide=pool.is_wide, inside=self.inside, loop=axes, tag="_in",
        )  # fmt: skip
        element = self.body.value(self.side.value, self.side.index)
        self.starts = [
            line
            for slide, [term] in zip(pool.window, out[-spatial:], strict=True)
            for line in slide.start(position(term, view))
        ]
        self.lines = self._nested(pool, self._gather(pool, element))
        self.average = self._divide(pool)

    def _gather(self, pool: WindowPool, element: str) -> list[str]:
        """The line that adds an element of the window to `pooled`, or keeps the larger."""
        if self.leaves:
            # What lies outside must not count, whatever fused code makes of it.
            element = f"tl.where(inside, {element}, {self.neutral})"
        if pool.kind == "avg":
            return [f"pooled += {element}"]
        # PyTorch's max pools pass NaN on; `tl.maximum` drops NaN by default.
        return [f"pooled = tl.maximum(pooled, {element}, propagate_nan=tl.PropagateNan.ALL)"]

    def _nested(self, pool: WindowPool, gather: list[str]) -> list[str]:
        """The lines of a step inside one loop for each dimension of the window."""
        is_short = prod(slide.kernel for slide in pool.window) <= _MAX_UNROLLED
        lines: list[str] = []
        indent = ""
        for slide in pool.window:
            is_inner = slide is pool.window[-1] and slide.kernel <= _MAX_UNROLLED
            header, place = slide.loop(is_short or is_inner)
            if header:
                lines.append(indent + header)
                indent += "    "
            lines.append(indent + place)
        inside = [f"inside = {self.inside}"] if self.leaves else []
        return lines + [indent + line for line in (*inside, *self.body.lines, *gather)]

    def _divide(self, pool: WindowPool) -> list[str]:
        """The lines that divide a sum by the number of elements that the average counts."""
        if pool.kind == "max":
            return []
        is_adaptive = pool.window[0].adaptive > 0
        divisor = None
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
