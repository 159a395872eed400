"""How often the judge is wrong about numbers: computations that stand in for candidates.

python -m tools.stand_ins OUT.jsonl [LEVEL ..]

Of each program of synthetic-v1, scaled down no further than a CPU needs, PyTorch computes what a
faithful kernel writer might, call by call, and what a careless one might. The judge's cases and
comparison say which are right; nothing is compiled, so that this needs no GPU. Each stand-in is one
record.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.verdict import Precision
from kernelwright.ops.rules import is_float
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import largest, scaled_down
from kernelwright.programs.tensors import torch_dtype
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.verify import checks
from kernelwright.verify.ignored import ignored_calls
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.tasks.cases import Cases, Posed
from kernelwright.verify.tasks.oracle import Nudges, rounded_somehow
from kernelwright.verify.tasks.program_task import ProgramTask, at_aligned_shapes, program_task
from kernelwright.verify.tasks.shared_cases import SharedCases
from kernelwright.verify.tasks.task import CPU
from kernelwright.verify.values import second_look
from kernelwright.verify.values.compare import Tensors, compare

RULES = Rules(CPU, Precision.STRICT, "pure")
LEVELS = (1, 2, 5, 20)
MAX_ELEMENTS, MAX_FLOPS = 1 << 20, 1 << 32
"""The limits of a value and of a program: seconds of a core in float64."""
FILLERS = (437.5, 438.5, 0.0)
"""The contents of memory that nobody has written, as the judge's silence has it: odd, even and
zero."""
TILE = 64
"""Wrong tails are this share of a result."""

StandIn = Callable[[Program, list[torch.Tensor], int, int], list[torch.Tensor]]
"""Program, inputs, seed, number of the call that is wrong -> outputs."""


def rounded_each(
    program: Program, inputs: list[torch.Tensor], seed: int, _: int
) -> list[torch.Tensor]:
    """Right: each call exact, then rounded to its type; float32 an ulp off."""

    def rounded(call: Call, results: Tensors) -> Tensors:
        dtypes = [torch_dtype(result_type.dtype) for result_type in call.types]
        return tuple(_rounded(v, d, seed) for v, d in zip(results, dtypes, strict=True))

    return _narrowed(program, run(program, inputs, torch.float64, rounded))


def fused(program: Program, inputs: list[torch.Tensor], seed: int, _: int) -> list[torch.Tensor]:
    """Right: one kernel, float32 throughout whatever the program's types are."""

    def rounded(_: Call, results: Tensors) -> Tensors:
        return tuple(_rounded(value, torch.float32, seed) for value in results)

    return _narrowed(program, run(program, inputs, torch.float64, rounded))


def decomposed(program: Program, inputs: list[torch.Tensor], _: int, __: int) -> list[torch.Tensor]:
    """Right: PyTorch's own decompositions into simpler operators, in the program's types."""

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return run(program, tensors)

    simpler: Any = core_aten_decompositions()
    outputs = make_fx(function, decomposition_table=simpler)(*inputs)(*inputs)
    return [output.contiguous() for output in outputs]


def in_bfloat16(
    program: Program, inputs: list[torch.Tensor], _: int, __: int
) -> list[torch.Tensor]:
    """Wrong in float32: eight bits of what each call makes."""

    def rounded(_: Call, results: Tensors) -> Tensors:
        return tuple(v.bfloat16().double() if v.is_floating_point() else v for v in results)

    return _narrowed(program, run(program, inputs, torch.float64, rounded))


def stale(
    program: Program, inputs: list[torch.Tensor], seed: int, number: int, *, tail: int
) -> list[torch.Tensor]:
    """Wrong: the call's last elements, one in `tail` and one at least, are of other inputs."""
    wanted, recorded = program.calls[number], []

    def kept(call: Call, results: Tensors) -> Tensors:
        if call is wanted:
            recorded.append(results)
        return results

    def spoilt(call: Call, results: Tensors) -> Tensors:
        if call is not wanted:
            return results
        return tuple(_with_tail(v, o, tail) for v, o in zip(results, recorded[0], strict=True))

    run(program, make_inputs(program, derive(seed, "other")), after=kept)
    return run(program, inputs, after=spoilt)


def one_value(program: Program, inputs: list[torch.Tensor], _: int, __: int) -> list[torch.Tensor]:
    """Wrong: of whole numbers and truths, the one that is most frequent, everywhere."""
    return [
        output
        if output.is_floating_point()
        else torch.full_like(output, int(output.flatten().mode()[0]))
        for output in run(program, inputs)
    ]


RIGHT: dict[str, StandIn] = {
    "rounded each": rounded_each, "fused": fused, "decomposed": decomposed,
}  # fmt: skip
WRONG: dict[str, StandIn] = {
    "in bfloat16": in_bfloat16,
    "a stale tile": partial(stale, tail=TILE),
    "a stale element": partial(stale, tail=sys.maxsize),
    "one value": one_value,
}


def _rounded(value: torch.Tensor, dtype: torch.dtype, seed: int) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    if dtype is torch.float32:
        return cast(torch.Tensor, rounded_somehow(value, Nudges(seed, dtype)))
    return value.to(dtype).double()


