"""A pool with long windows: each output is the reduction of a row, the elements of its window.

In the other forms, one thread walks a whole window. If the windows are long and the outputs few,
most threads of the GPU are idle, and neighbouring threads load elements that lie far apart. Here
the elements of a window lie side by side in a tile of outputs x elements, so that loads along the
last dimension are coalesced.
"""

from dataclasses import replace

from kernelwright.teacher.reduction.accumulators import COMBINED
from kernelwright.teacher.tile.index import AxisText, factor, times
from kernelwright.teacher.window.pool import PoolKernel
from kernelwright.teacher.window.slide import Slide


class RowPoolKernel(PoolKernel):
    """The kernel of a pool: tiles of BLOCK outputs x STEP elements of their windows."""

    @property
    def loop_name(self) -> str:
        """The plan's name of the loop."""
        return "window_rows"

    def _loop_view(self) -> dict[str, AxisText]:
        # Slices of the outputs' axis are the same variables in the loop and after the loop.
        out = replace(self.view["i"], suffix="[:, None]", parts=self.view["i"].parts)
        axes = {slide.at: _in_tile(slide) for slide in self.pool.window}
        outer = self.pool.window[0]
        tests = axes[outer.at].tests
        if not outer.adaptive and self.pool.length % self.blocks.tiles["STEP"]:
            # Steps past the window's end would be positions below the window. The end of an
            # adaptive window already excludes these.
            tests.append(f"step < {self.pool.length}")
        axes[outer.at] = replace(axes[outer.at], bound="", conditions=tuple(tests))
        return {"i": out, **axes}

    def _gathered_windows(self) -> list[str]:
        window = self.pool.window
        length = times(*(slide.length for slide in window))
        if self.pool.kind == "max":
            combine = COMBINED["amax"]
            combined = f"pooled = tl.reduce(pooled, combine_fn={combine}, axis=1)"
        else:
            combined = "pooled = tl.sum(pooled, axis=1)"
        steps = ["step = first + tl.arange(0, STEP)[None, :]", *self._places(), *self.step_lines()]
        return [
            f"pooled = tl.full((BLOCK, STEP), {self.neutral}, dtype=tl.float32)",
            f"for first in range(0, {length}, STEP):",
            *(f"    {line}" for line in steps),
            combined,
        ]

    def _places(self) -> list[str]:
        """The lines that compute the positions of the tile's elements along each dimension."""
        lines, window = [], self.pool.window
        for place, slide in enumerate(window):
            inner = times("1", *(one.length for one in window[place + 1 :]))
            text = "step" if inner == "1" else f"step // {factor(inner)}"
            if place > 0:
                text += f" % {slide.length}"
            if slide.dilation not in (None, 1):
                text += f" * {slide.dilation}"
            lines.append(f"{slide.at} = {slide.at}_start[:, None] + {text}")
        return lines


def _in_tile(slide: Slide) -> AxisText:
    """The position along a dimension in a tile of outputs x elements."""
    # The end of an adaptive window differs from output to output: it is a column of the tile.
    return replace(slide.axis, bound=f"{slide.at}_end[:, None]") if slide.adaptive else slide.axis
