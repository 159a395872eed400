"""Makes forms from operands in named sizes; everything else comes from the operator's record.

Results come from the shape rule, which runs on named sizes. Menus come from the domains of
attributes. So a form adds one fact that no rule can tell: which operands go together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice, product
from typing import Any, cast

from kernelwright.ops.forms.form import (
    Arrangement,
    BroadcastAxis,
    Choice,
    Form,
    FormSpace,
    Menu,
    Shape,
    Slot,
    ValueKind,
)
from kernelwright.ops.operator import REQUIRED, Operator, TensorType
from kernelwright.ops.operator import ParameterKind as ParamKind
from kernelwright.ops.rules import is_float
from kernelwright.ops.sizes import Var

Attributes = Mapping[str, Any]
Operands = Callable[[Choice], tuple[Sequence[Shape], Attributes]]
"""Shapes of the slots, in order, and the attributes that depend on them. Shapes of optional
operands may follow; a form without their slots leaves them out."""
Writer = Callable[["Maker"], Iterator[Form]]
"""All forms of one operator."""

INTEGERS = ("int64", "bool")
"""Dtypes besides floats that results have."""

_TRIED = 8
"""Choices tried for one that the operator accepts, before a form counts as impossible."""


# Slots


@cache
def operand(param: str, rank: int, dtype: str, *, reads_inputs: bool | None = None) -> Slot:
    """A slot that takes the result of another call.

    Args:
        reads_inputs: whether a new input of the program may stand there too. If None, an input may
            if it has a floating-point dtype and dimensions.
    """
    usual = is_float(dtype) and rank > 0
    return Slot(
        param, ValueKind(rank, dtype), reads_inputs=usual if reads_inputs is None else reads_inputs
    )


@cache
def parameter(param: str, rank: int, dtype: str) -> Slot:
    """A slot for a layer's weight, or for indices, which is always an input of the program."""
    return Slot(param, ValueKind(rank, dtype), reads_results=False)


# Shapes


@cache
def sizes(letter: str, count: int) -> Shape:
    """`count` variables, named by the letter and a number: s0, s1, ..."""
    return tuple(Var(f"{letter}{i}") for i in range(count))


def replaced(shape: Shape, at: int, *others: Any) -> Shape:
    """`shape` with the sizes `others`, possibly none, in place of the size at index `at`."""
    return (*shape[:at], *others, *shape[at + 1 :])


def always(*shapes: Shape, **attributes: Any) -> Operands:
    """Operands whose shapes and attributes depend on no menu."""
    return lambda _: (shapes, attributes)


# Forms


