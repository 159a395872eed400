"""Capturing a module with torch.export, its failures told as the user's file and line."""

import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from kernelwright.core.errors import UsageError
from kernelwright.ops.registry import by_aten
from kernelwright.programs import extern

_OURS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
"""Folders whose frames are not the user's code."""
BRANCH_REMEDY = (
    "make the choice when the module is built, or compute both sides and combine them with "
    "torch.where"
)


def export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> ExportedProgram:
    """The module's functional ATen graph at the shapes of these inputs.

    Composite operators (linear, layer_norm, softmax ...) stay whole.

    Raises:
        UsageError: the module cannot be captured; names the user's file and line.
    """
    try:
        # no_grad: kernels are for inference, and a mode change inside forward would split the graph
        with _quiet(), _recurrent_at_once(), torch.no_grad():
            exported = torch.export.export(module, args, dict(kwargs), strict=False)
            functional: ExportedProgram = exported.run_decompositions(_decompositions(exported))
            return functional
    except (Exception, SystemExit) as error:  # the user's forward may raise anything
        file, line = _user_frame(error)
        message, remedy = _explain(error)
        raise UsageError(message, file=file, line=line, remedy=remedy) from error


_COME_UP = (
    "aten.fill.Scalar", "aten.fill.Tensor", "aten.new_ones.default", "aten.new_zeros.default",
    "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
    "aten._unsafe_index_put.default", "aten._weight_norm_interface.default",
)  # fmt: skip
"""Overloads that decompositions and the removal of mutations make: no graph shows them before."""


def _decompositions(exported: ExportedProgram) -> dict[Any, Any]:
    """Composite overloads without an operator record (einsum, padding="same") fall apart into
    ones that may have one; recurrent layers would fall apart into a call for each step."""
    known = torch.export.default_decompositions()
    targets = {node.target for node in exported.graph.nodes if node.op == "call_function"}
    return {
        target: known[target]
        for target in targets.union(map(extern.overload, _COME_UP))
        if isinstance(target, torch._ops.OpOverload)
        and target in known
        and str(target) not in by_aten()
        and str(target) not in extern.RECURRENT
        and not target._schema.is_mutable
    }


@contextmanager
def _recurrent_at_once() -> Iterator[None]:
    """Results of recurrent layers told from shapes: the tracer would walk every step, twice,
    minutes of a long sequence, to find them."""
    table: dict[Any, Any] = torch._decomp.decomposition_table
    before = []
    for op in extern.RECURRENT:
        overload = extern.overload(op)
        shallow = _shapes_alone(op)
        before.append((overload, dict(overload.py_kernels), table[overload]))
        overload.py_kernels.update(dict.fromkeys(overload.py_kernels, shallow))
        overload._dispatch_cache.clear()
        table[overload] = shallow
    try:
        yield
    finally:
        for overload, kernels, decomposition in before:
            overload.py_kernels.clear()
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()
            table[overload] = decomposition


def _shapes_alone(op: str) -> Callable[..., tuple[torch.Tensor, ...]]:
    def shallow(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        named = zip((each.name for each in extern.schema_args(op)), args, strict=False)
        values = dict(named) | kwargs
        lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        return extern.recurrent_results(op, values | lists)

    return shallow


@contextmanager
def _quiet() -> Iterator[None]:
    """The tracer logs a page for every failure; the error we raise says it in two lines."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _explain(error: BaseException) -> tuple[str, str]:
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if any(sign in text for sign in ("data-dependent", "Data-dependent", "on meta tensors")):
        return "control flow or a size depends on the values of a tensor", BRANCH_REMEDY
    if "register it as buffer" in text:
        name = text.partition("Constant ")[2].partition(" ")[0]
        message = f"forward changes the tensor attribute {name!r}, which is not a buffer"
        return message, f"register it in __init__: self.register_buffer({name!r}, ...)"
    if "Unsupported input type" in text or "input type" in text.lower():
        return first, "pass tensors, numbers, flags, and lists, tuples or dicts of them"
    return (
        f"forward raised {type(error).__name__}: {first}",
        "call the module with these inputs in plain PyTorch first; its shapes and dtypes must fit",
    )


def _user_frame(error: BaseException) -> tuple[str | None, int | None]:
    """Innermost frame outside torch and this package, over the chain of causes."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    for link in reversed(chain):
        for frame in reversed(traceback.extract_tb(link.__traceback__)):
            if _is_users(frame.filename):
                return frame.filename, frame.lineno
    return None, None


def _is_users(file: str) -> bool:
    return not file.startswith(_OURS) and "/lib/python" not in file.replace("site-packages", "")


def location(node: torch.fx.Node) -> tuple[str | None, int | None]:
    """File and line of the user's code that a graph node comes from."""
    trace = node.meta.get("stack_trace") or ""
    for file, line in reversed(list(_frames(trace))):
        if _is_users(file):
            return file, line
    return None, None


def _frames(trace: str) -> Iterator[tuple[str, int]]:
    for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace):
        yield file, int(line)
