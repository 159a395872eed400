"""Finds operators and parameters of a program that its outputs do not depend on.

A probe replaces one value of a run: an operator's result by that of another draw, by its own input,
or by a reduction over a part; a parameter by another draw like it. All later values are then
computed again. A probe that changes nothing on one pair of draws is tried on two more.
"""

import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import torch

from kernelwright.core.seed import derive
from kernelwright.lint.findings import Finding, Severity, beyond, found
from kernelwright.lint.gaps import Allowed, Gap, gap
from kernelwright.lint.partial import FEW, MOST, over_a_part
from kernelwright.programs.draws.initial import Uses
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import evaluate_call

NUM_PAIRS = 3

Env = Mapping[str, torch.Tensor]
Replace = Callable[[Env, Env], dict[str, torch.Tensor] | None]
"""(values of a run, values of a run on another draw) -> what to replace; None says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedOperators:
    """A program to be probed, and what is known of the whole."""

    program: Program
    draw: Callable[[int], Sequence[torch.Tensor]]
    """Seed -> the program's inputs."""
    device: torch.device
    num_outputs: int
    """Leading outputs that are the task's; those after them are new values of buffers."""
    parameters: Mapping[int, str] = field(default_factory=dict)
    """Inputs that are parameters: position -> name. The others are drawn afresh elsewhere."""
    first_parameter: int = 0
    """Position that a finding gives the first of them: after the task's own inputs."""
    allowed: Sequence[Allowed] = ()
    constant: frozenset[str] = frozenset()
    """Tolerances under which nothing matters (`Values.constant`)."""
    copied: frozenset[str] = frozenset()
    """Tolerances under which the whole is a copy of an input or the like."""
    deadline_s: float = float("inf")
    """On the monotonic clock."""


@dataclass(slots=True)
class _Probe:
    id: str
    index: int
    """The index of the call, or of the program's input."""
    replace: Replace
    gap: Gap | None = None


class ProbedRun:
    """All values of one run, and the outputs that result when some values are replaced."""

    def __init__(self, program: Program, tensors: Sequence[torch.Tensor], seed: int) -> None:
        self.program, self.seed = program, seed
        names = (value.name for value in program.inputs)
        self.env: dict[str, torch.Tensor] = dict(zip(names, tensors, strict=True))
        for i, call in enumerate(program.calls):
            self._evaluate(i, call, self.env, self.env)

    def outputs(self, num_outputs: int) -> list[torch.Tensor]:
        return [self.env[name] for name in self.program.outputs[:num_outputs]]

    def outputs_with(
        self, replaced: dict[str, torch.Tensor], num_outputs: int
    ) -> list[torch.Tensor]:
        """Returns the outputs with these values in place of the run's own."""
        # Only calls behind a replaced value run again: a program has as many probes as calls.
        env: ChainMap[str, torch.Tensor] = ChainMap(dict(replaced), self.env)
        changed = env.maps[0]
        for i, call in enumerate(self.program.calls):
            if call.outputs[0] not in replaced and any(name in changed for name in call.refs()):
                self._evaluate(i, call, env, changed)
        return [env[name] for name in self.program.outputs[:num_outputs]]

    def _evaluate(
        self,
        i: int,
        call: Call,
        env: Mapping[str, torch.Tensor],
        into: MutableMapping[str, torch.Tensor],
    ) -> None:
        if call.is_random:  # the same draws whatever else is replaced
            torch.manual_seed(derive(self.seed, i) % (1 << 31))
        into.update(zip(call.outputs, evaluate_call(call, env), strict=True))


def check_operators(subject: ProbedOperators) -> tuple[list[Finding], list[str]]:
    """Returns findings on parts of a program that do not matter, and the checks left out with the
    reason.

    A probe counts if it changes nothing on every pair of draws. Probes that time runs out for do
    not count.
    """
    probes = list(_probes(subject))
    devices = [subject.device] if subject.device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.no_grad():
        for pair in range(NUM_PAIRS):
            if not probes:
                break
            a, b = (
                ProbedRun(subject.program, subject.draw(2 * pair + k), 2 * pair + k) for k in (0, 1)
            )
            reference = a.outputs(subject.num_outputs)
            for probe in list(probes):
                if time.monotonic() > subject.deadline_s:
                    return [], [f"{len(probes)} operators and parameters: out of time"]
                if not _stands(probe, (a, b), reference, subject):
                    probes.remove(probe)
            del a, b, reference
    return list(_findings(subject, probes)), []


