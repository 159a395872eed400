"""The loop of a convolution: where windows start, which tap a step visits, what it loads."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kernelwright.programs.program import Call
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.movement.rules import COPIES
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    AxisText,
    Dim,
    Index,
    View,
    all_of,
    axes_of,
    mask,
    offset,
    parts,
    shifted,
)
from kernelwright.teacher.tile.views import Side, only_views, source_index, sources
from kernelwright.teacher.window.conv import Convolution
from kernelwright.teacher.window.sweep import Sweep


@dataclass(frozen=True, slots=True)
class WindowFactor:
    """Lines that load one factor's tile of a step into the variable `name`."""

    name: str
    before: list[str]
    """Outside the loop."""
    lines: list[str]

    @property
    def num_loads(self) -> int:
        return sum("tl.load(" in line for line in self.lines)

    @property
    def is_loaded(self) -> bool:
        """Whether the tile is the result of one load, with nothing computed from it."""
        return any(line.startswith(f"{self.name} = tl.load(") for line in self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class SummedAxes:
    """The axes that are summed over, as the kernel writes them."""

    image: dict[str, AxisText]
    """In the image's tile."""
    weights: dict[str, AxisText]
    """In the weights' tile, taps included."""
    taps: dict[str, str]
    """Position in the image -> text of the tap visited there."""
    dims: dict[str, Dim]
    """Axes of the product's indices that are slices of another one here."""
    is_narrow: bool
    """Factors have the inputs' dtype; else fp32."""


class _WalkBody(TileBody):
    """A body whose loads go through pointers that slide in the loop.

    Start pointers are computed before the loop; the loop adds only the moved offset. So most of an
    address is computed once, on fewer dimensions than the tile has.
    """

    def __init__(
        self, product: Convolution, view: View, walk: tuple[View, View], *,
        loop: Collection[str], tag: str, widens: bool,
    ) -> None:  # fmt: skip
        """A body over axes of the kernel.

        Args:
            walk: views of where each axis starts, and of how far each axis has moved in the loop.
        """
        super().__init__(
            product.program, view, product.texts, {},
            is_wide=product.is_wide, loop=loop, tag=tag, widens=widens,
        )  # fmt: skip
        self._walk = walk

    def _operand(self, name: str, index: Index) -> str:
        if name not in self._producer:
            return self._load(name, index)
        return super()._operand(name, index)

    def _seen(self, call: Call, index: Index) -> Index:
        # The base class would take the element's number apart, which no sliding pointer can follow.
        return source_index(self.program, call, index)

    def _address(self, name: str, index: Index) -> str:
        if self._is_fixed(index):
            return super()._address(name, index)
        starts, moves = self._walk
        both = starts.keys() & moves.keys()
        # Start and move are added as offsets. A division or remainder of their sum is not the sum
        # of two divisions.
        if any(term.axis in both and not term.is_whole for dim in index for term in dim):
            raise NotWritable("a view takes apart an axis that a window slides along")
        layout = self.program.type_of(name).layout
        start, move = (offset(index, view, layout) for view in self._walk)
        if start == "0":
            return f"{name}_ptr + {move}"
        pointer = self._variable(name, "_start")
        self.before.append(f"{pointer} = {name}_ptr + {start}")
        return pointer if move == "0" else f"{pointer} + {move}"

    def _mask(self, index: Index) -> str:
        return self._tests(index)  # a mask may move in the loop: its text stays with the load

    def _line(self, wanted: str, text: str, index: Index) -> str:
        variable = self._variable(wanted)
        (self.before if self._is_fixed(index) else self.lines).append(f"{variable} = {text}")
        return variable

    def _is_fixed(self, index: Index) -> bool:
        """Whether a value at `index` is the same in every step of the loop."""
        return self.loop.isdisjoint(axes_of(index))


class Walk:
    """The lines of a convolution's loop: window starts, positions, masks and loads."""

    def __init__(
        self, product: Convolution, tile: View, over: SummedAxes, *, is_rounded: bool = False
    ) -> None:
        """The walk over a convolution.

        Args:
            tile: axes of the tile.
            over: axes that the loop sums over.
            is_rounded: whether factors are rounded to TF32.
        """
        self.product, self.tile, self.over, self._is_rounded = product, tile, over, is_rounded
        self.moving = [sweep for sweep in product.sweeps if sweep.is_moving]
        self._tests = [test for sweep in self.moving for test in _tests(sweep)]
        self._is_pulled = _is_pulled(product, product.image)

    def image(self) -> WindowFactor:
        """The load of the image's tile, masked where the window leaves the image."""
        product, over = self.product, self.over
        # Pixels lie behind the image's spatial axes too.
        here = self._tile_axes(axes_of(product.image.index) | {product.pixels})
        starts = here | {s.at: AxisText(_start(s)) for s in product.sweeps}
        moves = over.image | {s.at: AxisText(s.move(over.taps[s.at])) for s in self.moving}
        # One variable, `inside`, tests pixels and spatial axes together.
        guarded = here | {s.at: AxisText(s.at, "", conditions=("inside",)) for s in product.sweeps}
        guarded[product.pixels] = replace(self.tile[product.pixels], conditions=("inside",))
        return self._load(product.image, guarded | over.image, (starts, moves), "image")

    def weights(self) -> WindowFactor:
        """The load of the weights' tile."""
        side, moves = self.product.weights, self.over.weights
        here = self._tile_axes(axes_of(side.index))
        return self._load(side, here | moves, (here, moves), "weights")

    @property
    def _is_shared(self) -> bool:
        """Whether image and weights read a value in common."""
        image, weights = (
            {name, *(ref for call in behind(self.product.program, [name]) for ref in call.refs())}
            for name in (self.product.image.value, self.product.weights.value)
        )
        return not image.isdisjoint(weights)

    def _tile_axes(self, met: set[str]) -> dict[str, AxisText]:
        return {axis: text for axis, text in self.tile.items() if axis in met}

    def _load(self, side: Side, view: View, walk: tuple[View, View], name: str) -> WindowFactor:
        """The lines that load and compute a factor's tile.

        Args:
            view: axes of the factor, with masks.
            walk: the axes where they start, and how far each has moved in the loop.
            name: of the variable, if something is computed after the load.
        """
        product = self.product
        is_plain = only_views(product.program, side.value, COPIES)
        # Tiles that are loaded as they are keep 16 bits for `tl.dot`.
        widens, loop = not (is_plain and self.over.is_narrow), view.keys() - {"b"}
        # Two tiles of one value need two names.
        tag = "_weights" if name == "weights" and self._is_shared else "_tile"
        if _is_pulled(product, side):
            body = product.body(view, loop=loop, tag=tag, widens=widens)
        else:
            body = _WalkBody(product, view, walk, loop=loop, tag=tag, widens=widens)
        dims = self.over.dims
        index = tuple(
            tuple(one for term in dim for one in dims.get(term.axis, (term,))) for dim in side.index
        )
        loaded = text = body.value(side.value, index)
        slices = parts(view, [sweep.at for sweep in product.sweeps if sweep.at in view])
        written = "\n".join([*body.before, *body.lines, text])
        is_whole = all(axis.suffix in written for axis in view.values())
        if not (is_plain and is_whole):
            # The mask also gives the tile the axes that a broadcast value lacks.
            if is_valid := mask(list(view), view):
                # What fused code makes of the zeros outside need not be zero.
                text = f"tl.where({is_valid}, {text}, 0.0)"
            if self.over.is_narrow and product.dtype != "float32":
                text += f".to(tl.{product.dtype})"
        if self._is_rounded:
            text = f"round_to_tf32({text})"
        if text == loaded:
            return WindowFactor(loaded, body.before, [*slices, *body.lines])
        return WindowFactor(name, body.before, [*slices, *body.lines, f"{name} = {text}"])

    def head(self, lines: list[str]) -> list[str]:
        """The lines before the loop: `lines`, which place the tile, then window starts and mask."""
        # Tests that no tap changes are computed here, once for all steps.
        starts = [
            f"{_start(sweep)} = {sweep.begin(text)}"
            for sweep, text in self.product.places(self.tile)
        ]
        slices = [line for line in parts(self.tile) if line not in lines]
        pixels = self.tile[self.product.pixels]
        known = f"{pixels.name}{pixels.suffix} < {self.product.pixels.upper()}"
        fixed = [test for s in self.product.sweeps if not s.is_moving for test in _tests(s)]
        # If no tap moves a test, the tests before the loop are the whole mask.
        name = "known" if self._tests else "inside"
        return [*lines, *slices, *starts, f"{name} = {all_of([known, *fixed])}"]

    def place(self) -> list[str]:
        """Lines in the loop that compute for which pixels the tap lies inside the image."""
        # Sliding pointers need no position; tests of edges and pulled values do.
        moved = [
            f"{s.at} = {shifted(_start(s), s.move(self.over.taps[s.at]))}"
            for s in self.moving
            if s.can_leave or self._is_pulled
        ]
        return [*moved, *([f"inside = {all_of(['known', *self._tests])}"] if self._tests else [])]


def _is_pulled(product: Convolution, side: Side) -> bool:
    """Whether an operator that moves elements stands in front of a factor.

    Pointers that slide by fixed distances cannot follow such an operator.
    """
    producers = product.program.producer()
    return any(name in producers for name, _ in sources(product.program, side.value, side.index))


def _start(sweep: Sweep) -> str:
    """Variable of the window's start, which is the position itself if there is one tap only."""
    return f"{sweep.at}_start" if sweep.is_moving else sweep.at


def _tests(sweep: Sweep) -> list[str]:
    """Conditions under which the position is in the image."""
    return [f"{sweep.at} >= 0", f"{sweep.at} < {sweep.symbol}"] if sweep.can_leave else []
