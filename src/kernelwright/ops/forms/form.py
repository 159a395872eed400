"""Forms: the ways to call an operator, up to sizes.

A shape rule (`Operator.types`) says what a call with given sizes returns. A form is the same fact
read the other way: it names the sizes that the operands must have in common, so that a sampler can
draw calls the rule accepts. Every form is held against the rule in tests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from kernelwright.ops.operator import Operator
from kernelwright.ops.sizes import Size, Var

Shape = tuple[Size, ...]
Choice = Mapping[str, Any]
"""One value of each menu of a form, by the menu's name."""


class ValueKind(NamedTuple):
    """The rank and the dtype of a value, before the value has sizes."""

    rank: int
    dtype: str


class Slot(NamedTuple):
    """A place for a tensor in a call; a sequence of tensors has several slots of one parameter."""

    param: str
    kind: ValueKind
    reads_results: bool = True
    """Results of other calls may stand here. Parameters of layers (weights, statistics) and
    indices are inputs of the program always."""
    reads_inputs: bool = True
    """A new input of the program may stand here."""


@dataclass(frozen=True, slots=True)
class Menu:
    """Values of which one is drawn, with these weights or uniformly."""

    values: tuple[Any, ...]
    weights: tuple[int, ...] | None = None

    def draw(self, rng: Random) -> Any:
        """One value, drawn with `rng`."""
        if self.weights is None:
            return rng.choice(self.values)
        return rng.choices(self.values, self.weights)[0]


class BroadcastAxis(NamedTuple):
    """An axis along which operands broadcast."""

    size: Var
    """The size of the result and of the operands that have the axis. In the other operands the size
    is 1."""
    slots: tuple[int, ...]
    """That have the axis, by their places in the form."""
    menu: str | None
    """Whose values say for every slot whether it holds the size; None where only one can."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A form with a value chosen from each menu: all shapes, in named sizes."""

    shapes: tuple[Shape, ...]
    """One a slot, in order."""
    results: tuple[Shape, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes and numbers in the place of tensors; sizes in them are filled in last."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A way to call an operator, up to sizes: its operands, its results, and its choices."""

    op: str
    slots: tuple[Slot, ...]
    results: tuple[ValueKind, ...]
    menus: Mapping[str, Menu]
    arrange: Callable[[Choice], Arrangement]
    """The arrangement of a choice. Its variables' names are the form's own.

    Raises:
        ValueError: the values do not go together.
    """
    rule: Callable[[Sequence[Shape], Mapping[str, Any]], tuple[Shape, ...]]
    """Shapes of the slots, and attributes -> shapes of the results.

    Raises:
        ValueError: the operator refuses them.
    """
    axes: tuple[BroadcastAxis, ...] | None = None
    """Where operands broadcast and that is all there is to the shapes: the axes of the only
    result, from the last. All menus but theirs are attributes, or numbers in place of tensors."""


@dataclass(frozen=True, slots=True)
class FormSpace:
    """The dtypes, ranks and operators that forms may use."""

    max_rank: int = 5
    floats: tuple[str, ...] = ("float32", "float16", "bfloat16")
    menus: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    """Operator -> menu -> values, in place of those of the record or of the form. Attributes are
    menus by their names."""
    broadcast: tuple[int, int] = (8, 1)
    """Weights of an axis that all operands have, and of one that is 1 in some of them."""

    def values(self, op: str, name: str, otherwise: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of a menu: those of this space for the operator, or else `otherwise`."""
        return self.menus.get(op, {}).get(name, otherwise)

    def domain(self, operator: Operator, name: str) -> tuple[Any, ...]:
        """The values of an attribute: those of this space, else the record's, else its default."""
        param = operator.param(name)
        return self.values(operator.name, name, param.domain or (param.default,))
