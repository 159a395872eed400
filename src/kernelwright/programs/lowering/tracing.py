"""Captures a module with torch.export. Failures name the user's file and line."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from kernelwright.core.errors import UsageError
from kernelwright.programs import extern
from kernelwright.programs.capture import structures
from kernelwright.programs.capture.failures import definition, explained
from kernelwright.programs.capture.state import matters
from kernelwright.programs.capture.structures import Boundary
from kernelwright.programs.lowering.decompositions import decomposed


def export(boundary: Boundary, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ExportedProgram:
    """The functional ATen graph of a boundary's module at the shapes of these inputs.

    Composite operators with a record (linear, layer_norm, softmax ...) stay whole.

    Raises:
        UsageError: the module cannot be captured; the error names the user's file and line.
    """
    try:
        # no_grad: kernels are for inference, and a mode change inside forward would split the graph
        with _quiet(), _recurrent_at_once(), torch.no_grad():
            return decomposed(torch.export.export(boundary, args, dict(kwargs), strict=False))
    except (Exception, SystemExit) as error:  # the user's forward may raise anything
        raise explained(error, boundary.inner, args, kwargs) from error


def check_state(boundary: Boundary, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Compares two calls, if forward changes attributes that no program carries.

    Tensors on the meta device have no values, so nothing is compared there.

    Args:
        boundary: a module that was captured.

    Raises:
        UsageError: the result of the second call is another.
    """
    module, changed = boundary.inner, boundary.changed_state
    tensors = [*module.parameters(), *module.buffers(), *pytree.tree_leaves((args, kwargs))]
    has_values = not any(isinstance(t, torch.Tensor) and t.is_meta for t in tensors)
    if not (changed and has_values):
        return
    with structures.kept(module):
        is_other = matters(module, args, kwargs, changed)
    if is_other:
        file, line = definition(module)
        raise UsageError(
            f"forward changes {', '.join(sorted(changed))}, and its next result depends on that",
            file=file,
            line=line,
            remedy="keep such a state in a buffer (register_buffer) of constant shape, or make it"
            " an input and a result of forward",
        )


@contextmanager
def _recurrent_at_once() -> Iterator[None]:
    """A context in which the results of recurrent layers are computed from shapes alone.

    The tracer would otherwise run every step of the sequence, twice, which takes minutes for a long
    sequence.
    """
    table: dict[Any, Any] = torch._decomp.decomposition_table
    before = []
    for op in extern.RECURRENT:
        overload = extern.overload(op)
        shallow = _shapes_alone(op)
        # The tables belong to PyTorch and are global: all entries are put back afterwards.
        before.append((overload, dict(overload.py_kernels), table[overload]))
        overload.py_kernels.update(dict.fromkeys(overload.py_kernels, shallow))
        # The cache holds the kernels that earlier calls used; it does not see the update above.
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
        named = zip((arg.name for arg in extern.schema_args(op)), args, strict=False)
        values = dict(named) | kwargs
        lists = {k: tuple(v) for k, v in values.items() if isinstance(v, list)}
        return extern.recurrent_results(op, values | lists)

    return shallow


@contextmanager
def _quiet() -> Iterator[None]:
    """A context without logs, warnings and stderr.

    The tracer logs a page for every failure. The error that `export` raises takes two lines.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
