"""Renames the variables of shapes in order, so that shapes with equal structure become equal.

Plans use the result as a key: two histories with the same key have the same continuations.
"""

from collections.abc import Sequence, Set
from itertools import chain, count

from kernelwright.ops.forms.form import Shape
from kernelwright.ops.sizes import Linear, Size, SizeProduct, Var, evaluate, variables


def named_anew(
    shapes: Sequence[Shape], wanted: Shape = (), *, letter: str, hidden: Set[Var] = frozenset()
) -> tuple[tuple[Shape, ...], Shape]:
    """The shapes and the sizes `wanted` of other shapes, with variables renamed in order.

    A size with a variable that no other size has can take any value, independent of the others.
    Such a size becomes one new variable. In a sum, only the terms with such variables become one
    new variable, if they make the sum larger.

    Args:
        letter: the first letter of the new names.
        hidden: sizes that depend on these variables become new variables too.
    """
    # A set of sizes: one size in two places stays one size after the renaming, so it counts once.
    uses: dict[Var, set[Size]] = {}
    for size in chain(*shapes, wanted):
        for variable in variables(size):
            uses.setdefault(variable, set()).add(size)
    names: dict[Size, Size] = {}

    def name(size: Size) -> Size:
        new = names.get(size)
        if new is None:
            new = names[size] = Var(f"{letter}{len(names)}")
        return new

    def is_anything(term: Size) -> bool:
        return any(len(uses[variable]) == 1 for variable in variables(term))

    def renamed(size: Size) -> Size:
        if isinstance(size, int):
            return size
        if isinstance(size, Var) or not hidden.isdisjoint(variables(size)):
            return name(size)
        if not isinstance(size, Linear):
            return name(size) if is_anything(size) else evaluate(size, name)
        # "Known size plus a positive rest" is kept as such: the sum is then still known to be
        # larger than its known part, which later calls may contradict.
        known = [(term, factor) for term, factor in size.terms if not is_anything(term)]
        added = [(term, factor) for term, factor in size.terms if is_anything(term)]
        is_more = all(isinstance(term, Var | SizeProduct) and factor > 0 for term, factor in added)
        if is_more and (known or size.constant > 0):
            more = (name(size) if added else 0) + size.constant
            return sum((evaluate(term, name) * factor for term, factor in known), start=more)
        return name(size)

    asks = tuple([evaluate(size, name) for size in wanted])
    return tuple([tuple(map(renamed, shape)) for shape in shapes]), asks


def only_ones(
    shapes: Sequence[Shape], wanted: Shape = (), *, letter: str
) -> tuple[tuple[Shape, ...], Shape]:
    """The shapes with a new variable for nearly every size, and `wanted` unchanged.

    Two kinds of sizes stay: a size of 1, and a size with a variable that `wanted` has too. All
    other facts about sizes are dropped, so there are far fewer different keys.
    """
    asked = {variable for size in wanted for variable in variables(size)}
    numbers = count()

    def seen(size: Size) -> Size:
        if size == 1 or (asked and not asked.isdisjoint(variables(size))):
            return size
        return Var(f"{letter}{next(numbers)}")

    return tuple([tuple(map(seen, shape)) for shape in shapes]), wanted
