"""Whether programs run: results as predicted, and FLOPs as torch counts them."""

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.core.record import Record
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import evaluate_call, make_inputs
from kernelwright.programs.tensors import meta_tensor, type_of


@dataclass(slots=True)
class Executed:
    """Observations of programs that ran."""

    programs: int = 0
    calls: int = 0
    counted: int = 0
    """Calls that torch's counter counts too."""
    wrong: list[str] = field(default_factory=list)
    not_finite: int = 0
    """Programs of which a result has an infinity or a NaN."""
    too_large: int = 0
    """Programs that found no memory with the device to themselves."""
    by_operator: Counter[str] = field(default_factory=Counter)

    def merge(self, other: "Executed") -> None:
        for name in ("programs", "calls", "counted", "not_finite", "too_large"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong
        self.by_operator.update(other.by_operator)

    def to_json(self) -> Record:
        return {
            "programs": self.programs,
            "calls": self.calls,
            "counted": self.counted,
            "wrong": self.wrong,
            "not_finite": self.not_finite,
            "too_large": self.too_large,
            "operators": len(self.by_operator),
        }


def execute(program: Program, device: str, found: Executed) -> None:
    """Run a program call by call on random inputs, and hold each result against its type.

    Raises:
        torch.OutOfMemoryError: as it says; nothing of the program is counted in `found`.
    """
    one = Executed(programs=1)
    try:
        _execute(program, device, one)
    finally:
        if device == "cuda":
            torch.cuda.empty_cache()  # other processes need it
    found.merge(one)


def _execute(program: Program, device: str, found: Executed) -> None:
    env = dict(zip((i.name for i in program.inputs), make_inputs(program, 0, device), strict=True))
    is_finite = True
    last_use = {name: i for i, call in enumerate(program.calls) for name in call.refs()}
    with torch.no_grad():
        for number, call in enumerate(program.calls):
            results = evaluate_call(call, env)
            found.calls += 1
            found.by_operator[call.op] += 1
            result_types = tuple(map(type_of, results))
            if [(t.shape, t.dtype) for t in result_types] != [
                (t.shape, t.dtype) for t in call.types
            ]:
                found.wrong.append(f"{call.op}: {result_types} where {call.types} was said")
            is_finite &= all(bool(r.isfinite().all()) for r in results if r.is_floating_point())
            _check_flops(program, call, found)
            env.update(zip(call.outputs, results, strict=True))
            for name in call.refs():
                if last_use[name] == number:
                    env.pop(name, None)
    found.not_finite += not is_finite


def _check_flops(program: Program, call: Call, found: Executed) -> None:
    """On tensors without memory; where torch counts nothing, there is nothing to compare."""
    env = {name: meta_tensor(program.type_of(name)) for name in call.refs()}
    with FlopCounterMode(display=False) as counter:
        evaluate_call(call, env)
    theirs = counter.get_total_flops()
    if theirs:
        found.counted += 1
        ours = call.operator.flops(program.bound(call), call.types)
        if ours != theirs:
            found.wrong.append(f"{call.op}: {ours} FLOPs said, {theirs} counted")
