"""`kernelwright ops`: the operator table."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli.console import out, print_json
from kernelwright.cli.options import JsonOption
from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import REQUIRED, Operator, Param
from kernelwright.ops.registry import FAMILIES, operators

FamilyOption = Annotated[
    str | None,
    typer.Option("--family", metavar="FAMILY", help="Show the operators of this family alone."),
]


def command(family: FamilyOption = None, json: JsonOption = False) -> None:
    """Print the operators that kernelwright lowers, fuses and verifies by name."""
    if family is not None and family not in FAMILIES:
        raise UsageError(f"no family {family!r}", remedy=f"one of: {', '.join(FAMILIES)}")
    chosen = [o for o in operators().values() if family in (None, o.family)]
    if json:
        print_json([describe(operator) for operator in chosen])
        return
    for name in dict.fromkeys(operator.family for operator in chosen):
        out.print(_table(name, [operator for operator in chosen if operator.family == name]))
        out.print()
    out.print(f"{len(chosen)} operators")


def _table(family: str, chosen: list[Operator]) -> Table:
    """The operators of one family; calls are folded, never cut."""
    table = Table(title=family, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("operator", no_wrap=True)
    table.add_column("numerics", no_wrap=True)
    table.add_column("call", overflow="fold")
    for operator in chosen:
        table.add_row(operator.name, operator.numerics, Text(signature(operator)))
    return table


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
