"""`kernelwright ops`: the operator table."""

from typing import Annotated, Any

import typer
from rich.table import Table

from kernelwright.cli.console import out, print_json
from kernelwright.cli.options import JsonOption
from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import REQUIRED, Operator, Param
from kernelwright.ops.registry import FAMILIES, operators

FamilyOption = Annotated[str | None, typer.Option(help="Only the operators of one family.")]


def command(family: FamilyOption = None, json: JsonOption = False) -> None:
    """Print the operators kernelwright knows: what is lowered, fused and verified by name."""
    if family is not None and family not in FAMILIES:
        raise UsageError(f"no family {family!r}", remedy=f"one of: {', '.join(FAMILIES)}")
    chosen = [o for o in operators().values() if family in (None, o.family)]
    if json:
        print_json([describe(operator) for operator in chosen])
        return
    table = Table(title=f"{len(chosen)} operators", title_justify="left", box=None)
    for column in ("operator", "family", "call", "numerics"):
        table.add_column(column, no_wrap=column != "call")
    for operator in chosen:
        table.add_row(operator.name, operator.family, signature(operator), operator.numerics)
    out.print(table)


def signature(operator: Operator) -> str:
    """The call as PyTorch spells it: "torch.softmax(input, dim)"."""
    return f"{operator.call}({', '.join(map(_parameter, operator.params))})"


def _parameter(param: Param) -> str:
    return param.name if param.default is REQUIRED else f"{param.name}={param.default!r}"


def describe(operator: Operator) -> dict[str, Any]:
    """An operator's facts as JSON."""
    return {
        "name": operator.name,
        "family": operator.family,
        "signature": signature(operator),
        "parameters": [{"name": p.name, "kind": p.kind} for p in operator.params],
        "domains": dict(operator.domains),
        "numerics": operator.numerics,
        "aten": sorted(operator.aten),
        "num_outputs": operator.num_outputs,
    }
