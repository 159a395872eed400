"""Mends answers with a fault that their text shows.

The text before the fault is kept, because nineteen of twenty kernels may be right. The faulty part
is an entry of the plan if the plan lacks a kernel there, else a line of the code. New versions of
this part are drawn at random, because the likeliest version is the fault. The most frequent version
without the fault is taken. From there on the model writes as it wrote the answer, greedily for
example: at a higher temperature, a long rest would get new faults.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.core.candidate import Candidate
from kernelwright.core.plan import read_plans
from kernelwright.core.seed import derive
from kernelwright.policy.answer import PLAN_BEGIN, PLAN_END, read_answer
from kernelwright.policy.decode import Decoder, WrittenTokens
from kernelwright.policy.faults import first_fault
from kernelwright.policy.gaps import first_gap
from kernelwright.policy.places import ends_of
from kernelwright.policy.policy import Sampling
from kernelwright.programs.program import Program
from kernelwright.timing.stages import worked_s

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPERATURE = 1.0
"""The least temperature of new versions."""
VERSIONS = 8
"""The number of versions to choose from."""
PART_TOKENS = 96
"""The most tokens of a version. Most entries of plans have 20 to 75, most lines less than 50."""
_ENTRY = re.compile(r"^Plan of ", re.MULTILINE)
_ENTRY_END = re.compile(rf"\n(?=Plan of |{PLAN_END})")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fault:
    """The faulty part of an answer."""

    number: int
    """The index of the answer."""
    program: Program
    prompt: list[int]
    seed: int
    kept: list[int]
    """The answer's tokens before the part."""
    before: str
    """Their text."""
    rest: str
    """The answer's text from the part on."""
    is_in_plan: bool

    def end_in(self, text: str) -> int | None:
        """The place after the part in a text that begins with the part; None if the part does not
        end there."""
        if self.is_in_plan:
            match = _ENTRY_END.search(text, 1)
            return match.end() if match else None
        place = text.find("\n", 1)
        return place + 1 if place >= 0 else None

    def is_mended_by(self, version: str) -> bool:
        """Whether a version of the part lacks the fault, as far as the text before it tells."""
        if not self.is_in_plan:
            return not self.rest.startswith(version)
        entries = (self.before + version).partition(PLAN_BEGIN)[2]
        try:
            plan = list(read_plans(entries.splitlines()))
        except ValueError:
            return False
        # An output that is still unknown is no fault yet: further entries may make the output.
        return first_gap(plan, self.program) in (None, len(plan))


class Mender:
    """Continues faulty answers of one model."""

    def __init__(self, decoder: Decoder, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._decoder, self._tokenizer = decoder, tokenizer

    def mend(
        self,
        written: Sequence[WrittenTokens],
        prompts: Sequence[list[int]],
        programs: Sequence[Program],
        *,
        seeds: Sequence[int],
        sampling: Sampling,
    ) -> list[WrittenTokens]:
        """Write each answer with a fault again from the fault on, at most `sampling.mends` times.

        Args:
            written, prompts, programs, seeds: of each answer, in the same order.
            sampling: `for_s` limits the time of all continuations together.

        Returns:
            All answers in their order. If every continuation has a fault, the last one is kept.
        """
        mended, begin_s = list(written), worked_s()
        for turn in range(sampling.mends):
            faults = [
                fault
                for number, task in enumerate(zip(prompts, programs, seeds, strict=True))
                if (fault := self._fault(number, mended[number], *task))
            ]
            left = _left(sampling, begin_s)
            if not faults or left.for_s == 0:
                break
            begun = self._begun(faults, left, turn)
            continued = self._decoder.decode(
                [fault.prompt + tokens for fault, tokens in begun],
                seeds=[derive(fault.seed, "mend", turn) for fault, _ in begun],
                sampling=_left(sampling, begin_s),
            )
            for (fault, tokens), more in zip(begun, continued, strict=True):
                mended[fault.number] = replace(more, tokens=[*tokens, *more.tokens])
        return mended

    def _fault(
        self, number: int, answer: WrittenTokens, prompt: list[int], program: Program, seed: int
    ) -> _Fault | None:
        """The first fault of an answer; None without a fault."""
        text = self._text(answer.tokens)
        candidate = read_answer(text, origin="").candidate
        fault = None if candidate is None else first_fault(candidate.source, program)
        if candidate is None or fault is None:
            return None
        gap = _gap_place(text, candidate, program)
        # The candidate's lines are not the answer's, since the plan became comments. So the text of
        # the faulty line is searched for.
        line = candidate.source.splitlines()[fault.line - 1]
        place = text.find(f"\n{line}\n") + 1 if gap is None else gap
        if place == 0:
            return None
        kept = answer.tokens[: bisect_right(ends_of(answer.tokens, self._tokenizer), place)]
        before = self._text(kept)
        return _Fault(
            number=number,
            program=program,
            prompt=prompt,
            seed=seed,
            kept=kept,
            before=before,
            rest=text[len(before) :],
            is_in_plan=gap is not None,
        )

    def _begun(
        self, faults: Sequence[_Fault], sampling: Sampling, turn: int
    ) -> list[tuple[_Fault, list[int]]]:
        """The tokens of answers up to the end of a new version of the faulty part.

        An answer is left out if all versions have the fault. In the next turn, others are drawn.
        """
        draws = self._decoder.decode(
            [fault.prompt + fault.kept for fault in faults for _ in range(VERSIONS)],
            seeds=[
                derive(fault.seed, "version", turn, draw)
                for fault in faults
                for draw in range(VERSIONS)
            ],
            sampling=replace(
                sampling,
                temperature=max(sampling.temperature, TEMPERATURE),
                max_tokens=min(sampling.max_tokens, PART_TOKENS),
            ),
        )
        begun = []
        for index, fault in enumerate(faults):
            versions = Counter(
                version
                for draw in draws[index * VERSIONS : (index + 1) * VERSIONS]
                if (version := self._version(fault, draw.tokens))
            )
            if versions:
                [(chosen, _)] = versions.most_common(1)
                begun.append((fault, [*fault.kept, *chosen]))
        return begun

    def _version(self, fault: _Fault, drawn: list[int]) -> tuple[int, ...]:
        """The tokens of a version of the faulty part that lacks the fault; else no tokens."""
        text = self._text(drawn)
        end = fault.end_in(text)
        if end is None or not fault.is_mended_by(text[:end]):
            return ()
        return tuple(drawn[: bisect_right(ends_of(drawn, self._tokenizer), end)])

    def _text(self, tokens: list[int]) -> str:
        # Marks of plan and code are no special tokens to the tokenizer: they stay.
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))


def _left(sampling: Sampling, begin_s: float) -> Sampling:
    """The sampling, with the time that is left."""
    if sampling.for_s is None:
        return sampling
    return replace(sampling, for_s=max(0.0, sampling.for_s - (worked_s() - begin_s)))


def _gap_place(text: str, candidate: Candidate, program: Program) -> int | None:
    """The place of a gap in the plan of a faulty answer. The text from there on is written
    again."""
    gap = first_gap(candidate.plan, program) if candidate.plan else None
    end = text.find(PLAN_END)
    if gap is None or end < 0:
        return None
    entries = [match.start() for match in _ENTRY.finditer(text, 0, end)]
    return [*entries, end][gap] if len(entries) == len(candidate.plan) else None
