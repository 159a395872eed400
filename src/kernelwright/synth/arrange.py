"""From a skeleton to shapes in named sizes: forms, choices, and the equations between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kernelwright.ops.forms.form import Choice, Form, Kind, Menu, Shape
from kernelwright.ops.operator import Kind as ParamKind
from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Expr, Var, evaluate
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.synth.calls import places
from kernelwright.synth.equations import Contradiction, Equations
from kernelwright.synth.skeleton import Skeleton, SkeletonCall, Skeletons


@dataclass(frozen=True, slots=True)
class DraftCall:
    """A call with its form and choice decided. Values are numbered as the draft made them."""

    form: Form
    reads: tuple[int, ...]
    """The value in each slot of the form."""
    attributes: dict[str, Any]
    results: tuple[int, ...]


@dataclass(slots=True)
class Draft:
    """A program whose sizes are still open."""

    kinds: list[Kind] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    """Of every value, in variables that `equations` relates."""
    calls: list[DraftCall] = field(default_factory=list)
    equations: Equations = field(default_factory=Equations)
    _made: dict[int, int] = field(default_factory=dict)
    """Values of the skeleton -> of the draft."""
    _free: list[Expr] = field(default_factory=list)
    """Sizes that were open when their values were made."""

    def call(self, call: SkeletonCall, form: Form, choice: Choice) -> None:
        """The skeleton's next call, in this form.

        Raises:
            ValueError: the choice does not go together, or its sizes not with what it reads.
        """
        arrangement, prefix = form.arrange(choice), f"c{len(self.calls)}."
        first = len(self.kinds)

        def own(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(own, value))
            if isinstance(value, Expr):
                return evaluate(value, lambda variable: Var(prefix + variable.name))
            return value

        read, reads = call.reads, []
        for place, slot, shape in zip(places(form), form.slots, arrangement.shapes, strict=True):
            source = read.get(place)
            value = self._made.get(source) if source is not None else None
            if value is None:
                value = self._value(slot.kind, own(shape))
            else:
                self._equate(value, own(shape))
            reads.append(value)
            if source is not None:
                self._made[source] = value
        results = []
        for source, kind, shape in zip(
            call.results, form.results, arrangement.results, strict=True
        ):
            self._made[source] = self._value(kind, own(shape))
            results.append(self._made[source])
        attributes = {name: own(value) for name, value in arrangement.attributes.items()}
        self.calls.append(DraftCall(form, tuple(reads), attributes, tuple(results)))
        new = (self.equations.solved(size) for shape in self.shapes[first:] for size in shape)
        self._free += (size for size in new if isinstance(size, Expr))

    def check_free(self, low: int) -> None:
        """No size that was open has become a number below `low`, only to fit a later call.

        Raises:
            Contradiction: one has.
        """
        for size in self._free:
            now = self.equations.solved(size)
            if isinstance(now, int) and now < low:
                raise Contradiction(f"a free size became {now}")

    def _value(self, kind: Kind, shape: Shape) -> int:
        self.kinds.append(kind)
        self.shapes.append(shape)
        return len(self.kinds) - 1

    def _equate(self, value: int, shape: Shape) -> None:
        """The value has this shape too.

        Raises:
            Contradiction: it cannot.
        """
        for size, other in zip(self.shapes[value], shape, strict=True):
            self.equations.equate(size, other)

    def program(self, size_of: Callable[[Var], int]) -> Program:
        """The program with these sizes of the equations' roots.

        Raises:
            ValueError: an operator refuses them.
        """

        def sized(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(sized, value))
            if isinstance(value, Expr):
                return evaluate(self.equations.solved(value), size_of)
            return value

        builder = Builder()
        refs: dict[int, Ref] = {}
        for call in self.calls:
            for value in call.reads:
                if value not in refs:
                    made = TensorType(sized(self.shapes[value]), self.kinds[value].dtype)
                    refs[value] = builder.input(made)
            tensors = _arguments(call, [refs[value] for value in call.reads])
            attributes = {name: sized(value) for name, value in call.attributes.items()}
            results = builder.call(call.form.op, **tensors, **attributes)
            refs.update(zip(call.results, results, strict=True))
        return builder.program(results)


def arrange(skeleton: Skeleton, skeletons: Skeletons, low: int, rng: Random) -> Draft:
    """A draft of the skeleton: for each call a form and a choice, uniformly. No free size may be
    below `low`.

    Raises:
        ValueError: what was drawn does not go together; draw again.
    """
    draft = Draft()
    for call in skeleton.calls:
        form = rng.choice(skeletons.forms(call))
        choice = {name: _drawn(menu, rng) for name, menu in form.menus.items()}
        draft.call(call, form, choice)
    draft.check_free(low)
    return draft


def _drawn(menu: Menu, rng: Random) -> Any:
    if menu.weights is None:
        return rng.choice(menu.values)
    return rng.choices(menu.values, menu.weights)[0]


def _arguments(call: DraftCall, refs: Sequence[Ref]) -> dict[str, Any]:
    """The tensors of a call by parameter; a tuple where it takes a sequence."""
    arguments: dict[str, Any] = {}
    operator = operators()[call.form.op]
    for slot, ref in zip(call.form.slots, refs, strict=True):
        if operator.param(slot.param).kind is ParamKind.TENSORS:
            arguments[slot.param] = (*arguments.get(slot.param, ()), ref)
        else:
            arguments[slot.param] = ref
    return arguments