def _narrowed(program: Program, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    pairs = zip(outputs, program.outputs, strict=True)
    return [output.to(torch_dtype(program.type_of(name).dtype)) for output, name in pairs]


def _with_tail(value: torch.Tensor, other: torch.Tensor, tail: int) -> torch.Tensor:
    mixed = value.clone(memory_format=torch.contiguous_format)
    length = max(1, value.numel() // tail)
    mixed.view(-1)[-length:] = other.reshape(-1)[-length:]
    return mixed


# Judging


def judged(task: ProgramTask, name: str, cases: Cases, number: int) -> Record:
    """The verdicts of the first and the second look, up to the first case that refuses the
    stand-in."""
    first, second, num_cases = "", "", 0
    for case in cases.all():
        posed = cases.pose_if_defined(case)
        if posed is None:
            continue
        variant = cases.variants[case.variant]
        assert isinstance(variant, ProgramTask)
        num_cases += 1
        stand_in, seed = (RIGHT | WRONG)[name], derive(case.seed, name)
        outputs = stand_in(variant.program, posed.inputs, seed, number)
        looked, again = _looks(variant, posed, tuple(outputs))
        first, second = first or looked, again
        if second:
            break
    return {
        "record": "stand_in", "program": task.name, "stand_in": name, "is_right": name in RIGHT,
        "call": task.program.calls[number].op, "cases": num_cases,
        "refused_at_first": first, "refused": second,
    }  # fmt: skip


def _looks(task: ProgramTask, posed: Posed, outputs: Tensors) -> tuple[str, str]:
    """Why each look refuses; "" where it does not."""
    expected, seed = posed.answer.outputs, posed.case.seed
    try:
        checks.check_comparison(compare(outputs, expected, RULES.precision))
    except WrongOutputs as wrong:
        try:
            call = second_look.ReferenceCall(task, posed.inputs, seed, expected)
            second_look.look_again(wrong, outputs, call, RULES)
        except WrongOutputs as still:
            return _why(posed, wrong), _why(posed, still)
        return _why(posed, wrong), ""
    return "", ""


def _why(posed: Posed, wrong: WrongOutputs) -> str:
    return f"{posed.case.family}: {wrong.code}: {wrong.message}"


def idle_calls(cases: Cases) -> list[str]:
    """Calls for which a kernel of their own would look like a decoy: without what it writes, the
    outputs are right."""
    assert isinstance(cases.base, ProgramTask)
    posed = [case for case in map(cases.pose_if_defined, cases.telling()) if case is not None]
    return [
        call.outputs[0]
        for number, call in enumerate(cases.base.program.calls)
        if not any(_matters(number, case, cases, filler) for case in posed for filler in FILLERS)
    ]


def _matters(number: int, posed: Posed, cases: Cases, filler: float) -> bool:
    task = cases.variants[posed.case.variant]
    assert isinstance(task, ProgramTask)
    silent = task.program.calls[number]

    def silenced(call: Call, results: Tensors) -> Tensors:
        return tuple(torch.full_like(v, filler) for v in results) if call is silent else results

    try:
        outputs = run(task.program, posed.inputs, after=silenced)
    except (RuntimeError, IndexError):  # no index, no probability
        return True
    return compare(outputs, posed.answer.outputs, RULES.precision).mismatch is not None


def stand_ins(level: int) -> Iterator[Record]:
    """The stand-ins for each program of a level whose operators a CPU has."""
    drawn = [line for line in benchmark_programs() if line["drawn"]["group"] == f"level {level}"]
    for number, line in enumerate(drawn, 1):
        program = scaled_down(parse(line["text"]), MAX_ELEMENTS, max_flops=MAX_FLOPS)
        task = program_task(program, name=f"synthetic-v1/L{level}/{number}")
        cases = SharedCases({"base": task, **at_aligned_shapes(task, 0)}, RULES, number)
        try:
            yield from _of_program(cases, number)
        except (UsageError, RuntimeError) as error:  # a 16-bit operator that only GPUs have
            why = str(error).splitlines()[0]
            yield {"record": "left_out", "program": task.name, "why": why}


def _of_program(cases: Cases, number: int) -> Iterator[Record]:
    task, ignored = cases.base, ignored_calls(cases)
    assert isinstance(task, ProgramTask)
    program = task.program
    yield {
        "record": "ignored", "program": task.name, "calls": list(ignored),
        "idle": idle_calls(cases), "elements": largest(program),
    }  # fmt: skip
    calls = [i for i, c in enumerate(program.calls) if c.outputs[0] not in ignored]
    call = random.Random(number).choice(calls)
    floats = {
        result_type.dtype
        for c in program.calls
        for result_type in c.types
        if is_float(result_type.dtype)
    }
    left_out = {
        "in bfloat16": floats != {"float32"},
        "one value": all(is_float(program.type_of(name).dtype) for name in program.outputs),
    }
    for name in RIGHT | WRONG:
        if not left_out.get(name):
            yield judged(task, name, cases, call)


def main(out: Path, levels: list[int]) -> None:
    """Write the records, a line each as it is found."""
    with out.open("w") as file:
        file.write(json.dumps({"record": "run", "environment": record.environment()}) + "\n")
        for level in levels:
            for stand_in in stand_ins(level):
                file.write(json.dumps(stand_in) + "\n")
                file.flush()


if __name__ == "__main__":
    path, *levels = sys.argv[1:]
    main(Path(path), [int(level) for level in levels] or list(LEVELS))
