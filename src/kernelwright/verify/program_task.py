"""A program as a task: its inputs and results come from `programs.reference`."""

from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.verify.task import Call, Task


@dataclass(frozen=True, kw_only=True)
class ProgramTask(Task):
    """A flat program; a candidate answers it with `fused_operator`."""

    name: str
    program: Program
    entry: str = "fused_operator"

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        return list(make_inputs(self.program, seed, device))

    def inputs(self, seed: int, family: str, device: torch.device) -> list[Any]:
        """Only inputs without a domain of their own take the family's distribution."""
        return list(make_inputs(self.program, seed, device, family))

    def reference(self, device: torch.device, *, double: bool = False) -> Call:  # noqa: ARG002
        return lambda *tensors: run(self.program, tensors)


def program_task(program: Program, name: str = "program") -> ProgramTask:
    return ProgramTask(name=name, program=program)


def for_interpreter(task: ProgramTask) -> ProgramTask:
    """The task at sizes Triton's interpreter gets through; itself where it is small enough."""
    return task


def shape_variants(task: Task, device: torch.device) -> dict[str, ProgramTask]:
    """Tasks of the same structure at other sizes, by name; none where sizes cannot be changed."""
    return {}
