"""A pair: a request and the answer to it, one line of a data set to train kernel writers on.

Columns are flat, so that `datasets` loads the file as it is: texts, integers and lists of texts,
with nested values as JSON text. `prompt` and `completion` are conversations in TRL's form.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.verdict import INTERPRETER, Code, Verdict
from kernelwright.policy.answer import answer_text
from kernelwright.policy.prompt import Request, request_text
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.program import Program

TRAIN, VALIDATION = "train", "validation"
UNVERIFIED = "unverified"
"""In place of a verdict's code, where only a sample was judged and this was not in it."""
TOO_SLOW = "too_slow_to_interpret"
"""Likewise, where Triton's interpreter took too long: the pair goes nowhere."""
MANY_CALLS = 10
"""More of them make a program the hardest kind."""
_SHARES = 1 << 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One line. Every pair has every column, in this order."""

    id: str
    """PART/INDEX/NUMBER: of the recipe's part, of the program in it, of the answer."""
    prompt: str
    """The user's message (docs/answer-format.md)."""
    completion: str
    """The assistant's."""
    reasoning: str
    """The text that a model wrote before its answer; mostly nothing."""
    source: str
    """Who answered: "teacher", "inductor", "llm"."""
    origin: str
    """The origin of the program: "synth", or the package or file that it was collected from."""
    licence: str
    level: int
    """Calls of the program."""
    difficulty: int
    """1 to 4: see `difficulty_of`."""
    operators: tuple[str, ...]
    """The operators of the calls, in program order."""
    families: tuple[str, ...]
    """Kinds of operators, each once, sorted."""
    kernels: int
    loops: tuple[str, ...]
    """How each kernel loops, as the plan says."""
    schedule: str
    """Loop, precision and tiles of each kernel, in one line."""
    precision: str
    mode: str
    canonical: str
    """Fingerprint of the program: equal ones are the same program."""
    verdict: str
    """The judge's code, or UNVERIFIED."""
    split: str
    """TRAIN or VALIDATION."""
    program: str
    """The program's canonical text, which is in the prompt too."""
    provenance: Record = field(default_factory=dict)
    """How it came about: whatever lets it be made again."""

    def to_json(self) -> Record:
        values: Record = {name: getattr(self, name) for name in self.__slots__}
        return values | {
            "prompt": [{"role": "user", "content": self.prompt}],
            "completion": [{"role": "assistant", "content": self.completion}],
            "operators": list(self.operators),
            "families": list(self.families),
            "loops": list(self.loops),
            "provenance": json.dumps(self.provenance),
        }


def make_pair(
    name: str, request: Request, candidate: Candidate, canonical: str, **columns: Any
) -> Pair:
    """The pair of a request and a candidate for it.

    Args:
        name: its id.
        canonical: fingerprint of the request's program.
        columns: those that neither says: source, origin, licence, split, ...
    """
    program = request.program
    calls = [call for call in program.calls if not call.is_extern]
    return Pair(
        id=name,
        prompt=request_text(request),
        completion=answer_text(candidate),
        level=len(program.calls),
        difficulty=difficulty_of(program, len(candidate.plan)),
        operators=tuple(call.op for call in program.calls),
        families=tuple(sorted({call.operator.family for call in calls})),
        kernels=len(candidate.plan),
        loops=tuple(plan.loop for plan in candidate.plan),
        schedule=candidate.schedule,
        precision=request.precision,
        mode=request.mode,
        canonical=canonical,
        **columns,
    )


def with_verdict(line: Record, verdict: Verdict) -> Record:
    """A pair's line with the verdict's code; a rejected pair has stage, message and line too."""
    judged = line | {"verdict": verdict.code.value}
    if verdict.accepted:
        return judged
    why = {"stage": verdict.stage.value, "message": verdict.message, "line": verdict.line or 0}
    return judged | why


def is_rejected(line: Record) -> bool:
    """Whether the judge rejected the pair of a line that `with_verdict` made."""
    return "stage" in line


def is_too_slow(verdict: Verdict) -> bool:
    """Whether Triton's interpreter took too long. That says nothing against a kernel."""
    return verdict.code is Code.TIMEOUT and verdict.device == INTERPRETER


def difficulty_of(program: Program, num_kernels: int) -> int:
    """The difficulty of a pair, 1 to 4.

    1: one call in one kernel. 2: several calls in one kernel, or one call in several kernels.
    3: several calls in several kernels. 4: more than MANY_CALLS calls. Views need no kernel and do
    not count.
    """
    num_calls = sum(call.op not in RELABELLING for call in program.calls)
    if num_calls > MANY_CALLS:
        return 4
    return 1 + (num_calls > 1) + (num_kernels > 1)


def split_of(canonical: str, share: float, seed: int) -> str:
    """TRAIN or VALIDATION, by the program's fingerprint alone. All pairs of a program are on one
    side, in every data set that has the same seed.

    Args:
        share: of programs that are on the validation side.
    """
    return VALIDATION if chance(seed, "split", canonical) < share else TRAIN


def chance(seed: int, *names: object) -> float:
    """A number in [0, 1) that depends on the seed and the names alone."""
    return (derive(seed, *names) % _SHARES) / _SHARES
