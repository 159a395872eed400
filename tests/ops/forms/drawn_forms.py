"""Calls drawn from forms with sizes filled in, and what PyTorch makes of them."""

import random
from dataclasses import replace
from typing import Any

import torch

from kernelwright.ops.forms.form import Arrangement, Form, ValueKind
from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Expr, Var, evaluate
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.initial import Uses
from kernelwright.programs.program import Program
from kernelwright.programs.reference import evaluate_call, make_inputs
from kernelwright.programs.tensors import dtype_name, meta_tensor


def choose(form: Form, rng: random.Random) -> dict[str, Any]:
    menus = form.menus.items()
    return {name: rng.choices(menu.values, menu.weights)[0] for name, menu in menus}


class Sizes:
    """A size for every variable, drawn when it is first asked for."""

    def __init__(self, rng: random.Random, largest: int) -> None:
        self._rng, self._largest = rng, largest
        self._drawn: dict[Var, int] = {}

    def __call__(self, variable: Var) -> int:
        return self._drawn.setdefault(variable, self._rng.randint(1, self._largest))

    def fill(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.fill, value))
        return evaluate(value, self) if isinstance(value, Expr) else value


def program(form: Form, arranged: Arrangement, sizes: Sizes) -> Program:
    """The call as a program of its own.

    Raises:
        ValueError: the operator refuses these sizes.
    """
    builder = Builder()
    values: dict[str, Any] = sizes.fill(tuple(arranged.attributes.values()))
    values = dict(zip(arranged.attributes, values, strict=True))
    for slot, shape in zip(form.slots, arranged.shapes, strict=True):
        ref = builder.input(TensorType(sizes.fill(shape), slot.kind.dtype))
        if operators()[form.op].param(slot.param).kind.is_sequence:
            values[slot.param] = (*values.get(slot.param, ()), ref)
        else:
            values[slot.param] = ref
    return builder.program(builder.call(form.op, **values))


def disagreement(
    form: Form, arranged: Arrangement, sizes: Sizes, made: Program, device: str = "meta"
) -> str:
    """How the form's results differ from the rule's or PyTorch's; nothing if they agree."""
    (call,) = made.calls
    said = [
        (sizes.fill(shape), kind)
        for shape, kind in zip(arranged.results, form.results, strict=True)
    ]
    ruled = [(result.shape, ValueKind(result.rank, result.dtype)) for result in call.types]
    tensors = evaluate_call(call, inputs(made, device))
    computed = [(tuple(t.shape), ValueKind(t.dim(), dtype_name(t.dtype))) for t in tensors]
    if said == ruled == computed:
        return ""
    return f"the form says {said}, the rule {ruled}, PyTorch on {device} {computed}"


def inputs(made: Program, device: str) -> dict[str, torch.Tensor]:
    """Tensors by name, within the operators' domains where they have values."""
    if device == "meta":
        return {value.name: meta_tensor(value.type) for value in made.inputs}
    uses = Uses(made)
    drawn = tuple(replace(v, init=uses.init(v.name) or v.init) for v in made.inputs)
    tensors = make_inputs(replace(made, inputs=drawn), 0, device)
    return {value.name: tensor for value, tensor in zip(made.inputs, tensors, strict=True)}
