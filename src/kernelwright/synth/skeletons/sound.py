"""Skeletons whose values keep in range; the others are refused before anything is made of them.

Whether an operator leaves its domain, a value its dtype, or a result is one number whatever the
inputs are, is nearly always decided by which operators read from which. So a skeleton is *sound* if
its plain program passes the checks that run nothing (`synth.quality`): each call in its first form
and choice, every size that is free `SIZE`, sizes of one call not held against those of others,
inputs drawn as a task's are.

Sound or not is a fact about a skeleton alone. Drawn until one is sound, skeletons are therefore
distributed over the sound ones as they were over all.
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
"""Every free size of a plain program."""
MOST = 1000
"""Skeletons drawn for a sound one. Of 20 calls about one in 20 is."""
_TRIED = 64
"""Choices of a form looked at for one that goes together."""
_KEPT = 1 << 14
"""Plain calls."""


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
    """The sound ones among all skeletons."""

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons

    def sample(self, n: int, rng: Random) -> tuple[Skeleton | None, int]:
        """A sound skeleton of n calls, with probability in proportion to its weight, and how many
        were drawn for it; None where `MOST` are not sound.

        Raises:
            ValueError: there is no skeleton.
        """
        for number in range(1, MOST + 1):
            skeleton = self._skeletons.sample(n, rng)
            if self.has(skeleton):
                return skeleton, number
        return None, MOST

    def has(self, skeleton: Skeleton) -> bool:
        return refusal_unrun(with_inits(self.plain_program(skeleton))) is None

    def plain_program(self, skeleton: Skeleton) -> Program:
        """Its types are those that each call has for itself: what one call makes and the next reads
        agree in rank and dtype."""
        inputs: dict[str, Input] = {}
        calls: list[Call] = []
        named: set[str] = set()
        for index, call in enumerate(skeleton.calls):
            plain = _plain_call(self._skeletons.fits(call)[0])
            reads = list(_names(index, call, plain.fit))
            for name, read in zip(reads, plain.slots, strict=True):
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
    """Whether the form's first result is one number, whatever it reads: ones, what is never NaN."""
    plain = _plain_call(FittingForm(form, (None,) * len(form.slots)))
    names = [f"x{slot}" for slot in range(len(form.slots))]
    call = plain.made(names, [f"t{result}" for result in range(len(form.results))])
    inputs = tuple(map(Input, names, plain.slots))
    low, high = value_range(Program(inputs, (call,), call.outputs), call)
    return low == high
