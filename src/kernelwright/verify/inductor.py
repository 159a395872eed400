"""torch.compile of a fragment: the competitor of its kernels."""

import linecache
import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

import torch

from kernelwright.programs.extern import RECURRENT, overload
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.program import Program
from kernelwright.timing.stages import stage
from kernelwright.verify.judging import Rules
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.sides import tf32_allowed

_numbers = count(1)


def program_function(program: Program) -> Callable[..., object]:
    """Returns the program's source text as a function, without our loop over its calls. Constants
    are made on the device of the inputs.

    Recurrent layers stay out of the graph, as torch.compile leaves those of a module to cuDNN:
    Inductor would compile a copy of each step.

    Dynamo needs the text in `linecache`. All functions without source share one wrapper of
    Dynamo's, which reaches the recompile limit after eight programs.
    """
    source = compose(program, []).source
    name = f"<kernelwright program {next(_numbers)}>"
    namespace: dict[str, Any] = {}
    for number, op in enumerate(sorted({call.op for call in program.calls} & RECURRENT.keys())):
        source = source.replace(f"torch.ops.{op}(", f"recurrent_{number}(")
        whole: Any = torch.compiler.disable(overload(op))  # type: ignore[no-untyped-call]
        namespace[f"recurrent_{number}"] = whole
    exec(compile(source, name, "exec"), namespace)
    function: Callable[..., object] = namespace["fused_operator"]
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    weakref.finalize(function, linecache.cache.pop, name, None)
    return function


@stage("torch.compile of a fragment")
def compiled_reference(task: Task, inputs: list[Any], rules: Rules) -> Callable[..., object] | None:
    """Returns the program of the task inside torch.compile, compiled for these inputs. None where
    there is no such competitor: the task has no program, torch.compile fails, or the program has a
    recurrent layer, which is no part of a full graph.

    Args:
        inputs: on the GPU. A call may change them.
    """
    if not isinstance(task, ProgramTask):
        return None
    function = program_function(task.program)
    compiled: Callable[..., object] = torch.compile(function, fullgraph=True, dynamic=False)
    try:
        with torch.no_grad(), tf32_allowed(rules.precision):
            compiled(*inputs)
    except Exception:  # whatever Inductor raises: the fragment is compared with PyTorch alone
        return None
    return compiled
