"""Where an arrangement meets the values it reads: its named sizes are theirs."""

from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.ops.forms.form import Shape
from kernelwright.ops.sizes import Expr, Size, SizeProduct, Var, evaluate
from kernelwright.synth.sizes.equations import Contradiction, Equations


class Named:
    """An arrangement's statement in other sizes: a name that has no size yet gets a variable."""

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
    """Ask that what is read has the shapes wanted, whose sizes are named.

    Args:
        read: None where an input of that shape is made.

    Raises:
        Contradiction: it does not.
    """
    known: dict[Var, Size] = {}
    others = []
    for have, want in zip(read, wanted, strict=True):
        if have is None:
            continue
        for size, name in zip(have, want, strict=True):
            if not isinstance(name, Var):
                others.append((size, name))
            elif known.setdefault(name, size) is not size:
                equations.equate(known[name], size)
    named = Named(known, variable)
    for size, other in others:
        equations.equate(size, named(other))
    return named


def check_size(size: Size, low: int, equations: Equations) -> None:
    """A size that was open when its value was made can be `low` or more: it has not become smaller
    only to fit a later call.

    Raises:
        Contradiction: it has, or will.
    """
    now = equations.solved(size)
    if not isinstance(now, Var | SizeProduct) and equations.ends(now, low)[1] < low:
        raise Contradiction(f"a free size became {now}")
