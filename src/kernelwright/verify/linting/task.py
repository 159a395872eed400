"""`kernelwright lint` for a task that a user names: a file with `Model` or `fused_operator`, a
factory.

A task that fits is called as it is, with its own inputs and its parameters as constructed. A task
that does not fit is linted as a program scaled down, its inputs drawn from the same distributions.
The report says so.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.lint.algebra import check_algebra
from kernelwright.lint.findings import Finding, LintReport, found
from kernelwright.lint.linter import (
    BUDGET_S,
    check_parts,
    honest_answers,
    lint_program,
    program_subject,
)
from kernelwright.lint.values import NUM_DRAWS, Outputs, Subject, Values, check_values
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import scaled_down
from kernelwright.verify.judging import device_named
from kernelwright.verify.room import needed_bytes, parts_bytes
from kernelwright.verify.tasks.answer import tensors_of
from kernelwright.verify.tasks.load import available_bytes, load_task
from kernelwright.verify.tasks.lowered import lower_model
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.oracle import run_in_double, seeded
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.small_draws import SmallDraws
from kernelwright.verify.tasks.task import CPU, META, Task
from kernelwright.verify.values.tf32 import tf32

CPU_FLOPS = 2e9
CPU_BYTES = 3e8
"""The most bytes of one run on a CPU: a task takes some thirty runs."""
SCALED_ELEMENTS = 1 << 16
NOT_A_BUFFER = "which is not a buffer"
"""In what the tracer says of a tensor attribute that forward changes."""
ANY_NUMBER = 1 << 62
Room = Callable[[int], AbstractContextManager[object]]
"""(bytes that will be needed) -> held while they are: the caller's way to run large tasks apart."""


def lint(
    spec: str | Path,
    *,
    device: str = "auto",
    budget_s: float = BUDGET_S,
    room: Room = lambda _: nullcontext(),
) -> LintReport:
    """Returns the flaws of a file or `package.module:factory` as a task.

    Args:
        device: "auto", "cpu" or "cuda". On a CPU large tasks are scaled down.
        budget_s: seconds for comparing values, and as many for operators and parameters.
        room: makes a context that holds so many bytes of the device's memory.

    Raises:
        UsageError: it cannot be loaded, or fails on its own inputs.
        torch.OutOfMemoryError: it does not fit beside other work on the device.
    """
    begin_s = time.monotonic()
    where = device_named(device)
    sketch = load_task(spec, META)
    if isinstance(sketch, ModuleTask):
        sketch = sketch.as_constructed()
        with suppress(UsageError):
            sketch.module(META)  # its mode can be asked for without building it on a CPU
    with tf32(False):
        if isinstance(sketch, ProgramTask):
            elements = ANY_NUMBER if _fits(sketch.program, where) else SCALED_ELEMENTS
            with room(needed_bytes(sketch.program)):
                report = lint_program(
                    sketch.program, device=where, max_elements=elements, budget_s=budget_s
                )
        else:
            report = _lint_called(spec, sketch, where, budget_s, room)
    seconds = time.monotonic() - begin_s
    return replace(report, task=task_name(spec), device=where.type, seconds=seconds)


def task_name(spec: str | Path) -> str:
    """Returns the name of the file with its folder, which does not depend on the machine."""
    path = Path(spec)
    is_file = path.suffix == ".py"
    return f"{path.resolve().parent.name}/{path.name}" if is_file else str(spec)


def _lint_called(
    spec: str | Path, sketch: Task, device: torch.device, budget_s: float, room: Room
) -> LintReport:
    """Lints a module, or a function that is more than a program."""
    captured = _captured(sketch, device)
    lowered = captured.lowered
    if lowered is not None and not _fits(lowered.program, device):
        report = _lint_scaled(sketch, lowered, budget_s)
    elif device == CPU and _own_bytes(sketch) > CPU_BYTES:
        reason = "values: too large for this machine, and no program that could be scaled down"
        report = LintReport(task=sketch.name, device=device.type, not_checked=(reason,))
    else:
        with room(needed_bytes(lowered.program) if lowered else 0):
            task = load_task(spec, device)
            report = _lint_at_size(task, device, lowered, budget_s)
    said = {finding.id for finding in report.findings}
    more = [
        finding
        for finding in captured.findings
        if finding.id != "hidden_state" or finding.id not in said
    ]
    return replace(
        report,
        findings=(*report.findings, *more),
        not_checked=(*captured.not_checked, *report.not_checked),
    )