@dataclass(frozen=True)
class Maker:
    """Makes the forms of one operator in one space."""

    operator: Operator
    space: FormSpace
    _defaults: Mapping[str, Any] = field(init=False, repr=False)
    _menus: Mapping[str, Menu] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Computes defaults and menus once for all forms of the operator."""
        params = self.operator.params
        is_optional = {p.name for p in params if p.kind is ParamKind.OPTIONAL_TENSOR}
        defaults = {p.name: None if p.name in is_optional else p.default for p in params}
        menus = {}
        for param in params:
            if param.kind is ParamKind.ATTRIBUTE:
                values = self.space.domain(self.operator, param.name)
                if values != (param.default,):
                    menus[param.name] = Menu(values)
        object.__setattr__(self, "_defaults", defaults)
        object.__setattr__(self, "_menus", menus)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of operands: the floats of the space, int64 and bool."""
        return (*self.space.floats, *INTEGERS)

    def ranks(self, low: int, high: int | None = None) -> range:
        """Ranks from `low`, to `high` or as far as the space goes."""
        top = self.space.max_rank
        return range(low, (top if high is None else min(high, top)) + 1)

    def inputs(self, low: int, dtypes: Sequence[str] = ()) -> Iterator[Slot]:
        """Yields the slot "input" in every rank from `low`, and in these dtypes or in all."""
        for rank in self.ranks(low):
            for dtype in dtypes or self.dtypes:
                yield operand("input", rank, dtype)

    def values(self, name: str, *otherwise: Any) -> tuple[Any, ...]:
        """The values of a menu that is no attribute: the space's, or else `otherwise`."""
        return self.space.values(self.operator.name, name, otherwise)

    def menu(self, name: str, *otherwise: Any) -> dict[str, Menu]:
        """A menu that is no attribute, as {name: menu}; the values are as in `values`."""
        return {name: Menu(self.values(name, *otherwise))}

    def each(self, name: str) -> Iterator[dict[str, Any]]:
        """Yields {name: value} for each value of an attribute, to be passed to `form` as `fixed`.

        An attribute is fixed if it decides the rank or the dtype of results.
        """
        for value in self.space.domain(self.operator, name):
            yield {name: value}

    def form(
        self,
        slots: Sequence[Slot],
        operands: Operands,
        menus: Mapping[str, Menu] | None = None,
        fixed: Attributes | None = None,
        *,
        axes: tuple[BroadcastAxis, ...] | None = None,
        results: tuple[ValueKind, ...] = (),
    ) -> Iterator[Form]:
        """Yields the form, or nothing if the space or the operator refuses it.

        Args:
            slots: places of tensors.
            operands: choice -> shapes of the slots, and attributes that depend on them.
            menus: menus besides those of attributes with a domain.
            fixed: attributes with one value, which is not drawn.
            axes: see `Form`.
            results: kinds of the results, if they are known; if not, the shape rule is run.
        """
        fixed = fixed or {}
        menus = {k: v for k, v in self._menus.items() if k not in fixed} | dict(menus or {})
        call = _NamedCall(
            self.operator, self._defaults, tuple(slots), operands, tuple(menus), fixed
        )
        results = results or self._results(call, menus)
        kinds = [*(slot.kind for slot in slots), *results]
        if results and max(kind.rank for kind in kinds) <= self.space.max_rank:
            yield Form(
                self.operator.name, call.slots, results, menus, call.arrange, call.rule, axes
            )

    def grouped(
        self,
        name: str,
        values: Sequence[Any],
        slots: Sequence[Slot],
        operands: Operands,
        menus: Mapping[str, Menu] | None = None,
        fixed: Attributes | None = None,
    ) -> Iterator[Form]:
        """Yields a form for each kind of results to which values of the menu `name` lead.

        The results of a form have one rank and one dtype, whatever is drawn from its menus.
        """
        groups: dict[tuple[ValueKind, ...], list[Any]] = {}
        for value in values:
            one = {**(menus or {}), name: Menu((value,))}
            for form in self.form(slots, operands, one, fixed):
                groups.setdefault(form.results, []).append(value)
        for group in groups.values():
            yield from self.form(
                slots, operands, {**(menus or {}), name: Menu(tuple(group))}, fixed
            )

    def _results(self, call: "_NamedCall", menus: Mapping[str, Menu]) -> tuple[ValueKind, ...]:
        """The kinds of the results of the first choice that the operator accepts.

        Returns:
            An empty tuple if none of the first choices is accepted, or if the result has a
            floating-point dtype that the space does not have.
        """
        choices = product(*(menu.values for menu in menus.values()))
        for values in islice(choices, _TRIED):
            try:
                types = call.results(*call.bound(dict(zip(menus, values, strict=True))))
            except ValueError:
                continue
            kinds = tuple(ValueKind(t.rank, t.dtype) for t in types)
            foreign = is_float(kinds[0].dtype) and kinds[0].dtype not in self.space.floats
            return () if foreign else kinds
        return ()


@dataclass(frozen=True, slots=True)
class _NamedCall:
    """A call in named sizes, with open choices from its menus."""

    operator: Operator
    defaults: Mapping[str, Any]
    slots: tuple[Slot, ...]
    operands: Operands
    menus: tuple[str, ...]
    fixed: Attributes

    def bound(self, choice: Choice) -> tuple[Sequence[Shape], dict[str, Any]]:
        """(shapes of the slots, attributes) for a choice."""
        shapes, depending = self.operands(choice)
        shapes = shapes[: len(self.slots)]
        chosen = {name: choice[name] for name in self.menus if name in self.defaults}
        return shapes, {**chosen, **self.fixed, **depending}

    def results(
        self, shapes: Sequence[Shape], attributes: Mapping[str, Any]
    ) -> tuple[TensorType, ...]:
        """The types of the results by the shape rule, which runs on named sizes as on ints."""
        bound = {**self.defaults, **attributes}
        for slot, shape in zip(self.slots, shapes, strict=True):
            operand = TensorType(cast("tuple[int, ...]", shape), slot.kind.dtype)
            if self.operator.param(slot.param).kind.is_sequence:
                before = bound[slot.param]
                bound[slot.param] = (operand,) if before is REQUIRED else (*before, operand)
            else:
                bound[slot.param] = operand
        return self.operator.types(bound)

    def arrange(self, choice: Choice) -> Arrangement:
        """The arrangement of a choice; see `Form.arrange`."""
        shapes, attributes = self.bound(choice)
        return Arrangement(tuple(shapes), self.rule(shapes, attributes), attributes)

    def rule(self, shapes: Sequence[Shape], attributes: Attributes) -> tuple[Shape, ...]:
        """Shapes of the results; see `Form.rule`."""
        return tuple(result_type.shape for result_type in self.results(shapes, attributes))
