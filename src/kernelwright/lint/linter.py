"""The task linter: finds tasks that can be answered without the work they ask for.

`lint_program` lints a program. Values are compared on several draws of its inputs, to find cheap
answers, and inputs and operators that do not matter. Algebra needs only the calls.
`verify.linting.task` does the same for files.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from kernelwright.core.seed import derive
from kernelwright.lint.algebra import check_algebra
from kernelwright.lint.findings import Finding, LintReport
from kernelwright.lint.operators import ProbedOperators, check_operators
from kernelwright.lint.ties import check_ties
from kernelwright.lint.values import Outputs, Subject, Values, check_values
from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import largest, scaled_down

MAX_ELEMENTS = 1 << 16
"""The most elements of one value; larger programs are linted scaled down, unless more is
allowed."""
BUDGET_S = 10.0
"""For probing the operators of one program."""

_AFFINE = names_with(Trait.ADDS, Trait.SCALES) | {"neg", "to_dtype"}
_MEANS = names_with(Trait.SUMS, Trait.AVERAGES_WINDOWS)


def lint_program(
    program: Program,
    name: str = "program",
    *,
    device: torch.device | str = "cpu",
    max_elements: int = MAX_ELEMENTS,
    budget_s: float = BUDGET_S,
) -> LintReport:
    """Returns the flaws of a program as a task, at its own sizes or scaled down.

    Args:
        max_elements: programs with larger values are scaled down first; the report says so.
        budget_s: seconds for comparing values, and as many for probing operators. The report names
            checks for which no time was left.
    """
    begin_s = time.monotonic()
    device = torch.device(device)
    looked_at = program
    if largest(program) > max_elements:
        looked_at = scaled_down(program, max_elements)
    draw = partial(make_inputs, looked_at, device=device)
    values = check_values(program_subject(looked_at, draw), begin_s + budget_s)
    findings, not_checked = check_parts(looked_at, draw, device, values, budget_s=budget_s)
    return LintReport(
        task=name,
        device=device.type,
        findings=(*values.findings, *findings, *check_algebra(program)),
        not_checked=(*values.not_checked, *not_checked),
        scaled=looked_at is not program,
        num_draws=values.num_draws,
        seconds=time.monotonic() - begin_s,
    )


def program_subject(program: Program, draw: Any) -> Subject:
    """Returns a program as the linter sees it; `draw` makes its inputs from a seed."""

    def calls(inputs: Sequence[torch.Tensor], seeds: Sequence[int]) -> list[Outputs]:
        return [_run(program, inputs, seed) for seed in seeds]

    def oracle(inputs: Sequence[torch.Tensor], seed: int) -> Outputs:
        return _run(program, inputs, seed, torch.float64)

    return Subject(draw=draw, calls=calls, oracle=oracle, exempt=honest_answers(program))


def _run(
    program: Program,
    inputs: Sequence[torch.Tensor],
    seed: int,
    dtype: torch.dtype | None = None,
) -> Outputs:
    if not any(call.is_random for call in program.calls):
        return tuple(run(program, inputs, dtype))
    devices = {t.device for t in inputs if t.device.type == "cuda"}
    with torch.random.fork_rng(list(devices)):
        torch.manual_seed(derive(seed, "reference") % (1 << 31))
        return tuple(run(program, inputs, dtype))


def check_parts(
    program: Program,
    draw: Any,
    device: torch.device,
    values: Values,
    *,
    num_outputs: int | None = None,
    parameters: dict[int, str] | None = None,
    budget_s: float,
) -> tuple[list[Finding], list[str]]:
    """Returns findings about operators and parameters, and the checks left out with the reason.

    Args:
        draw: seed -> the program's inputs.
        values: findings about the whole, to which the parts must add something.
        num_outputs: leading outputs that are the task's; all where not given.
        parameters: inputs that are a module's: position -> name.
        budget_s: seconds for the probes.
    """
    ties = list(check_ties(program, draw(0)))
    parameters = parameters or {}
    findings, not_checked = check_operators(
        ProbedOperators(
            program=program,
            draw=draw,
            device=device,
            num_outputs=len(program.outputs) if num_outputs is None else num_outputs,
            parameters=parameters,
            first_parameter=len(program.inputs) - len(parameters),
            allowed=values.allowed,
            constant=values.constant,
            copied=values.copied,
            deadline_s=time.monotonic() + budget_s,
        )
    )
    return [*findings, *ties], not_checked


def honest_answers(program: Program) -> frozenset[str]:
    """Returns the cheap answers that are the whole work of a program, because it has only such
    calls."""
    calls = program.calls
    if all(map(_is_affine, calls)):
        return frozenset({"affine"})
    if all(_is_affine(call) or call.op in _MEANS for call in calls):
        return frozenset({"affine", "mean_passes"})
    return frozenset()


def _is_affine(call: Call) -> bool:
    if call.is_extern:
        return False
    is_one = sum(isinstance(value, Ref) for _, value in call.args) == 1
    return call.operator.family == "shape" or (call.op in _AFFINE and is_one)
