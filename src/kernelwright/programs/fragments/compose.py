"""Writes a candidate for a whole program, with kernels in place of some of its fragments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import with_plans
from kernelwright.programs.fragments.combine import schedule
from kernelwright.programs.fragments.source_merge import Merged, merge
from kernelwright.programs.program import Program
from kernelwright.programs.text import statement

Line = tuple[str, tuple[str, ...], tuple[str, ...]]
"""Text of a step, the values it reads, those it makes."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A fragment of the program and the candidate that computes it."""

    calls: frozenset[int]
    inputs: tuple[str, ...]
    """The program's values it reads, in the order of the candidate's parameters."""
    outputs: tuple[str, ...]
    """The program's values it makes, in the order the candidate returns them."""
    candidate: Candidate

    def plans(self, program: Program) -> tuple[KernelPlan, ...]:
        """The candidate's plans, with the values of the program that they compute.

        The first plan also names the values that the candidate reads and returns.
        """
        part = tuple(name for i in sorted(self.calls) for name in program.calls[i].outputs)
        plans = tuple(replace(plan, part=part) for plan in self.candidate.plan)
        first = (replace(plan, reads=self.inputs, makes=self.outputs) for plan in plans[:1])
        return (*first, *plans[1:])

    def alone(self, program: Program) -> Candidate:
        """The candidate as all of the program."""
        plans = self.plans(program)
        source = with_plans(self.candidate.source, plans)
        return replace(self.candidate, source=source, plan=plans)


def compose(
    program: Program, replacements: Sequence[Replacement], *, deletes: bool = True
) -> Candidate:
    """A candidate for the whole program: kernels for the replaced calls, PyTorch for the others.

    Plans, kernels and launches are all in the order of execution.

    Args:
        deletes: delete values after their last use, so that peak memory is that of the program.

    Raises:
        ValueError: the replacements overlap in time (see `combine.circular`).
    """
    steps = schedule(program, [r.calls for r in replacements])
    ordered = [replacements[step] for step in steps if step < len(replacements)]
    merged = merge([(f"fused_{program.title(r.outputs)}", r.candidate.source) for r in ordered])
    lines = _lines(
        program, replacements, steps, [renamed["fused_operator"] for renamed in merged.names]
    )
    texts = _with_deletions(program, lines) if deletes else [text for text, _, _ in lines]
    body = "\n".join(f"    {text}" for text in texts)
    names = ", ".join(value.name for value in program.inputs)
    imports = ["import torch"]
    if any("F." in text for text, _, _ in lines):
        imports.append("import torch.nn.functional as F")
    source = "\n".join(dict.fromkeys([*imports, *merged.imports]))
    if merged.body:
        source += f"\n\n\n{merged.body}"
    source += f"\n\n\ndef fused_operator({names}):\n{body}\n"
    source += f"    return [{', '.join(program.outputs)}]\n"
    plans = _plans(program, ordered, merged)
    return Candidate(
        source=with_plans(source, plans),
        plan=plans,
        origin="+".join(dict.fromkeys(r.candidate.origin for r in ordered)),
    )


def _lines(
    program: Program,
    replacements: Sequence[Replacement],
    steps: Sequence[int],
    entries: Sequence[str],
) -> list[Line]:
    """The lines of the program's steps; `entries` are names of the replacements' wrappers, in their
    order."""
    like = program.inputs[0].name if program.inputs else ""
    lines: list[Line] = []
    names = iter(entries)
    for step in steps:
        if step < len(replacements):
            r = replacements[step]
            text = f"[{', '.join(r.outputs)}] = {next(names)}({', '.join(r.inputs)})"
            lines.append((text, r.inputs, r.outputs))
        else:
            call = program.calls[step - len(replacements)]
            lines.append((statement(call, like), tuple(call.refs()), call.outputs))
    return lines


def _plans(
    program: Program, replacements: Sequence[Replacement], merged: Merged
) -> tuple[KernelPlan, ...]:
    """The plan of every kernel under its new name in the merged module.

    If several fragments share a kernel, its plan has the values of all of them.
    """
    plans: dict[str, KernelPlan] = {}
    for r, names in zip(replacements, merged.names, strict=True):
        for plan in r.plans(program):
            if plan.kernel not in names:  # models plan kernels that they do not write
                continue
            kernel = names[plan.kernel]
            before = plans.get(kernel, replace(plan, kernel=kernel, part=(), reads=(), makes=()))
            plans[kernel] = replace(
                before,
                part=before.part + plan.part,
                reads=before.reads + plan.reads,
                makes=before.makes + plan.makes,
            )
    return tuple(plans.values())


def _with_deletions(program: Program, lines: Sequence[Line]) -> list[str]:
    last_use: dict[str, int] = {}
    for row, (_, reads, makes) in enumerate(lines):
        last_use |= dict.fromkeys((*makes, *reads), row)
    kept = {*program.outputs, *(value.name for value in program.inputs)}
    dead_after: dict[int, list[str]] = {}
    for name, row in last_use.items():
        if name not in kept:
            dead_after.setdefault(row, []).append(name)
    text: list[str] = []
    for row, (line, _, _) in enumerate(lines):
        text.append(line)
        dead = dead_after.get(row)
        if dead and row + 1 < len(lines):
            text.append(f"del {', '.join(dead)}")
    return text
