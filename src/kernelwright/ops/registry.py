"""The operator table: name -> record, ATen overload -> record, PyTorch callable -> record."""

from functools import cache
from importlib import import_module

from kernelwright.ops.operator import Operator
from kernelwright.ops.traits import Trait

FAMILIES = (
    "pointwise", "reduction", "scan", "matrix", "shape", "indexing", "normalization",
    "pooling", "convolution", "loss", "attention", "random", "creation",
    "sorting", "scatter",
)  # fmt: skip
"""One module of `kernelwright.ops` each; a module defines `OPERATORS: tuple[Operator, ...]`."""


@cache
def operators() -> dict[str, Operator]:
    """Every operator by name, in the order of FAMILIES.

    Raises:
        ValueError: two records have one name, or a record names another family than its module.
    """
    table: dict[str, Operator] = {}
    for family in FAMILIES:
        for operator in import_module(f"kernelwright.ops.{family}").OPERATORS:
            if operator.name in table:
                raise ValueError(f"operator {operator.name!r} is registered twice")
            if operator.family != family:
                raise ValueError(f"operator {operator.name!r} says family {operator.family!r}")
            table[operator.name] = operator
    return table


@cache
def names_with(*traits: Trait) -> frozenset[str]:
    """Names of the operators that have at least one of the traits."""
    return frozenset(name for name, op in operators().items() if op.traits & set(traits))


@cache
def by_aten() -> dict[str, Operator]:
    """ATen overload name ("aten.relu.default") -> operator.

    Raises:
        ValueError: an overload belongs to two operators.
    """
    table: dict[str, Operator] = {}
    for operator in operators().values():
        for overload in operator.aten:
            if overload in table:
                raise ValueError(
                    f"{overload} belongs to {table[overload].name} and {operator.name}"
                )
            table[overload] = operator
    return table


@cache
def by_call() -> dict[str, tuple[Operator, ...]]:
    """PyTorch callable ("torch.max") -> operators that canonical text prints as this call."""
    table: dict[str, tuple[Operator, ...]] = {}
    for operator in operators().values():
        table[operator.call] = (*table.get(operator.call, ()), operator)
    return table