def _probes(subject: ProbedOperators) -> Iterator[_Probe]:
    """Yields heavy operators first, then large parameters, because time may run out."""
    program = subject.program

    def weight(i: int) -> int:
        return program.flops_of(program.calls[i])

    order = sorted(range(len(program.calls)), key=weight, reverse=True)
    order = [i for i in order if not _is_view(program.calls[i])]
    for i in order:
        yield _Probe("ignores_operator", i, _other_draw(program.calls[i]))
    uses = Uses(program)
    for i in order:
        if (source := _passed_on(program, program.calls[i], uses)) is not None:
            yield _Probe("idle_operator", i, _bypass(program.calls[i], source))
        yield _Probe("few", i, _part(program.calls[i], FEW))
        yield _Probe("most", i, _part(program.calls[i], MOST))
    sizes = {i: program.inputs[i].type.numel for i in subject.parameters}
    for i in sorted(sizes, key=lambda i: sizes[i], reverse=True):
        if program.inputs[i].type.dtype.startswith(("float", "bfloat")):
            yield _Probe("ignores_parameter", i, _like_it(program.inputs[i].name, i))


def _is_view(call: Call) -> bool:
    return not call.is_extern and call.operator.family == "shape"


def _other_draw(call: Call) -> Replace:
    def replace(a: Env, b: Env) -> dict[str, torch.Tensor] | None:
        if all(torch.equal(a[name], b[name]) for name in call.outputs):
            return None  # made of parameters alone
        return {name: b[name] for name in call.outputs}

    return replace


def _passed_on(program: Program, call: Call, uses: Uses) -> str | None:
    """Returns the value that a call could pass on in place of its result: its first operand, if
    type and shape agree. None where the result must lie in a domain: the operand may lie outside,
    and on a GPU that ends the process."""
    first = next(call.refs(), None)
    if first is None or call.op == "to_dtype" or uses.init(call.outputs[0]) is not None:
        return None
    first_type, result_type = program.type_of(first), call.types[0]
    alike = (first_type.shape, first_type.dtype) == (result_type.shape, result_type.dtype)
    return first if alike and result_type.dtype.startswith(("float", "bfloat")) else None


def _bypass(call: Call, source: str) -> Replace:
    return lambda a, _: {**{name: a[name] for name in call.outputs}, call.outputs[0]: a[source]}


def _part(call: Call, share: float) -> Replace:
    def replace(a: Env, _: Env) -> dict[str, torch.Tensor] | None:
        results = over_a_part(call, a, share)
        return None if results is None else dict(zip(call.outputs, results, strict=True))

    return replace


def _like_it(name: str, seed: int) -> Replace:
    """Replaces a parameter by another draw with its own mean and spread. A single number moves by a
    tenth."""

    def replace(a: Env, _: Env) -> dict[str, torch.Tensor] | None:
        x = a[name]
        if x.numel() < 2:
            return {name: x * 1.1 + 0.1}
        mean, spread = float(x.float().mean()), float(x.float().std())
        generator = torch.Generator(x.device).manual_seed(seed)
        normal = torch.randn(x.shape, generator=generator, device=x.device)
        drawn = mean + (spread or 0.1 * max(abs(mean), 1.0)) * normal
        is_positive = bool((x >= 0).all()) and mean > 0
        return {name: (drawn.abs() if is_positive else drawn).to(x.dtype)}

    return replace


