"""The space of programs of a recipe, as a record. The coverage of a file is measured against this
record."""

from collections.abc import Iterable
from typing import Any

from kernelwright.core.record import Record
from kernelwright.ops.forms.form import Form, ValueKind
from kernelwright.ops.forms.registry import EXCLUDED, forms_of
from kernelwright.ops.operator import REQUIRED, Operator, Param
from kernelwright.ops.operator import ParameterKind as ParamKind
from kernelwright.ops.registry import operators
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.skeletons.sound import is_constant


def space_record(recipe: DrawRecipe) -> Record:
    """The space of programs of a recipe, as JSON.

    - operators: operator -> family.
    - attributes: operator -> attribute -> values, for attributes with several values.
    - kinds: the "dtype/rank" of every kind of value.
    - makes, reads: operator -> indices of `kinds` that the operator returns, and that it reads from
      other calls. A call of b can follow a call of a if a makes a kind that b reads.
    """
    usable = usable_forms(recipe)
    names = dict.fromkeys(form.op for form in usable)
    kinds = sorted({kind for form in usable for kind in (*form.results, *_read(form))}, key=_text)
    index = {kind: i for i, kind in enumerate(kinds)}
    makes: dict[str, set[int]] = {name: set() for name in names}
    reads: dict[str, set[int]] = {name: set() for name in names}
    for form in usable:
        makes[form.op].update(index[kind] for kind in form.results)
        reads[form.op].update(index[kind] for kind in _read(form))
    return {
        "operators": {name: operators()[name].family for name in names},
        "attributes": {name: _attributes(operators()[name], recipe) for name in names},
        "kinds": [_text(kind) for kind in kinds],
        "makes": {name: sorted(kind_numbers) for name, kind_numbers in makes.items()},
        "reads": {name: sorted(kind_numbers) for name, kind_numbers in reads.items()},
    }


def usable_forms(recipe: DrawRecipe) -> list[Form]:
    """The forms of the operators that a recipe allows.

    If values must stay in range (`recipe.quality.ranges`), operators with a constant result are
    left out.
    """
    wanted = (operator for operator in operators().values() if operator.name not in EXCLUDED)
    space = recipe.space()
    forms_by_operator = [
        forms_of(allowed, space) for allowed in wanted if recipe.weight(allowed.name)
    ]
    if recipe.quality.ranges:
        forms_by_operator = [
            forms for forms in forms_by_operator if forms and not is_constant(forms[0])
        ]
    return [form for forms in forms_by_operator for form in forms]


def _read(form: Form) -> Iterable[ValueKind]:
    return (slot.kind for slot in form.slots if slot.reads_results)


def _text(kind: ValueKind) -> str:
    return f"{kind.dtype}/{kind.rank}"


def _attributes(operator: Operator, recipe: DrawRecipe) -> dict[str, Any]:
    """Attribute -> its values, and its default if there is one."""
    return {
        param.name: {"values": recipe.space().domain(operator, param.name)} | _default(param)
        for param in operator.params
        if param.kind is ParamKind.ATTRIBUTE
        and (param.domain or param.name in recipe.menus.get(operator.name, {}))
    }


def _default(param: Param) -> dict[str, Any]:
    return {} if param.default is REQUIRED else {"default": param.default}
