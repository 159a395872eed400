"""Capturing a module with torch.export, its failures told as the user's file and line."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import torch
from torch.export import ExportedProgram

from kernelwright.programs import extern
from kernelwright.programs.capture.failures import explained
from kernelwright.programs.capture.structures import Boundary
from kernelwright.programs.lowering.decompositions import decomposed


def export(boundary: Boundary, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ExportedProgram:
    """The functional ATen graph of a boundary and its module at the shapes of these inputs.

    Composite operators (linear, layer_norm, softmax ...) stay whole.

    Raises:
        UsageError: the module cannot be captured; names the user's file and line.
    """
    try:
        # no_grad: kernels are for inference, and a mode change inside forward would split the graph
        with _quiet(), _recurrent_at_once(), torch.no_grad():
            return decomposed(torch.export.export(boundary, args, dict(kwargs), strict=False))
    except (Exception, SystemExit) as error:  # the user's forward may raise anything
        raise explained(error, boundary.inner, args, kwargs) from error


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
        named = zip((arg.name for arg in extern.schema_args(op)), args, strict=False)
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
