"""Whether the positions that a program computes lie within what it reads there.

A fragment is judged on random inputs. Where it computes positions from them, a position may lie
outside of the table. A CPU raises an exception then, but a GPU ends the whole process.
"""

import math
from collections.abc import Iterator

import torch

from kernelwright.programs.fragments.fragment import RELABELLING, CallGraph
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import evaluate_call, make_input
from kernelwright.programs.tensors import torch_dtype

READERS = (
    "index", "gather", "scatter", "embedding", "nll", "entropy", "take", "put", "one_hot",
    "bernoulli", "multinomial", "margin", "ctc",
)  # fmt: skip
"""Parts of the names of operators that end a CUDA context at a value out of range. On a CPU such a
value raises an exception."""
ASSERT_VALUES = ("bernoulli", "multinomial", "binary_cross_entropy")
"""Parts of the names of readers that check floating-point values too: probabilities."""
DRAWS = (("plain", 0), ("plain", 1), ("plain", 2), ("scaled", 3))
"""Families and seeds of the inputs. Positions that are not clamped leave their range when the
inputs are ten times as large."""
MAX_ELEMENTS, MAX_FLOPS = 1 << 26, 10**10
"""The most work that is done on the CPU to compute positions."""


def stay_in_range(program: Program) -> bool:
    """Whether every position that the program computes lies in its table, for several draws.

    Probabilities that an operator checks must lie between 0 and 1. Positions that are inputs are
    drawn from their range (`programs.draws.initial`). The result is False if the computation is too
    large for the CPU.
    """
    readers = _readers(program)
    if not readers:
        return True
    needed = calls_of_positions(program)
    calls = [program.calls[i] for i in needed]
    if all(call.op in RELABELLING for call in calls):
        return True
    run = [program.calls[i] for i in needed.union(readers)]
    num_elements = sum(math.prod(result.shape) for call in run for result in call.types)
    if num_elements > MAX_ELEMENTS or sum(map(program.flops_of, calls)) > MAX_FLOPS:
        return False
    return all(_is_in_range(program, needed, readers, *draw) for draw in DRAWS)


def calls_of_positions(program: Program) -> set[int]:
    """The numbers of all calls from whose results positions, or checked probabilities, come."""
    readers = (program.calls[i] for i in _readers(program))
    return _what_computes(program, {name for call in readers for name in _positions(program, call)})


def _readers(program: Program) -> list[int]:
    return [i for i, call in enumerate(program.calls) if any(r in call.op for r in READERS)]


def _positions(program: Program, call: Call) -> Iterator[str]:
    """The integer tensors that a call reads, and the probabilities that it checks."""
    if any(part in call.op for part in ASSERT_VALUES) and "with_logits" not in call.op:
        yield from call.refs()
        return
    dtypes = ((name, program.type_of(name).dtype) for name in call.refs())
    yield from (name for name, dtype in dtypes if dtype.startswith(("int", "uint")))


def _what_computes(program: Program, names: set[str]) -> set[int]:
    """The numbers of all calls on which these values depend."""
    producer, before = program.producer(), CallGraph(program).before
    pending = [producer[name] for name in names if name in producer]
    calls: set[int] = set()
    while pending:
        call = pending.pop()
        if call not in calls:
            calls.add(call)
            pending += before[call]
    return calls


def _is_in_range(
    program: Program, needed: set[int], readers: list[int], family: str, seed: int
) -> bool:
    inputs = {value.name: value for value in program.inputs}
    env: dict[str, torch.Tensor] = {}
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        try:
            for i in sorted(needed.union(readers)):
                call = program.calls[i]
                positions = {*_positions(program, call)}
                for name in call.refs():
                    if name in inputs and (i in needed or name in positions):
                        env[name] = make_input(inputs[name], seed, family=family)
                    else:  # no position depends on a value that is missing here
                        env.setdefault(name, _zeros(program, name))
                env.update(zip(call.outputs, evaluate_call(call, env), strict=True))
        except Exception:  # whatever an overload raises on a CPU
            return False
    return True


def _zeros(program: Program, name: str) -> torch.Tensor:
    value_type = program.type_of(name)
    return torch.zeros((), dtype=torch_dtype(value_type.dtype)).expand(value_type.shape)
