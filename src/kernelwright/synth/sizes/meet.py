"""Equates the named sizes of an arrangement with the sizes of the values that a call reads."""

from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.ops.forms.form import Shape
from kernelwright.ops.sizes import Expr, Size, SizeProduct, Var, evaluate
from kernelwright.synth.sizes.equations import Contradiction, Equations


class Named:
    """Translates sizes of an arrangement into sizes of a draft.

    A name without a known size gets a new variable at its first use.
    """

    def __init__(self, known: dict[Var, Size], variable: Callable[[], Var]) -> None:
        self._known = known
        self._variable = variable

    def shape(self, shape: Shape) -> Shape:
        return tuple([self(size) for size in shape])

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Var):
            size = self._known.get(value)
            if size is None:
                size = self._known[value] = self._variable()
            return size
        if isinstance(value, tuple):
            return tuple(map(self, value))
        return evaluate(value, self) if isinstance(value, Expr) else value


def meet(
    read: Sequence[Shape | None],
    wanted: Sequence[Shape],
    equations: Equations,
    variable: Callable[[], Var],
) -> Named:
    """Adds the equations by which the values read have the wanted shapes.

    Args:
        read: the shape of the value in each slot; None for a new input, which takes any shape.
        wanted: the shape of each slot, in names of the arrangement.
        equations: receives the equations.
        variable: makes a new variable.

    Returns:
        The translation of the arrangement's names.

    Raises:
        Contradiction: the shapes cannot agree.
    """
    known: dict[Var, Size] = {}
    others = []
    for have, want in zip(read, wanted, strict=True):
        if have is None:
            continue
        for size, name in zip(have, want, strict=True):
            if not isinstance(name, Var):
                others.append((size, name))
            # `setdefault` returns the earlier size, if an operand before has named one.
            elif known.setdefault(name, size) is not size:
                equations.equate(known[name], size)
    # Names come first. An expression read earlier would get new variables for names that a later
    # operand fixes, and so more equations.
    named = Named(known, variable)
    for size, other in others:
        equations.equate(size, named(other))
    return named


def check_size(size: Size, low: int, equations: Equations) -> None:
    """Checks that a size that was open when its value was made can still be `low` or more.

    Raises:
        Contradiction: later calls leave only smaller sizes.
    """
    now = equations.solved(size)
    # A variable or a product has no upper bound yet, so both can always reach `low`.
    if not isinstance(now, Var | SizeProduct) and equations.ends(now, low)[1] < low:
        raise Contradiction(f"a free size became {now}")
