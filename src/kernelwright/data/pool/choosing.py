"""Chooses the answers to judge: the greedy one, the best by the cost model, some by chance."""

import random
from collections.abc import Sequence

from kernelwright.core.seed import derive
from kernelwright.data.pool.answers import Chosen, PoolAnswer, PoolProgram
from kernelwright.data.pool.recipe import Choice
from kernelwright.data.pool.writing import POLICY, TEACHER
from kernelwright.policy.answer import read_answer
from kernelwright.programs.program import Program
from kernelwright.programs.tensors import meta_tensor
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.sandbox.shared.contract import GuestFault

FAILED = 1 << 30
"""In place of spilled bytes, for a candidate that does not compile."""


def choose(program: PoolProgram, parsed: Program, choice: Choice, seed: int) -> None:
    """Set `chosen` of the answers to judge, and empty the answers that nobody will learn from.

    The greedy answer and the teacher's are always chosen, if they hold a candidate. So are the
    `choice.best` first of the ranked draws, and `choice.random` of the rest.

    Args:
        program: its answers are changed in place. Number 0 is the greedy answer.
        seed: of the recipe.

    Raises:
        InfraError: a candidate was to be compiled, and our side failed.
    """
    drawn = [a for a in program.answers if a.writer == POLICY and not a.malformed]
    greedy = program.answers[0]
    if greedy.writer == POLICY and not greedy.malformed:
        greedy.chosen = Chosen.GREEDY
    others = [answer for answer in drawn if answer.chosen is None]
    ranked = _ranked(others, parsed, choice.compiled)
    for answer in ranked[: choice.best]:
        answer.chosen = Chosen.BEST
    left = ranked[choice.best :]
    rng = random.Random(derive(seed, "random", program.fingerprint))
    for answer in rng.sample(left, min(choice.random, len(left))):
        answer.chosen = Chosen.RANDOM
    for answer in program.answers:
        if answer.writer == TEACHER and not answer.malformed:
            answer.chosen = Chosen.TEACHER
        # An answer without a verdict teaches nothing. A malformed answer keeps its tokens: it is
        # known to be wrong without a judge.
        if answer.chosen is None and not answer.malformed:
            answer.tokens, answer.logps = answer.tokens[:0], answer.logps[:0]
            answer.text = ""


def _ranked(answers: Sequence[PoolAnswer], program: Program, compiled: int) -> list[PoolAnswer]:
    """Answers in the order of choice: the fastest first by the cost model, and of equally fast ones
    the one that was written more often.

    Args:
        compiled: how many of the first are compiled. Those that spill registers, or do not compile,
            go behind all others.
    """
    ranked = sorted(answers, key=lambda answer: (answer.planned_s, -answer.copies, answer.number))
    if not compiled:
        return ranked
    first, rest = ranked[:compiled], ranked[compiled:]
    # The cost model counts the bytes of the plan, and does not see traffic of spilled registers.
    for answer in first:
        answer.spills = _spills(answer.text, program)
    whole = [answer for answer in first if not answer.spills]
    spilling = [answer for answer in first if answer.spills]
    return [*whole, *rest, *sorted(spilling, key=lambda answer: answer.spills or 0)]


def _spills(text: str, program: Program) -> int:
    """Bytes that the kernels of an answer spill on sm_90; FAILED where they do not compile.

    Raises:
        InfraError: our side broke.
    """
    candidate = read_answer(text, origin=POLICY).candidate
    assert candidate is not None, "answers that are ranked have a candidate"
    inputs = [meta_tensor(value.type) for value in program.inputs]
    try:
        report = compile_check(candidate.source, inputs)
    except GuestFault:
        return FAILED
    return max((usage.spills for usage in report.kernels.values()), default=FAILED)
