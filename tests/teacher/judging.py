"""Candidates on trial: run in the interpreter, compared with fp64 by the judge's own rule."""

from collections.abc import Sequence

import torch

from kernelwright.core.candidate import Candidate
from kernelwright.programs import reference
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import same_attributes, shape_variants
from kernelwright.programs.tensors import torch_dtype
from kernelwright.sandbox.host.compile_check import KernelUsage, compile_check
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall, Limits
from kernelwright.verify.tasks.oracle import run_in_double
from kernelwright.verify.values.compare import Expected, compare

LIMITS = Limits(wall_s=120.0)
SHARED_LIMIT_BYTES = 227 * 1024
"""Of one program on Hopper."""


def faults(
    program: Program,
    candidates: Sequence[Candidate],
    family: str = "plain",
    precision: str = "strict",
) -> list[str]:
    """What is wrong with each candidate, one line each; nothing where all are right."""
    inputs = reference.make_inputs(program, 1, family=family)
    expected = Expected(
        native=tuple(reference.run(program, inputs)),
        oracle=tuple(reference.run(program, inputs, dtype=torch.float64)),
        tolerated=(_in_tf32(program, inputs),) if precision == "tf32" else (),
    )
    found = []
    with shared("cpu").guest(LIMITS) as guest:
        for candidate in candidates:
            guest.load(candidate.source)
            ran = guest.run("candidate", GuestCall(inputs, seed=0))
            mismatch = compare(ran.outputs, expected, precision).mismatch
            if mismatch:
                found.append(f"{candidate.schedule}: {mismatch.message}\n{candidate.source}")
            if ran.changed_inputs:
                found.append(f"{candidate.schedule}: changes its inputs")
            if set(ran.launches) != {plan.kernel for plan in candidate.plan}:
                found.append(f"{candidate.schedule}: launched {ran.launches}")
    return found


def faults_here_and_at_other_sizes(program: Program, candidates: Sequence[Candidate]) -> list[str]:
    """`faults` at the program's sizes, and at others where its attributes leave any."""
    others = shape_variants(program, 1, seed=1, max_elements=1 << 12)
    sizes = [program, *(other for other in others if same_attributes(other, program))]
    return [fault for one in sizes for fault in faults(one, candidates)]


def strays(
    program: Program, inputs: list[torch.Tensor], candidates: Sequence[Candidate]
) -> list[str]:
    """Candidates whose results differ from PyTorch's for these inputs; NaN equals NaN here."""
    expected = reference.run(program, inputs)
    found = []
    with shared("cpu").guest(LIMITS) as guest:
        for candidate in candidates:
            guest.load(candidate.source)
            results = guest.run("candidate", GuestCall(inputs, seed=0)).outputs
            for result, native in zip(results, expected, strict=True):
                if not torch.allclose(result, native, rtol=1e-4, atol=1e-5, equal_nan=True):
                    found.append(f"{candidate.schedule}: {result} for {native}")
    return found


def _in_tf32(program: Program, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The oracle with the factors of products cut to TF32."""
    made = run_in_double(
        lambda *xs: reference.run(program, list(xs)), inputs, torch.float32, tf32=True
    )
    assert isinstance(made, list | tuple)
    return tuple(made)


def compiled(program: Program, candidate: Candidate) -> list[KernelUsage]:
    """What its kernels take on Hopper."""
    inputs = [
        torch.empty(value.type.shape, dtype=torch_dtype(value.type.dtype), device="meta")
        for value in program.inputs
    ]
    return list(compile_check(candidate.source, inputs).kernels.values())
