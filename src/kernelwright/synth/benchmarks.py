"""Recognizes programs that are a task of KernelBench or TritonBench. No training uses these.

A task is recognized by its fingerprint: the graph of its calls, without sizes, dtypes, numbers and
calls that only relabel elements. `benchmarks.json` beside this file holds the fingerprints of the
two suites. `kernelwright data fingerprints` makes such a file of any other suite.
"""

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.build import map_refs
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Call, Program, Ref

SHIPPED = "benchmarks.json"
_RELABELS = names_with(Trait.RESHAPES, Trait.PERMUTES, Trait.BROADCASTS) | {"to_layout", "to_dtype"}


def task_fingerprint(program: Program) -> tuple[str, int]:
    """(fingerprint, number of calls) of a program's computation, without its sizes."""
    core = _without_relabelling(program)
    return fingerprint(core, sizes=False), len(core.calls)


def _without_relabelling(program: Program) -> Program:
    """The program without calls that only relabel elements, and without idle dropout."""
    names: dict[str, str] = {}
    calls = []
    for call in program.calls:
        args = map_refs(call.args, lambda ref: Ref(names.get(ref.name, ref.name)))
        kept = replace(call, args=args)
        if _relabels(call):
            names[call.outputs[0]] = next(kept.refs())
        else:
            calls.append(kept)
    outputs = tuple(names.get(name, name) for name in program.outputs)
    return Program(program.inputs, tuple(calls), outputs)


def _relabels(call: Call) -> bool:
    if call.op == "dropout":
        return call.arg("training") is False or call.arg("p") == 0
    return call.op in _RELABELS


def is_benchmark(program: Program, avoid: tuple[str, ...] = ()) -> bool:
    """Whether a program of two or more calls is a task of a benchmark.

    Programs of one call never count: every operator is a task of some benchmark, and a policy has
    to learn every operator.

    Args:
        avoid: more files of fingerprints, with the layout of the shipped file.

    Raises:
        UsageError: a file of `avoid` cannot be read.
    """
    if len(program.calls) < 2:
        return False
    fingerprint, num_calls = task_fingerprint(program)
    return num_calls > 1 and fingerprint in known(avoid)


def is_vocabulary(program: Program) -> bool:
    """Whether a program of one call is a task of a shipped benchmark. Such programs are counted,
    and still used."""
    fingerprint, num_calls = task_fingerprint(program)
    return num_calls < 2 and fingerprint in _shipped()["one_call"]


@cache
def known(avoid: tuple[str, ...]) -> frozenset[str]:
    """Fingerprints of the shipped benchmarks and of those in these files.

    Raises:
        UsageError: a file cannot be read, or has another layout.
    """
    fingerprints = set(_shipped()["fingerprints"])
    for path in avoid:
        fingerprints |= set(_read(Path(path))["fingerprints"])
    return frozenset(fingerprints)


@cache
def _shipped() -> Record:
    listed: Record = json.loads(files("kernelwright.synth").joinpath(SHIPPED).read_text())
    return listed


def _read(path: Path) -> Record:
    remedy = "give a file that `kernelwright data fingerprints` wrote"
    try:
        listed: Record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(str(error), file=str(path), remedy=remedy) from error
    if not isinstance(listed, dict) or not isinstance(listed.get("fingerprints"), list):
        raise UsageError("it holds no fingerprints", file=str(path), remedy=remedy)
    return listed
