"""Takes TorchInductor's Triton code for a program before any of it is compiled or run.

Inductor has a backend that writes Triton for the CPU. That backend needs no GPU, and its code
differs in the device alone. Sizes are symbols, so the code is for all shapes.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import torch
from torch._dynamo.device_interface import CpuInterface
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch._inductor import compile_fx, config
from torch._inductor.graph import GraphLowering
from torch.fx.experimental import _config as symbols

from kernelwright.core.errors import InfraError
from kernelwright.programs.program import Program
from kernelwright.programs.tensors import memory_format
from kernelwright.programs.text import parse, to_text
from kernelwright.sandbox.guest.stub_gpu import active_driver
from kernelwright.sandbox.shared.own_folders import own_folder

_SETTINGS = {"cpu_backend": "triton", "force_disable_caches": True}
_PLAINEST = """
import torch

def get_inputs():
    x0 = torch.randn((8,), dtype=torch.float32)
    return [x0]

def fused_operator(x0):
    t0 = torch.neg(x0)
    return [t0]
"""
"""A program that Inductor compiles wherever it compiles at all."""


class NotHarvested(Exception):
    """Inductor cannot compile the program, or would break it into several graphs."""


class _Taken(BaseException):
    """Ends the compilation once the code is there. As a BaseException it passes all handlers of
    Dynamo and Inductor, which catch Exception."""


@dataclass(frozen=True, slots=True)
class Harvest:
    """Inductor's code for a program."""

    code: str
    """The module that Inductor would compile."""
    inputs: tuple[str | None, ...]
    """For each argument of its `call`: the program's input, or None where it is a size."""


def harvest(program: Program) -> Harvest:
    """Inductor's code for a program of any size. Inputs take no memory.

    Raises:
        NotHarvested: Inductor cannot compile the program as one graph.
        InfraError: Inductor compiles nothing here, or could not write a file of its own.
    """
    try:
        return _harvest(program)
    except NotHarvested as error:
        # If even the plainest program fails, the fault is the installation's, not the program's.
        if why := _broken():
            raise InfraError(f"TorchInductor compiles nothing here: {why}") from error
        raise


@cache
def _broken() -> str:
    """The reason why Inductor fails even on the plainest program; empty if it does not."""
    try:
        _harvest(parse(_PLAINEST))
    except NotHarvested as error:
        return str(error)
    return ""


def _harvest(program: Program) -> Harvest:
    function, tensors = _function(program), [_unfilled(value) for value in program.inputs]
    codes: list[str] = []
    inputs: list[str | None] = []

    def keep_code(graph: GraphLowering) -> Any:
        codes.append(graph.codegen()[0].value)
        raise _Taken

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        inputs.extend(_input_of(str(node.target), program) for node in placeholders)
        return compile_fx.compile_fx(graph, examples)

    with _writing_triton(), mock.patch.object(GraphLowering, "compile_to_module", keep_code):
        # fullgraph: of a program in several graphs, only the first graph's code would be taken.
        try:
            compiled: Any = torch.compile(function, backend=backend, dynamic=True, fullgraph=True)
            compiled(*tensors)
        except _Taken:
            return Harvest(codes[0], tuple(inputs))
        except TorchDynamoException as error:
            why = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
            what = f"{type(why).__name__}: {why}"
            if isinstance(why, OSError | MemoryError):
                raise InfraError(f"TorchInductor: {what}") from error
            raise NotHarvested(what) from error
    raise NotHarvested("it has nothing to compile")


@contextmanager
def _writing_triton() -> Iterator[None]:
    """Within this context Inductor writes Triton for the CPU, and keeps nothing from one program to
    the next."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder("inductor"))
        stack.enter_context(mock.patch.dict("os.environ", TORCHINDUCTOR_CACHE_DIR=str(folder)))
        stack.enter_context(config.patch(_SETTINGS))
        # Equal sizes must get symbols of their own: they are equal by chance.
        stack.enter_context(mock.patch.object(symbols, "use_duck_shape", False))
        for name in ("is_triton_capable", "raise_if_triton_unavailable"):
            stack.enter_context(mock.patch.object(CpuInterface, name, return_value=True))
        stack.enter_context(active_driver())
        torch._dynamo.reset()
        yield


def _function(program: Program) -> Any:
    space: dict[str, Any] = {}
    exec(compile(to_text(program), "program", "exec"), space)
    return space["fused_operator"]


def _unfilled(value: Any) -> torch.Tensor:
    """A tensor of the input's type. Nobody reads or writes it, so the system maps no memory."""
    input_type = value.type
    layout = memory_format(input_type.layout.value, len(input_type.shape))
    return torch.empty(
        input_type.shape, dtype=getattr(torch, input_type.dtype), memory_format=layout
    )


def _input_of(placeholder: str, program: Program) -> str | None:
    """The program's input, "x0", for a placeholder "L_x0_", or "L_args_0_" in PyTorch 2.11. None
    for a size's placeholder."""
    if not placeholder.startswith("L_"):
        return None
    name = placeholder[2:-1]
    place = re.fullmatch(r"args_(\d+)", name)
    return program.inputs[int(place[1])].name if place else name
