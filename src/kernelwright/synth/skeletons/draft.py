"""A program whose sizes are still open: calls in forms and choices, and equations between sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kernelwright.ops.forms.form import Arrangement, Form, Shape, ValueKind
from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Expr, Size, Var, evaluate
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.meet import check_size, meet
from kernelwright.synth.skeletons.calls import FittingForm
from kernelwright.synth.skeletons.skeleton import SkeletonCall


@dataclass(frozen=True, slots=True)
class DraftCall:
    """A call with its form and choice. Values have numbers in the order in which the draft made
    them."""

    form: Form
    reads: tuple[int, ...]
    """The value in each slot of the form."""
    attributes: dict[str, Any]
    results: tuple[int, ...]


@dataclass(slots=True)
class Draft:
    """A growing list of calls, with equations between the sizes of the values that they share."""

    kinds: list[ValueKind] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    """The shape of every value, in variables that `equations` relates."""
    calls: list[DraftCall] = field(default_factory=list)
    equations: Equations = field(default_factory=Equations)
    _made: dict[int, int] = field(default_factory=dict)
    """Number of a value in the skeleton -> its number in the draft."""
    _free: dict[Size, None] = field(default_factory=dict)
    """Sizes that were open when their values were made."""
    _checked: tuple[int, int] = 0, 0
    """The numbers of bound variables and of sizes at the last check of the sizes."""
    _num_variables: int = 0

    def add(self, call: SkeletonCall, fit: FittingForm, arranged: Arrangement) -> None:
        """Appends the skeleton's next call, and equates its shapes with those of what it reads.

        Raises:
            Contradiction: the call's shapes do not agree with the values that it reads.
        """
        form = fit.form
        sources = [None if read is None else call.values[read] for read in fit.reads]
        reads = [None if source is None else self._made.get(source) for source in sources]
        read = [None if value is None else self.shapes[value] for value in reads]
        # An arrangement names sizes by variables of its own form. Without new names, two calls of
        # the same form would share their sizes.
        named = meet(read, arranged.shapes, self.equations, self._variable)
        first = len(self.shapes)
        for at, value in enumerate(reads):
            if value is None:
                reads[at] = value = self._value(
                    form.slots[at].kind, named.shape(arranged.shapes[at])
                )
                # A shared input: later calls of the skeleton read the same value.
                if (source := sources[at]) is not None:
                    self._made[source] = value
        results = []
        for source, kind, shape in zip(call.results, form.results, arranged.results, strict=True):
            self._made[source] = self._value(kind, named.shape(shape))
            results.append(self._made[source])
        attributes = {name: named(value) for name, value in arranged.attributes.items()}
        self.calls.append(DraftCall(form, tuple(reads), attributes, tuple(results)))  # type: ignore[arg-type]
        self._note_free(first)

    def sizes(self, source: int) -> Shape | None:
        """The sizes of a value of the skeleton, as far as known; None before a call has read or
        made it."""
        value = self._made.get(source)
        return None if value is None else tuple(map(self.equations.solved, self.shapes[value]))

    def check_free(self, low: int) -> None:
        """Checks that every size that was open when its value was made can still reach `low`.

        Sizes that a call itself sets to 1 are not open: an axis that broadcasts may stay 1.

        Raises:
            Contradiction: a later call has made such a size too small.
        """
        before, now = self._checked, (self.equations.num_bound, len(self._free))
        # Sizes change only when a variable is bound. Else those checked before need no new look.
        start = before[1] if before[0] == now[0] else 0
        for size in islice(self._free, start, None):
            check_size(size, low, self.equations)
        self._checked = now

    def _variable(self) -> Var:
        self._num_variables += 1
        return Var(f"n{self._num_variables}")

    def _value(self, kind: ValueKind, shape: Shape) -> int:
        self.kinds.append(kind)
        self.shapes.append(shape)
        return len(self.kinds) - 1

    def _note_free(self, first: int) -> None:
        for shape in self.shapes[first:]:
            for size in shape:
                # Only sizes that are open now can become too small later; numbers are checked once.
                if isinstance(size, Expr) and size not in self._free:
                    now = self.equations.solved(size)
                    if isinstance(now, Expr):
                        self._free[size] = None
                    elif now < 1:
                        raise Contradiction(f"a size of {now}")

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
                    input_type = TensorType(sized(self.shapes[value]), self.kinds[value].dtype)
                    refs[value] = builder.input(input_type)
            tensors = _arguments(call, [refs[value] for value in call.reads])
            attributes = {name: sized(value) for name, value in call.attributes.items()}
            results = builder.call(call.form.op, **tensors, **attributes)
            refs.update(zip(call.results, results, strict=True))
        return builder.program(results)


def _arguments(call: DraftCall, refs: Sequence[Ref]) -> dict[str, Any]:
    """The tensors of a call by parameter; a tuple where it takes a sequence."""
    arguments: dict[str, Any] = {}
    operator = operators()[call.form.op]
    for slot, ref in zip(call.form.slots, refs, strict=True):
        if operator.param(slot.param).kind.is_sequence:
            arguments[slot.param] = (*arguments.get(slot.param, ()), ref)
        else:
            arguments[slot.param] = ref
    return arguments
