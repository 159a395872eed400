"""Operands that broadcast: axes aligned from the right, 1 in the place of some."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

from kernelwright.ops.forms.form import BroadcastAxis, Choice, Menu, Shape
from kernelwright.ops.forms.maker import Attributes, Operands
from kernelwright.ops.sizes import Var


class Aligned:
    """Shapes of operands that broadcast; a menu for each axis that several of them have."""

    def __init__(self, ranks: Sequence[int], weights: tuple[int, int]) -> None:
        """Shapes of operands of these ranks.

        Args:
            weights: weight of an axis that all operands have, and of an axis that is 1 in some.
        """
        axes = range(max(ranks, default=0))
        present = [tuple(axis < rank for rank in ranks) for axis in axes]
        self.menus: Mapping[str, Menu] = {
            f"broadcast{axis}": _patterns(present[axis], weights)
            for axis in axes
            if sum(present[axis]) > 1
        }
        self._ranks = ranks
        self._sizes = tuple(Var(f"s{axis}") for axis in axes)
        self.axes = tuple(self._axis(axis, have) for axis, have in enumerate(present))

    def _axis(self, axis: int, present: Sequence[bool]) -> BroadcastAxis:
        slots = tuple(slot for slot, has in enumerate(present) if has)
        return BroadcastAxis(
            self._sizes[axis], slots, f"broadcast{axis}" if len(slots) > 1 else None
        )

    def shapes(self, choice: Choice) -> list[Shape]:
        """The shapes of all operands for a choice from the menus."""
        return [self._shape(i, rank, choice) for i, rank in enumerate(self._ranks)]

    def operands(self, choice: Choice) -> tuple[Sequence[Shape], Attributes]:
        """(shapes, no attributes) for a choice: `shapes` as a function of the type `Operands`."""
        return self.shapes(choice), {}

    def _shape(self, index: int, rank: int, choice: Choice) -> Shape:
        names = ((axis, f"broadcast{axis}") for axis in reversed(range(rank)))
        return tuple(
            self._sizes[axis] if name not in self.menus or choice[name][index] else 1
            for axis, name in names
        )


@cache
def _patterns(present: tuple[bool, ...], weights: tuple[int, int]) -> Menu:
    """The menu of an axis: which operands have the axis, where the others have size 1.

    Args:
        present: for each operand, whether its rank reaches the axis.
        weights: weight of the axis in all of these operands, and in some of them.
    """
    either = product(*((True, False) if has else (False,) for has in present))
    nonempty = tuple(pattern for pattern in either if any(pattern))
    # `weights` compare "all" with "some"; there are several patterns of "some" and one of "all".
    shared = weights[0] * (len(nonempty) - 1)
    return Menu(nonempty, tuple(weights[1] if p != present else shared for p in nonempty))


class Into:
    """Shapes of an operand that broadcasts to the last `rank` axes of `shape`. A menu for each axis
    chooses the full size or 1; `weights` are of these two."""

    def __init__(self, shape: Shape, rank: int, weights: tuple[int, int]) -> None:
        self._wide = shape[len(shape) - rank :]
        self.menus: Mapping[str, Menu] = {
            f"spread{axis}": Menu((True, False), weights) for axis in range(rank)
        }

    def before(self, *others: Shape) -> Operands:
        """This operand, then other operands of fixed shapes."""

        def operands(choice: Choice) -> tuple[tuple[Shape, ...], Attributes]:
            axes = enumerate(self._wide)
            shape = tuple(size if choice[f"spread{axis}"] else 1 for axis, size in axes)
            return (shape, *others), {}

        return operands