def _stands(
    probe: _Probe,
    runs: tuple[ProbedRun, ProbedRun],
    reference: list[torch.Tensor],
    subject: ProbedOperators,
) -> bool:
    """Whether the outputs stay under this probe on this pair too."""
    a, b = runs
    replaced = probe.replace(a.env, b.env)
    if replaced is None:
        return True
    worst = probe.gap or Gap()
    outputs = a.outputs_with(replaced, subject.num_outputs)
    for expected, output in zip(reference, outputs, strict=True):
        worst = worst.worse(gap(expected, output))
        if not worst.passes_any:
            return False
    probe.gap = worst
    return True


def _findings(subject: ProbedOperators, probes: list[_Probe]) -> Iterator[Finding]:
    stand: dict[str, dict[int, tuple[str, ...]]] = {}
    for probe in probes:
        if probe.gap is None:
            continue
        is_whole = probe.id in ("idle_operator", "few", "most")
        covered = subject.copied | subject.constant if is_whole else subject.constant
        if tolerances := beyond(probe.gap.under_all(subject.allowed), covered):
            stand.setdefault(probe.id, {})[probe.index] = tolerances
    gaps = {(probe.id, probe.index): probe.gap.excess for probe in probes if probe.gap}
    ignored = stand.get("ignores_operator", {})
    implied = _implied(subject.program, ignored)
    for i, tolerances in ignored.items():
        if i not in implied:
            yield _finding(subject, "ignores_operator", i, gaps, tolerances)
    for i, tolerances in stand.get("idle_operator", {}).items():
        if i not in ignored and i not in implied:
            yield _finding(subject, "idle_operator", i, gaps, tolerances)
    few, most = stand.get("few", {}), stand.get("most", {})
    for i, tolerances in (most | few).items():
        if i not in ignored and i not in implied:
            share = FEW if i in few else MOST
            yield _subsampled(subject, i, share, tolerances)
    for i, tolerances in stand.get("ignores_parameter", {}).items():
        users = subject.program.users()[subject.program.inputs[i].name]
        if not all(user in ignored or user in implied for user in users):
            yield _ignored_parameter(subject, i, gaps["ignores_parameter", i], tolerances)


def _implied(program: Program, ignored: Mapping[int, object]) -> set[int]:
    """Returns calls that are ignored because every call that reads them is ignored."""
    users = program.users()
    implied: set[int] = set()
    for i in reversed(range(len(program.calls))):
        names = program.calls[i].outputs
        readers = [user for name in names for user in users[name]]
        # A call that nothing reads is `unused_result`, a finding of its own.
        is_read = readers and not any(name in program.outputs for name in names)
        if is_read and all(user in ignored or user in implied for user in readers):
            implied.add(i)
    return implied


def _finding(
    subject: ProbedOperators,
    id: str,
    i: int,
    gaps: Mapping[tuple[str, int], float],
    tolerances: tuple[str, ...],
) -> Finding:
    name, excess = subject.program.calls[i].op, gaps[id, i]
    what = "swapped for another draw's result" if id == "ignores_operator" else "left out"
    message = f"{name} (call {i}) {what} changes the output by {excess:.2g} at most"
    return found(
        id,
        f"{message}, passes {', '.join(tolerances)}",
        measure=excess,
        tolerances=tolerances,
        operator=i,
    )


def _subsampled(
    subject: ProbedOperators, i: int, share: float, tolerances: tuple[str, ...]
) -> Finding:
    name = subject.program.calls[i].op
    message = f"{name} (call {i}) over {share:.2g} of its elements passes {', '.join(tolerances)}"
    return found(
        "subsampled",
        message,
        measure=share,
        tolerances=tolerances,
        operator=i,
        severity=Severity.DEGENERATE if share == FEW else Severity.WEAK,
    )


def _ignored_parameter(
    subject: ProbedOperators, i: int, excess: float, tolerances: tuple[str, ...]
) -> Finding:
    position = subject.first_parameter + list(subject.parameters).index(i)
    message = f"parameter {subject.parameters[i]} drawn afresh changes nothing beyond {excess:.2g}"
    return found(
        "ignores_parameter",
        f"{message}, passes {', '.join(tolerances)}",
        measure=excess,
        tolerances=tolerances,
        input=position,
    )
