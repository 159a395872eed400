"""Credit for single kernels: tokens of a wrong answer's kernels by the kernels' own verdicts.

A wrong answer to a program of twenty calls may have nineteen right kernels, but its reward lowers
the probability of all kernels. With verdicts on steps, the tokens of a step get their own
advantage instead of the answer's: 1 for a right step or 0 for a wrong step, minus the share of
right steps among all steps of the group. (This credit is ours; the papers credit whole answers.)
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from kernelwright.data.pool.steps import JudgedStep
from kernelwright.policy.places import ends_of
from kernelwright.train.rl.credit import Credit, CreditPart
from kernelwright.train.rl.rollout import Rollout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def with_kernels(
    credits: Sequence[Credit | None],
    rollouts: Sequence[Rollout],
    tokenizer: "PreTrainedTokenizerBase",
) -> list[Credit | None]:
    """The credits of answers, with parts for the judged steps of wrong answers. A part covers a
    range of tokens of a step. Credits of right answers, and of answers without judged steps, stay
    as they are.

    Args:
        credits, rollouts: of the same answers, in the same order.
    """
    groups: dict[Hashable, list[JudgedStep]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.group] += rollout.steps
    credited: list[Credit | None] = []
    for credit, rollout in zip(credits, rollouts, strict=True):
        if credit is None or credit.is_correct or not rollout.steps:
            credited.append(credit)
            continue
        # The baseline: steps of a group that are all right, or all wrong, teach nothing.
        share = fmean(step.is_right for step in groups[rollout.group])
        ends = ends_of(rollout.tokens, tokenizer)
        parts = tuple(
            CreditPart(begin, end, step.is_right - share)
            for step, names in _own_functions(rollout.steps)
            for begin, end in token_ranges(rollout.answer.text, names, ends)
        )
        credited.append(replace(credit, parts=parts))
    return credited


def _own_functions(steps: Sequence[JudgedStep]) -> Iterator[tuple[JudgedStep, list[str]]]:
    """Pairs: a step, and the functions that only this step of the answer uses.

    A function of several steps has several verdicts, so the function gets no credit of its own.
    """
    users = Counter(name for step in steps for name in step.functions)
    for step in steps:
        yield step, sorted(name for name in step.functions if users[name] == 1)


def token_ranges(
    text: str, functions: Iterable[str], ends: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Ranges (first token, token after the last) of some functions of an answer and of their plans.

    Args:
        text: the text of the answer.
        functions: the names of the functions.
        ends: for each token of the answer, its end in `text` (`policy.places.ends_of`).
    """
    for name in functions:
        plan = rf"^Plan of {re.escape(name)}\n(?:  .*\n)*"
        code = rf"^(?:@.*\n)*def {re.escape(name)}\(.*\n(?:(?:[ \t)].*)?\n)*"
        for match in re.finditer(f"{plan}|{code}", text, re.MULTILINE):
            # A token may cross the border of a function: the range holds it at either end.
            begin, end = bisect_right(ends, match.start()), bisect_left(ends, match.end()) + 1
            yield begin, min(end, len(ends))
