"""Decides which ATen calls are decomposed into others, by PyTorch's own tables.

A composite call without an operator record is decomposed wherever PyTorch can, because its parts
may have records. A pointwise call is decomposed only if all its parts have records. Whole, the call
is one kernel in PyTorch; parts without records would be several.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from kernelwright.core.errors import KernelwrightError
from kernelwright.ops.operator import Numerics
from kernelwright.ops.registry import by_aten
from kernelwright.programs import extern
from kernelwright.programs.lowering.aten import Translator
from kernelwright.programs.rewrites.einsum import as_product

Table = dict[torch._ops.OpOverload, Callable[..., Any]]

_COME_UP = (
    "aten.fill.Scalar", "aten.fill.Tensor", "aten.new_ones.default", "aten.new_zeros.default",
    "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
    "aten._unsafe_index_put.default", "aten._weight_norm_interface.default",
)  # fmt: skip
"""Overloads that decompositions and the removal of mutations often make: known at once, they cost
no second run."""
_CHECKED = frozenset(
    f"aten.linalg_{name}.default"
    for name in ("cholesky", "inv", "ldl_factor", "lu_factor", "solve")
)
"""Overloads that check their results. Apart, the check would be an effect that needs an order."""
_INEXACT = frozenset({"aten._scaled_dot_product_flash_attention_for_cpu.default"})
"""Overloads whose decompositions give another second result than the call: scores in the place of
the logarithms of their sums, which the backward call reads."""


def decomposed(exported: ExportedProgram) -> ExportedProgram:
    """The functional graph of a capture, with its composite calls decomposed.

    A decomposition may make calls that must be decomposed too, which only a run shows. So the run
    is repeated with a larger table until no new call appears.
    """
    known: Table = torch.export.default_decompositions()  # type: ignore[assignment]
    einsum = torch.ops.aten.einsum.default
    known[einsum] = partial(as_product, otherwise=known[einsum])
    known[torch.ops.aten.eye.default] = known[torch.ops.aten.eye.m] = _identity
    table = _composites({*_targets(exported), *map(extern.overload, _COME_UP)}, known)
    while True:
        functional: ExportedProgram = exported.run_decompositions(dict(table))
        further = _composites(set(_targets(functional)), known)
        further |= _pointwise(functional, known)
        if further.keys() <= table.keys():
            return functional
        table |= further


def _identity(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> torch.Tensor:
    """torch.eye(n, m). PyTorch's own decomposition counts in uint16, for which the GPU has no
    `arange`."""
    rows = torch.arange(n, device=device)
    columns = torch.arange(n if m is None else m, device=device)
    return (rows.unsqueeze(-1) == columns).to(dtype or torch.get_default_dtype())


def _targets(exported: ExportedProgram) -> Iterator[torch._ops.OpOverload]:
    return (node.target for node in _calls(exported))


def _calls(exported: ExportedProgram) -> Iterator[Any]:
    """Nodes that call an overload without a record."""
    for node in exported.graph.nodes:
        is_call = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
        if is_call and str(node.target) not in by_aten():
            yield node


def _composites(targets: set[torch._ops.OpOverload], known: Table) -> Table:
    """The decompositions of those overloads that should be decomposed.

    Recurrent layers stay whole: their decompositions make calls for each step of a sequence.
    """
    return {
        target: known[target]
        for target in targets
        if target in known
        and str(target) not in by_aten()
        and str(target) not in extern.RECURRENT
        and str(target) not in _CHECKED | _INEXACT
        and not target._schema.is_mutable
    }


def _pointwise(exported: ExportedProgram, known: Table) -> Table:
    """The decompositions of pointwise overloads, if every call in the graph ends in records.

    A table knows overloads and not calls, so all calls of an overload are decomposed or none.
    """
    calls: dict[torch._ops.OpOverload, list[Node]] = {}
    for node in _calls(exported):
        if torch.Tag.pointwise in node.target.tags and node.target not in known:
            calls.setdefault(node.target, []).append(node)
    table = _all_pointwise(known) if calls else {}
    return {
        target: table[target]
        for target, nodes in calls.items()
        if target in table and all(_ends_in_records(node, table) for node in nodes)
    }


def _all_pointwise(known: Table) -> Table:
    """PyTorch's decompositions for code generators, before those that only define a call."""
    from torch._inductor.decomposition import decompositions  # seconds, and seldom needed

    tables = torch._decomp.decomposition_table | decompositions | known
    return {
        target: decomposition
        for target, decomposition in tables.items()
        if isinstance(target, torch._ops.OpOverload)
        and torch.Tag.pointwise in target.tags
        and str(target) not in by_aten()
    }


def _ends_in_records(node: Node, table: Table) -> bool:
    """Whether all parts of a decomposed call have records, and round no more than the call.

    In a 16-bit dtype each part rounds its result, but the whole call rounds only once. So all parts
    must be exact there.
    """
    tensors = [operand for operand in node.all_input_nodes if "val" in operand.meta]

    def call(*values: Any) -> Any:
        of = dict(zip(tensors, values, strict=True))
        args = torch.fx.map_arg(node.args, of.__getitem__)
        return node.target(*args, **torch.fx.map_arg(node.kwargs, of.__getitem__))  # type: ignore[operator]

    translator = Translator()
    try:
        traced = make_fx(call, table)(*(operand.meta["val"] for operand in tensors))
        for part in traced.graph.nodes:
            if part.op == "placeholder":
                translator.declare(part, part.name)
            elif part.op == "call_function":
                translator.translate(part)
    except (KernelwrightError, RuntimeError, NotImplementedError):
        return False
    values = (operand.meta["val"] for operand in tensors)
    is_narrow = any(value.dtype in (torch.float16, torch.bfloat16) for value in values)
    return all(
        not emitted.is_extern and (not is_narrow or emitted.operator.numerics is Numerics.EXACT)
        for emitted in translator.builder.calls
    )
