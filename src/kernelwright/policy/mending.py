"""Writes answers again from the first fault that their text shows.

The text before the fault is kept, because nineteen of twenty kernels may be right. If the plan of a
faulty answer lacks a kernel, only the text before this gap of the plan is kept. The continuation is
drawn at random, even if the answer was greedy: the likeliest continuation would be the same fault.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.policy.answer import PLAN_END, read_answer
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
"""The temperature of continuations of greedy answers."""
_ENTRY = re.compile(r"^Plan of ", re.MULTILINE)


@dataclass(slots=True)
class _Row:
    """An answer with a fault, and its prompt."""

    number: int
    prompt: list[int]
    seed: int
    keep: int
    """Tokens before the fault."""


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
        drawn = replace(sampling, temperature=sampling.temperature or TEMPERATURE)
        for turn in range(sampling.mends):
            if sampling.for_s is not None:
                drawn = replace(drawn, for_s=sampling.for_s - (worked_s() - begin_s))
                if drawn.for_s is not None and drawn.for_s <= 0:
                    break
            rows = [
                _Row(number, prompts[number], derive(seeds[number], "mend", turn), keep)
                for number, answer in enumerate(mended)
                if (keep := self._kept(answer, programs[number])) is not None
            ]
            if not rows:
                break
            continued = self._decoder.decode(
                [row.prompt + mended[row.number].tokens[: row.keep] for row in rows],
                seeds=[row.seed for row in rows],
                sampling=drawn,
            )
            for row, more in zip(rows, continued, strict=True):
                kept = mended[row.number].tokens[: row.keep]
                mended[row.number] = replace(more, tokens=[*kept, *more.tokens])
        return mended

    def _kept(self, answer: WrittenTokens, program: Program) -> int | None:
        """The number of an answer's tokens before its first fault; None without a fault."""
        text = str(self._tokenizer.decode(answer.tokens, skip_special_tokens=True))
        candidate = read_answer(text, origin="").candidate
        fault = None if candidate is None else first_fault(candidate.source, program)
        if candidate is None or fault is None:
            return None
        place = _gap_place(text, candidate, program)
        if place is None:
            # The candidate's lines are not the answer's, since the plan became comments. So the
            # text of the faulty line is searched for.
            line = candidate.source.splitlines()[fault.line - 1]
            place = text.find(f"\n{line}\n") + 1
        if place == 0:
            return None
        return bisect_right(ends_of(answer.tokens, self._tokenizer), place)


def _gap_place(text: str, candidate: Candidate, program: Program) -> int | None:
    """The place of a gap in the plan of a faulty answer. The text from there on is written
    again."""
    gap = first_gap(candidate.plan, program) if candidate.plan else None
    end = text.find(PLAN_END)
    if gap is None or end < 0:
        return None
    entries = [match.start() for match in _ENTRY.finditer(text, 0, end)]
    return [*entries, end][gap] if len(entries) == len(candidate.plan) else None
