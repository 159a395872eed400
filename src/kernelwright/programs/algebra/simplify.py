"""Applies rewrites to a program as long as they make it cheaper.

A rule only tells which calls are equal. This module decides for all rules whether a rewriting is
kept: memory traffic and arithmetic together must fall, or stay the same with fewer calls. So every
step is strictly cheaper, and the process ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.programs.algebra.elsewhere import Elsewhere
from kernelwright.programs.algebra.site import Rule, Site
from kernelwright.programs.algebra.table import RULES
from kernelwright.programs.build import dead_code, map_refs
from kernelwright.programs.dataflow import Dataflow
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.program import Call, Program, Ref

FLOPS_A_BYTE = 16
"""Arithmetic that takes the time of moving a byte: fp32 products on a recent GPU do about this."""

UNUSED = "unused_call"

Test = Callable[[Program], bool]


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified program."""

    program: Program
    rewrites: tuple[str, ...]
    """Names of the rules that were used, each once, in order of first use."""


def simplified(
    program: Program, rules: Sequence[Rule] = RULES, *, at_other_sizes: bool = False
) -> Simplified:
    """The program with every rewrite applied that makes it cheaper, until none does.

    Inputs, their order and the types of the outputs stay.

    Args:
        at_other_sizes: leave out rewrites that do not hold at other sizes of the program.
    """
    may_be: Test = Elsewhere(program).agrees if at_other_sizes else lambda _: True
    current = dead_code(program)
    names = [UNUSED] if len(current.calls) < len(program.calls) else []
    while rewritten := _sweep(current, rules, may_be):
        current, used = rewritten
        names += used
    return Simplified(current, tuple(dict.fromkeys(names)))


def cost(program: Program) -> tuple[int, int]:
    """(flops and bytes in one unit, number of calls); views move nothing."""
    work = sum(_work(program, call) for call in program.calls)
    return work, len(program.calls)


def _work(program: Program, call: Call) -> int:
    if call.op in RELABELLING:
        return 0
    if call.is_extern:
        names = {*call.refs(), *call.outputs}
        return FLOPS_A_BYTE * sum(program.type_of(name).num_bytes for name in names)
    bound = program.bound(call)
    flops = call.operator.flops(bound, call.types)
    return flops + FLOPS_A_BYTE * call.operator.bytes_moved(bound, call.types)


def _sweep(
    program: Program, rules: Sequence[Rule], may_be: Test
) -> tuple[Program, list[str]] | None:
    """(The program, names of the rules used) after each rule was tried on every call.

    None if no rule was used.
    """
    used: list[str] = []
    flow, least = Dataflow(program), cost(program)
    for rule in rules:
        i = 0
        while i < len(flow.program.calls):
            candidate = _applied(flow, i, rule)
            # The test at other sizes runs the program, so it comes last. After a rewriting the same
            # place is tried again, since the new call may match too.
            if candidate is not None and (price := cost(candidate)) < least and may_be(candidate):
                flow, least = Dataflow(candidate), price
                used.append(rule.__name__)
            else:
                i += 1
    return (flow.program, used) if used else None


def _applied(flow: Dataflow, index: int, rule: Rule) -> Program | None:
    """The program with the rule used on one call.

    None in three cases: the rule does not apply; an operator refuses the new calls; or the new
    result has another type, or shares memory that the old result did not share.
    """
    site = Site(flow, index)
    try:
        replacement = None if site.call.is_extern else rule(site)
    except ValueError:
        return None
    if replacement is None:
        return None
    program, instead = flow.program, dict(zip(site.call.outputs, replacement, strict=True))
    if any(site.type_of(new) != program.type_of(old) for old, new in instead.items()):
        return None
    calls = (
        *program.calls[:index],
        *site.added,
        *(_reading(call, instead) for call in program.calls[index + 1 :]),
    )
    outputs = tuple(instead.get(name, Ref(name)).name for name in program.outputs)
    rewritten = Program(program.inputs, calls, outputs)
    if _owners(rewritten) != _owners(program):
        return None
    return dead_code(rewritten)


def _reading(call: Call, instead: dict[str, Ref]) -> Call:
    args = map_refs(call.args, lambda ref: instead.get(ref.name, ref))
    return Call(call.op, args, call.outputs, call.types)


def _owners(program: Program) -> list[str | int]:
    """For each output, the owner of its memory: an input, or the first output that shares it.

    Inputs are given by name, outputs by position.

    A caller may change a result in place. So a fresh result must not become a view of an input or
    of another result.
    """
    producer = program.producer()
    owners: list[str | int] = []
    roots: dict[str, int] = {}
    for position, name in enumerate(program.outputs):
        while name in producer and program.calls[producer[name]].op in RELABELLING:
            name = next(program.calls[producer[name]].refs())
        owners.append(roots.setdefault(name, position) if name in producer else name)
    return owners
