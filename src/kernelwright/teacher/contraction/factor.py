"""One factor of a matrix product: how the loop over the sum loads a step's tile of it."""

from dataclasses import replace

from kernelwright.teacher.contraction.parts import Product
from kernelwright.teacher.movement.rules import COPIES
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.index import (
    AxisText,
    View,
    axes_of,
    memory_order,
    offset,
    placed,
    times,
)
from kernelwright.teacher.tile.views import Side, only_views, sources


def factor_views(is_batched: bool) -> tuple[View, View]:
    """The axes of the left and of the right factor's tile: (m, k) and (k, n).

    Both views share the `parts` of "b" and "k", so a slice of such an axis has one variable.
    """
    batch: dict[str, AxisText] = {"b": AxisText("pid_b")} if is_batched else {}
    # Rows and columns have no bound, so masks test K alone: `accumulate` wraps the others around.
    m, k, n = AxisText("rows", "[:, None]"), AxisText("ks", "[None, :]", "K"), AxisText("cols")
    lhs = {**batch, "m": m, "k": k}
    rhs = {**batch, "k": replace(k, suffix="[:, None]"), "n": replace(n, suffix="[None, :]")}
    return lhs, rhs


class Factor:
    """Lines that load one factor's tile of a step in K; `text` is the variable that holds it."""

    def __init__(self, product: Product, side: Side, name: str, view: View, step: str) -> None:
        """The lines of one factor.

        Args:
            side: the factor, with its index over the product's axes.
            name: of the tile's variable, unless a load has named the variable already.
            view: axes of the tile.
            step: text of how far the loop moves along "k".

        Raises:
            NotWritable: the factor does not vary along "k" and the tile's other axis, or an
                operator that computes the factor has no kernel text.
        """
        self.view, self.text = view, name
        self.num_loads = 1
        """The number of loaded tiles from which the factor's tile is computed."""
        self.start: list[str] = []
        self.advance: list[str] = []
        made_of = [axes_of(index) for _, index in sources(product.program, side.value, side.index)]
        # "b" may be missing: then all batches share the factor.
        if not all(any(axis in axes for axes in made_of) for axis in view if axis != "b"):
            raise NotWritable("a factor that is a broadcast vector")
        self.is_plain = is_plain(product, side)
        if self.is_plain:
            self._walk(product, side, step)
        else:
            self._compute(product, side)

    def _walk(self, product: Product, side: Side, step: str) -> None:
        """Lines for a plain factor: pointers that move by a fixed stride at each step."""
        # Addresses are computed once; a step adds one number to them.
        name, suffix = self.text, self.view["k"].suffix
        [(value, index)] = sources(product.program, side.value, side.index)
        value_type = product.program.type_of(value)
        # `is_plain` has checked that "k" is one whole term, so there is one stride.
        [stride] = [s for t, s in placed(memory_order(index, value_type.layout)) if t.axis == "k"]
        start_view = {**self.view, "k": AxisText("offs_k", suffix)}
        self.start = [f"{name}_ptrs = {value}_ptr + {offset(index, start_view, value_type.layout)}"]
        # `offs_k` is the same in all steps. So the mask moves the bound, not the positions.
        self.load = [f"{name} = tl.load({name}_ptrs, mask=offs_k{suffix} < K - k, other=0)"]
        self.advance = [f"{name}_ptrs += {times(step, stride)}"]

    def _compute(self, product: Product, side: Side) -> None:
        """Lines for any other factor: the calls in front of the product, over a step's loads."""
        name, suffix = self.text, self.view["k"].suffix
        is_copy = only_views(product.program, side.value, COPIES)
        # Values that are only moved keep their dtype, as `tl.dot` takes 16-bit factors directly.
        body = product.body(self.view, loop="k", tag=f"_{name}", widens=not is_copy)
        text = body.value(side.value, side.index)
        written = "\n".join([*body.before, *body.lines, text])
        # Numbers, and repeats of a single row, have an axis in the program that their text lacks.
        if not all(dim.suffix in written for axis, dim in self.view.items() if axis != "b"):
            raise NotWritable("a factor that is a broadcast vector")
        self.start, self.num_loads = body.before, body.num_tiles
        if is_copy:
            self.text, self.load = text, body.lines
            return
        # What fused code makes of the zeros past K need not be zero.
        padded = f"tl.where(ks{suffix} < K, {text}, 0.0)"
        # Calls on a 16-bit factor are computed in fp32, but `tl.dot` takes the factor's own dtype.
        cast = "" if product.dtype == "float32" else f".to(tl.{product.dtype})"
        self.load = [*body.lines, f"{name} = {padded}{cast}"]


def is_plain(product: Product, side: Side) -> bool:
    """Whether the factor is an input, seen through views, in which "k" has a fixed stride."""
    inputs = list(sources(product.program, side.value, side.index))
    if len(inputs) != 1 or not only_views(product.program, side.value):
        return False
    [(value, index)] = inputs
    terms = placed(memory_order(index, product.program.type_of(value).layout))
    along = [term for term, _ in terms if term.axis == "k"]
    # Behind a reshape, "k" may walk a part of a dimension, which has no fixed stride.
    return len(along) == 1 and along[0].is_whole
