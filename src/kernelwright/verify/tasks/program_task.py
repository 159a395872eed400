"""A program as a task: its inputs and results come from `programs.reference`."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelwright.lint.gaps import FLOOR_ULPS
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import (
    aligned_variants,
    enlarged,
    larger_variant,
    num_bytes,
    same_attributes,
    scaled_down,
    shape_variants,
)
from kernelwright.programs.tensors import meta_tensor, torch_dtype
from kernelwright.verify.tasks.oracle import check_cast, rounded_somehow, seeded
from kernelwright.verify.tasks.task import InputChange, NudgesOf, Task, chained
from kernelwright.verify.values.live import Callee

NUM_SHAPES = 2
"""Small shape variants a candidate is judged at, besides the shapes it was written for."""
INTERPRETER_FLOPS = 1 << 23
"""The FLOPs that Triton's interpreter does in about a second, tile by tile."""
INTERPRETER_ELEMENTS = 1 << 14
"""The most elements of a program's largest value. The interpreter takes a millisecond for each
program instance of a kernel, however little that instance computes, and a verdict needs some thirty
calls."""
INT32_ELEMENTS = (1 << 31) + 1
"""The least number of elements at which the last offset is negative in 32 bits."""
CAST = "to_dtype"
"""The operator that casts a tensor."""
LARGE_HEADROOM = 7
"""Memory that judging takes at most, as a multiple of the program's values: the host's fp64 copies,
the guest's inputs and outputs, what is shared between them."""


@dataclass(frozen=True, kw_only=True)
class ProgramTask(Task):
    """A flat program; a candidate answers it with `fused_operator`."""

    name: str
    program: Program
    entry: str = "fused_operator"
    text: str = ""
    change: InputChange | None = None
    """Changes drawn inputs, in a variant with other constants."""

    def with_inputs(self, change: InputChange) -> "ProgramTask":
        """Returns the same program on inputs that are changed further."""
        return replace(self, change=chained(self.change, change))

    def example(self, device: torch.device) -> list[Any]:  # noqa: ARG002
        return [meta_tensor(value.type) for value in self.program.inputs]

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        return self.inputs(seed, "plain", device)

    def inputs(self, seed: int, family: str, device: torch.device) -> list[Any]:
        """Draws inputs as the family says. Inputs with a domain of their own follow some families
        only."""
        drawn = list(make_inputs(self.program, seed, device, family))
        return drawn if self.change is None else self.change(drawn, seed)

    def reference(self, device: torch.device, *, double: bool = False) -> Callee:  # noqa: ARG002
        # `run` computes in the dtypes of its inputs, so fp64 inputs give the fp64 answer.
        return lambda *tensors: run(self.program, tensors)

    def _rounded(
        self,
        inputs: list[Any],
        seed: int,
        device: torch.device,
        nudges: NudgesOf,
        finest: torch.dtype,  # noqa: ARG002
    ) -> tuple[torch.Tensor, ...]:
        """Rounds each result to the type that the program gives the result, instead of `finest`."""

        def rounded(call: Call, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            dtypes = [torch_dtype(result_type.dtype) for result_type in call.types]
            # Any kernel rounds a cast in the same way, to nearest, so a cast has no other rounding.
            if call.op == CAST:
                check_cast(dtypes[0], nudges(torch.float32))
                return results
            return tuple(
                rounded_somehow(value, nudges(dtype)) if dtype in FLOOR_ULPS else value
                for value, dtype in zip(results, dtypes, strict=True)
            )

        with seeded(seed, device):
            return tuple(run(self.program, inputs, torch.float64, rounded))


def program_task(program: Program, name: str = "program") -> ProgramTask:
    """Returns the task of a program."""
    return ProgramTask(name=name, program=program)


def for_interpreter(task: ProgramTask, *, is_generic: bool) -> ProgramTask:
    """Returns the task at sizes that Triton's interpreter can run in time.

    The task itself is returned where it is small enough, or where smaller sizes would change an
    attribute that the candidate may spell out.

    Args:
        is_generic: the candidate reads such attributes (a normalized shape) from its tensors.
    """
    small = scaled_down(
        task.program, INTERPRETER_ELEMENTS, max_flops=INTERPRETER_FLOPS, fixed_attributes=True
    )
    if small == task.program or not (is_generic or same_attributes(small, task.program)):
        return task
    return program_task(small, name=task.name)


def at_other_shapes(task: Task, seed: int) -> dict[str, ProgramTask]:
    """Returns up to `NUM_SHAPES` small tasks of the same structure at odd sizes, and one at larger
    sizes than the task's own, by the shapes of their inputs.

    The result is empty where the task is no program, or where its attributes fix every size.

    Args:
        seed: draws the sizes.
    """
    if not isinstance(task, ProgramTask):
        return {}
    variants = shape_variants(
        task.program, NUM_SHAPES, seed, INTERPRETER_ELEMENTS, max_flops=INTERPRETER_FLOPS
    )
    # A kernel may keep a size of its first call, which is the task's own size.
    larger = larger_variant(task.program, seed, INTERPRETER_ELEMENTS, max_flops=INTERPRETER_FLOPS)
    return {
        shape_text(v): program_task(v, name=task.name)
        for v in (*variants, larger)
        # A candidate may write attributes as numbers, so a variant must keep them.
        if v is not None and same_attributes(v, task.program)
    }


def beyond_int32(task: Task, available_bytes: int) -> ProgramTask | None:
    """Returns the task with a value of more than 2^31 elements, where a 32-bit offset is negative.
    None where the task cannot be resized, or `available_bytes` do not suffice."""
    if not isinstance(task, ProgramTask):
        return None
    large = enlarged(task.program, INT32_ELEMENTS)
    if large is None or LARGE_HEADROOM * num_bytes(large) > available_bytes:
        return None
    return program_task(large, name=task.name)


def at_aligned_shapes(task: Task, seed: int) -> dict[str, Task]:
    """Returns one task of the same structure that the same compiled kernels should serve, by the
    shapes of its inputs. The result is empty where the task is no program, or where its attributes
    fix every size."""
    if not isinstance(task, ProgramTask):
        return {}
    variants = aligned_variants(task.program, 1, seed)
    return {
        shape_text(v): program_task(v, name=task.name)
        for v in variants
        if same_attributes(v, task.program)
    }


def shape_text(program: Program) -> str:
    """ "3x7 7x5" for a program of these inputs."""
    shapes = ("x".join(map(str, value.type.shape)) or "scalar" for value in program.inputs)
    return " ".join(shapes)
