"""Skeletons whose values stay in range; all others are refused before forms and sizes are drawn.

Three faults nearly always follow from which operators read which results. An operator gets values
outside its domain. A value leaves the range of its dtype. A result is one constant, whatever the
inputs are.

So a skeleton is *sound* if its plain program passes the checks that run nothing (`synth.quality`).
In a plain program each call has its first form and choice, and every free size is `SIZE`. Sizes of
one call need not agree with sizes of another. Inputs are drawn as those of a task are.

Soundness depends on the skeleton alone. So rejection of unsound skeletons leaves the relative
probabilities of the sound skeletons unchanged.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from random import Random
from typing import Any

from kernelwright.ops.forms.form import Arrangement, Form
from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Expr, evaluate
from kernelwright.programs.draws.ranges import value_range
from kernelwright.programs.program import Call, Input, Program, Ref
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import refusal_unrun
from kernelwright.synth.skeletons.calls import FittingForm
from kernelwright.synth.skeletons.skeleton import Skeleton, SkeletonCall, Skeletons

SIZE = 16
"""Plain programs have this number in place of every free size."""
MOST = 1000
"""The most skeletons that are drawn to get a sound one. With 20 calls about one in 20 is sound."""
_TRIED = 64
"""The most choices of a form that are tried to find one whose shapes go together."""
_KEPT = 1 << 14
"""The number of plain calls that the cache keeps."""


@dataclass(frozen=True, slots=True)
class _PlainCall:
    """A call of a skeleton in its first form and choice."""

    fit: FittingForm
    slots: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    attributes: tuple[tuple[str, Any], ...]

    def made(self, reads: list[str], results: list[str]) -> Call:
        """The call of a program, reading and making values of these names."""
        ranges: dict[str, Any] = {}
        for slot, name in zip(self.fit.form.slots, reads, strict=True):
            if operators()[self.fit.form.op].param(slot.param).kind.is_sequence:
                ranges[slot.param] = (*ranges.get(slot.param, ()), Ref(name))
            else:
                ranges[slot.param] = Ref(name)
        arguments = (*ranges.items(), *self.attributes)
        return Call(self.fit.form.op, arguments, tuple(results), self.results)


class SoundSkeletons:
    """Draws skeletons until one is sound."""

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons

    def sample(self, n: int, rng: Random) -> tuple[Skeleton | None, int]:
        """(A sound skeleton of n calls, number of skeletons drawn), in proportion to its weight.

        The skeleton is None if `MOST` skeletons in a row are not sound.

        Raises:
            ValueError: there is no skeleton of n calls.
        """
        for number in range(1, MOST + 1):
            skeleton = self._skeletons.sample(n, rng)
            if self.has(skeleton):
                return skeleton, number
        return None, MOST

    def has(self, skeleton: Skeleton) -> bool:
        return refusal_unrun(with_inits(self.plain_program(skeleton))) is None

    def plain_program(self, skeleton: Skeleton) -> Program:
        """The plain program of a skeleton (see the module's docstring).

        Each call has the types of its own plain call. A value that one call makes and another reads
        has the same rank and dtype in both, but the sizes may differ.
        """
        inputs: dict[str, Input] = {}
        calls: list[Call] = []
        named: set[str] = set()
        for index, call in enumerate(skeleton.calls):
            plain = _plain_call(self._skeletons.fits(call)[0])
            reads = list(_names(index, call, plain.fit))
            for name, read in zip(reads, plain.slots, strict=True):
                # A value that no earlier call made is an input. Two calls may read a shared input
                # with different sizes: the sizes of the first call are kept.
                if name not in named:
                    inputs.setdefault(name, Input(name, read))
            results = [_name(value) for value in call.results]
            named.update(results)
            calls.append(plain.made(reads, results))
        return Program(tuple(inputs.values()), tuple(calls), calls[-1].outputs)


def _names(index: int, call: SkeletonCall, fit: FittingForm) -> Iterator[str]:
    """The names of the values in the form's slots."""
    for slot, read in enumerate(fit.reads):
        yield f"own{index}.{slot}" if read is None else _name(call.values[read])


def _name(value: int) -> str:
    return f"value{value}"


@lru_cache(_KEPT)
def _plain_call(fit: FittingForm) -> _PlainCall:
    form = fit.form
    arranged = _first_arrangement(form)
    return _PlainCall(
        fit,
        tuple(
            TensorType(_sized(shape), slot.kind.dtype)
            for shape, slot in zip(arranged.shapes, form.slots, strict=True)
        ),
        tuple(
            TensorType(_sized(shape), kind.dtype)
            for shape, kind in zip(arranged.results, form.results, strict=True)
        ),
        tuple((name, _sized(value)) for name, value in arranged.attributes.items()),
    )


def _first_arrangement(form: Form) -> Arrangement:
    # In the order of the menus, so a form has one plain call in every process.
    choices = product(*(menu.values for menu in form.menus.values()))
    for values in islice(choices, _TRIED):
        try:
            return form.arrange(dict(zip(form.menus, values, strict=True)))
        except ValueError:
            continue
    raise ValueError(f"{form.op}: none of its first {_TRIED} choices goes together")


def _sized(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_sized, value))
    return evaluate(value, lambda _: SIZE) if isinstance(value, Expr) else value


def is_constant(form: Form) -> bool:
    """Whether the form's first result is one constant for all inputs, as that of `ones_like` is.

    Values are never NaN, so `isnan` has a constant result too.
    """
    plain = _plain_call(FittingForm(form, (None,) * len(form.slots)))
    names = [f"x{slot}" for slot in range(len(form.slots))]
    call = plain.made(names, [f"t{result}" for result in range(len(form.results))])
    inputs = tuple(map(Input, names, plain.slots))
    low, high = value_range(Program(inputs, (call,), call.outputs), call)
    return low == high
