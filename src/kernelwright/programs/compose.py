"""Writing a whole program with some of its fragments replaced by kernels."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import with_plans
from kernelwright.programs.combine import schedule
from kernelwright.programs.program import Program
from kernelwright.programs.source_merge import Merged, merge
from kernelwright.programs.text import statement


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
        """Its plans, which say what values of the program it computes."""
        part = tuple(name for i in sorted(self.calls) for name in program.calls[i].outputs)
        return tuple(replace(plan, part=part) for plan in self.candidate.plan)

    def alone(self, program: Program) -> Candidate:
        """The candidate as all of the program."""
        plans = self.plans(program)
        source = with_plans(self.candidate.source, plans)
        return replace(self.candidate, source=source, plan=plans)


def compose(
    program: Program, replacements: Sequence[Replacement], reserved: Collection[str] = ()
) -> Candidate:
    """A candidate for the whole program: kernels where replaced, PyTorch lines elsewhere.

    Values are deleted after their last use, so peak memory is that of the program itself. No
    kernel or wrapper takes a name of `reserved`.

    Raises:
        ValueError: the replacements overlap in time (see `combine.circular`).
    """
    wanted = [_entry_name(program, r.calls) for r in replacements]
    sources = [r.candidate.source for r in replacements]
    merged = merge(list(zip(wanted, sources, strict=True)), reserved)
    lines: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []  # text, reads, makes
    like = program.inputs[0].name if program.inputs else ""
    for step in schedule(program, [r.calls for r in replacements]):
        if step < len(replacements):
            r = replacements[step]
            makes = ", ".join(r.outputs)
            entry = merged.names[step]["fused_operator"]
            text = f"[{makes}] = {entry}({', '.join(r.inputs)})"
            lines.append((text, r.inputs, r.outputs))
        else:
            call = program.calls[step - len(replacements)]
            lines.append((statement(call, like), tuple(call.refs()), call.outputs))
    body = "\n".join(f"    {line}" for line in _with_deletions(program, lines))
    names = ", ".join(value.name for value in program.inputs)
    imports = ["import torch"]
    if any("F." in text for text, _, _ in lines):
        imports.append("import torch.nn.functional as F")
    source = "\n".join(dict.fromkeys([*imports, *merged.imports]))
    if merged.body:
        source += f"\n\n\n{merged.body}"
    source += f"\n\n\ndef fused_operator({names}):\n{body}\n"
    source += f"    return [{', '.join(program.outputs)}]\n"
    plans = _plans(program, replacements, merged)
    return Candidate(
        source=with_plans(source, plans),
        plan=plans,
        origin="+".join(dict.fromkeys(r.candidate.origin for r in replacements)),
    )


def _plans(
    program: Program, replacements: Sequence[Replacement], merged: Merged
) -> tuple[KernelPlan, ...]:
    """Of every kernel under the name that it has in the whole; of equal ones, which are there once,
    one."""
    plans = (
        replace(plan, kernel=names[plan.kernel])
        for r, names in zip(replacements, merged.names, strict=True)
        for plan in r.plans(program)
        if plan.kernel in names  # models plan kernels that they do not write
    )
    return tuple({plan.kernel: plan for plan in plans}.values())


def _entry_name(program: Program, calls: frozenset[int]) -> str:
    names = list(dict.fromkeys(program.calls[i].op.replace(".", "_") for i in sorted(calls)))
    return "fused_" + "_".join(names[:3] + (["etc"] if len(names) > 3 else []))


def _with_deletions(
    program: Program, lines: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]]
) -> list[str]:
    last_use: dict[str, int] = {}
    for row, (_, reads, makes) in enumerate(lines):
        last_use |= dict.fromkeys((*makes, *reads), row)
    kept = {*program.outputs, *(value.name for value in program.inputs)}
    text: list[str] = []
    for row, (line, _, _) in enumerate(lines):
        text.append(line)
        dead = [name for name, last in last_use.items() if last == row and name not in kept]
        if dead and row + 1 < len(lines):
            text.append(f"del {', '.join(dead)}")
    return text