@dataclass(frozen=True, slots=True)
class _Captured:
    lowered: Lowered | None = None
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = ()


def _captured(sketch: Task, device: torch.device) -> _Captured:
    """Returns the task's program, or the checks that are impossible without one."""
    if not isinstance(sketch, ModuleTask):
        reason = "operators and algebra: fused_operator is more than a flat program"
        return _Captured(not_checked=(reason,))
    try:
        lowered = lower_model(sketch, device)[1]
        return _Captured(lowered, tuple(check_algebra(lowered.program)))
    except (KernelwrightError, RuntimeError, MemoryError) as error:
        reason = error.message if isinstance(error, UsageError) else str(error).splitlines()[0]
        state = (found("hidden_state", reason),) if NOT_A_BUFFER in reason else ()
        text = f"operators and algebra: not captured as a program: {reason}"
        return _Captured(findings=state, not_checked=(text,))


def _fits(program: Program, device: torch.device) -> bool:
    if device == CPU:
        return _is_small(program)
    return needed_bytes(program) <= torch.cuda.get_device_properties(device).total_memory


def _own_bytes(sketch: Task) -> int:
    """Returns the bytes of inputs and parameters, from shapes alone; 0 where get_inputs needs real
    values."""
    try:
        values = sketch.draw(0, META)
        state = sketch.state(META).values() if isinstance(sketch, ModuleTask) else ()
    except KernelwrightError:
        return 0
    tensors = [v for v in (*values, *state) if isinstance(v, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _is_small(program: Program) -> bool:
    return program.flops() <= CPU_FLOPS and program.bytes_unfused() <= CPU_BYTES


def _lint_at_size(
    task: Task, device: torch.device, lowered: Lowered | None, budget_s: float
) -> LintReport:
    if isinstance(task, ModuleTask):
        task = task.as_constructed()
    exempt = honest_answers(lowered.program) if lowered else frozenset[str]()
    values = check_values(task_subject(task, device, exempt), time.monotonic() + budget_s)
    report = LintReport(
        task=task.name,
        device=device.type,
        findings=(*values.findings, *_hidden_state(task, device)),
        not_checked=tuple(values.not_checked),
        notes=_notes(lowered),
        num_draws=values.num_draws,
    )
    if lowered is None or not isinstance(task, ModuleTask):
        return report
    if device.type == "cuda":
        torch.cuda.empty_cache()
    if parts_bytes(lowered.program) > available_bytes(device):
        reason = "operators: not enough memory for all values of two runs"
        return replace(report, not_checked=(*report.not_checked, reason))
    findings, not_checked = _check_parts(_Bound(task, device, lowered), values, budget_s)
    return replace(
        report,
        findings=(*report.findings, *findings),
        not_checked=(*report.not_checked, *not_checked),
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """A module's program with the module's own inputs and parameters."""

    task: ModuleTask
    device: torch.device
    lowered: Lowered

    def draw(self, seed: int) -> list[torch.Tensor]:
        module = self.task.module(self.device)
        tensors = self.lowered.gather(module, tuple(self.task.draw(seed, self.device)))
        return [tensor.detach().to(self.device) for tensor in tensors]


def _check_parts(bound: _Bound, values: Values, budget_s: float) -> Any:
    lowered = bound.lowered
    outputs = [value for kind, value in lowered.user_outputs if kind == "output"]
    if outputs != list(range(len(values.allowed))):
        return [], ["operators: the program returns other tensors than the module"]
    return check_parts(
        lowered.program,
        bound.draw,
        bound.device,
        values,
        num_outputs=len(outputs),
        parameters=_parameters(lowered),
        budget_s=budget_s,
    )


def _parameters(lowered: Lowered) -> dict[int, str]:
    """Returns names of parameters and buffers by position. Buffers that a call updates are state,
    and need not matter to its result."""
    state = {name for _, name in lowered.mutations}
    kinds = ("parameter", "buffer")
    named = {i: s.name for i, s in enumerate(lowered.sources) if s.kind in kinds}
    return {i: name for i, name in named.items() if name not in state}


def task_subject(task: Task, device: torch.device, exempt: frozenset[str]) -> Subject:
    """Returns a task as the linter sees it: its own draws, parameters as they are."""

    def calls(inputs: list[Any], seeds: Sequence[int]) -> list[Outputs]:
        instance = task.reference(device)
        return [_call(task, instance, inputs, seed, device) for seed in seeds]

    def oracle(inputs: list[Any], seed: int) -> Outputs:
        instance = task.reference(device, double=True)
        with seeded(seed, device):
            return tensors_of(run_in_double(instance, tree_map(_own, inputs), task.native))

    return Subject(
        draw=lambda seed: task.draw(seed, device), calls=calls, oracle=oracle, exempt=exempt
    )


def _call(
    task: Task, instance: Callable[..., object], inputs: list[Any], seed: int, device: torch.device
) -> Outputs:
    try:
        with seeded(seed, device), torch.no_grad():
            return tensors_of(instance(*tree_map(_own, inputs)))
    except (KernelwrightError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the reference {task.name} fails on its own inputs: {type(error).__name__}: {error}",
            remedy="see that it runs by itself first",
        ) from error


def _hidden_state(task: Task, device: torch.device) -> Iterator[Finding]:
    """Yields tensors that a call leaves on the module and that are no buffers: no state_dict has
    them."""
    instance = task.reference(device)
    if not isinstance(instance, torch.nn.Module):
        return
    before = dict(_loose_tensors(instance))
    _call(task, instance, task.draw(0, device), 0, device)
    for name, tensor in _loose_tensors(instance):
        known = before.get(name)
        if known is None or known.shape != tensor.shape or not torch.equal(known, tensor):
            message = f"a call changes {name}, a tensor that is not a buffer"
            yield found("hidden_state", message)


def _loose_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields copies of tensor attributes that are neither parameters nor buffers."""
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{prefix}.{name}".lstrip("."), value.detach().clone().cpu()


def _notes(lowered: Lowered | None) -> tuple[str, ...]:
    if lowered is None:
        return ()
    notes = []
    if lowered.mutations:
        notes.append(f"a call updates {len(lowered.mutations)} buffers")
    if any(call.is_random for call in lowered.program.calls):
        notes.append("a call draws random numbers")
    return tuple(notes)


def _own(value: Any) -> Any:
    """Returns a copy that the reference may change in place."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _lint_scaled(sketch: Task, lowered: Lowered, budget_s: float) -> LintReport:
    """Lints the program at small sizes, with inputs from the task's own distributions."""
    assert isinstance(sketch, ModuleTask)
    small = scaled_down(lowered.program, SCALED_ELEMENTS)
    report = LintReport(task=sketch.name, device=CPU.type, scaled=True, num_draws=NUM_DRAWS)
    if _is_small(small):
        draws = SmallDraws(sketch, small, lowered)
        values = check_values(program_subject(small, draws), time.monotonic() + budget_s)
        num_outputs = sum(kind == "output" for kind, _ in lowered.user_outputs)
        findings, left_out = check_parts(
            small,
            draws,
            CPU,
            values,
            num_outputs=num_outputs,
            parameters=_parameters(lowered),
            budget_s=budget_s,
        )
        mentioned = [
            draws.named(finding)
            for finding in values.findings
            if (finding.output or 0) < num_outputs
        ]
        return replace(
            report,
            findings=(*mentioned, *findings),
            not_checked=(*values.not_checked, *left_out),
            notes=(*draws.notes(), *_notes(lowered)),
        )
    reason = "values and operators: too large for this machine, and sizes are pinned"
    return replace(report, not_checked=(reason,), num_draws=0)
