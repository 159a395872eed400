"""The forms of all operators."""

from importlib import import_module

from kernelwright.ops.forms.form import Form, FormSpace
from kernelwright.ops.forms.maker import Maker, Writer
from kernelwright.ops.operator import Operator
from kernelwright.ops.registry import operators

_RANDOM = "draws random numbers: no two runs agree on the reference"
_OF_NOTHING = "reads no tensor: a result that is the same in every run tests no kernel"
_TIES = "where elements are equal, several answers are right"
_REPEATED = "where drawn indices repeat, PyTorch does not say which write stays"
_ATOMIC = "where drawn indices repeat, PyTorch on a GPU adds in an order that no two runs share"
EXCLUDED: dict[str, str] = {
    **dict.fromkeys(("dropout", "rand_like", "randn_like"), _RANDOM),
    **dict.fromkeys(("arange", "full"), _OF_NOTHING),
    **dict.fromkeys(("sort", "topk"), _TIES),
    **dict.fromkeys(("scatter", "scatter_value"), _REPEATED),
    **dict.fromkeys(("scatter_add", "index_put"), _ATOMIC),
}
"""Operators without forms -> why."""


def forms(space: FormSpace) -> tuple[Form, ...]:
    """Every form in the space, with operators in the order of the registry."""
    return tuple(
        form
        for operator in operators().values()
        if operator.name not in EXCLUDED
        for form in forms_of(operator, space)
    )


def forms_of(operator: Operator, space: FormSpace) -> tuple[Form, ...]:
    """The forms of one operator, always in the same order.

    Raises:
        KeyError, ModuleNotFoundError: the operator has no writer (see EXCLUDED).
    """
    family = import_module(f"kernelwright.ops.forms.{operator.family}")
    writer: Writer = family.WRITERS[operator.name]
    return tuple(writer(Maker(operator, space)))
