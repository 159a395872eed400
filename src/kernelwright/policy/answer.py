"""A model's answer: a plan, then code; and the candidate that can be read out of it.

    <plan>
    Plan of relu_kernel
      fuses: relu
      ...
    </plan>
    ```python
    ...
    ```

The embedded model is trained to this form, and other models are asked for it. Models add text and
leave parts out, so reading accepts reasoning before the answer, prose around it, no plan and no
fence. If an answer holds no candidate, reading says why.
"""

import ast
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import plan_lines, read_plans, with_plans
from kernelwright.core.syntax import syntax_tree
from kernelwright.core.text import printable

ENTRIES = ("fused_operator", "ModelNew")
PLAN_BEGIN, PLAN_END = "<plan>", "</plan>"
CODE_BEGIN, CODE_END = "```python", "```"
THINKING_BEGIN, THINKING_END = "<think>", "</think>"
"""Marks around the text that a reasoning model writes before its answer."""
MAX_MESSAGE = 500
"""The most characters of a message about a faulty plan."""
_THINKING_END = re.compile(r"</think(?:ing)?>")
_FENCE = re.compile(r"^[ \t]*```[^\n`]*$", re.MULTILINE)


class Malformed(StrEnum):
    """The reason why an answer has no candidate."""

    EMPTY = "empty"
    """No text but white space."""
    NO_CODE = "no_code"
    """The text has no block of code and is no code itself."""
    CUT_OFF = "cut_off"
    """The last block of code does not end: the model reached its limit of tokens."""
    OUT_OF_TIME = "out_of_time"
    """The time for writing ended before the answer did."""
    SYNTAX_ERROR = "syntax_error"
    """The block of code that is most like a candidate is not Python."""
    MISSING_ENTRY = "missing_entry"
    """No block of code defines the entry, `fused_operator` or `ModelNew`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A model's text, and the candidate in it."""

    text: str
    candidate: Candidate | None
    """None if the text has no candidate; `malformed` then has the reason."""
    malformed: Malformed | None = None
    message: str = ""
    """A message for the model: details of `malformed`, or the fault of the plan."""


def answer_text(candidate: Candidate) -> str:
    """The text of an answer with this candidate, in the form that models are trained to write.

    The plan moves from the comments above the kernels to the front.
    """
    plan = "\n".join(line for kernel_plan in candidate.plan for line in plan_lines(kernel_plan))
    source = with_plans(candidate.source, ()).strip("\n")
    return f"{PLAN_BEGIN}\n{plan}\n{PLAN_END}\n{CODE_BEGIN}\n{source}\n{CODE_END}\n"


def read_answer(
    text: str, *, entry: str = "fused_operator", origin: str, is_out_of_time: bool = False
) -> Answer:
    """Read the candidate out of an answer. The function raises no error, whatever the text.

    The candidate's source is the last block of code that defines `entry`. The plan becomes comments
    above its kernels. A plan that cannot be read is left out, and `message` says what is wrong.

    Args:
        entry: the name that the code must define: one of `ENTRIES`.
        origin: the name of the writer.
        is_out_of_time: whether the answer was cut because the time was over.
    """
    answer = _read_answer(text, entry, origin)
    if is_out_of_time and answer.candidate is None:
        message = "the time for writing ended before the answer did"
        return replace(answer, malformed=Malformed.OUT_OF_TIME, message=message)
    return answer


def _read_answer(text: str, entry: str, origin: str) -> Answer:
    # Reasoning may hold drafts in fences: the answer is what follows the last mark.
    said = _THINKING_END.split(text)[-1]
    if not said.strip():
        return Answer(text=text, candidate=None, malformed=Malformed.EMPTY, message="no answer")
    source, malformed, message = _code(said, entry)
    if malformed:
        return Answer(text=text, candidate=None, malformed=malformed, message=message)
    plans, message = _plans(said)
    try:
        commented = with_plans(source, plans) if plans else source
    except SyntaxError:
        plans, commented = (), source
        message = "the comments with plans are parts of statements: write them above the kernels"
    candidate = Candidate(source=commented, plan=plans, origin=origin)
    return Answer(text=text, candidate=candidate, message=message)


def _plans(text: str) -> tuple[tuple[KernelPlan, ...], str]:
    """The plans of all kernels and an empty message; or no plans and a message about their
    fault."""
    texts, _ = plans_apart(text)
    if not texts:
        return (), "no plan"
    lines = [line.rstrip() for line in texts[0].splitlines()]
    try:
        return tuple(read_plans(lines)), ""
    except ValueError as error:
        return (), printable(str(error), MAX_MESSAGE)


def plans_apart(text: str) -> tuple[list[str], str]:
    """The texts between the marks of plans, and the text without marks and plans.

    A beginning without an end stays in the text.
    """
    # Not by a regular expression: one looks for the end again from every beginning, and models
    # that ramble write thousands of beginnings.
    plans, others = list[str](), list[str]()
    rest = 0
    while (begin := text.find(PLAN_BEGIN, rest)) >= 0:
        end = text.find(PLAN_END, begin + len(PLAN_BEGIN))
        if end < 0:
            break
        plans.append(text[begin + len(PLAN_BEGIN) : end])
        others.append(text[rest:begin])
        rest = end + len(PLAN_END)
    return plans, "".join([*others, text[rest:]])


def _code(text: str, entry: str) -> tuple[str, Malformed | None, str]:
    """The source, or the reason why there is none and a message for the model."""
    _, text = plans_apart(text)
    blocks, is_cut_off = _blocks(text)
    if not blocks and _defines(text, entry):
        blocks = [text]
    if not blocks:
        return "", Malformed.NO_CODE, f"put the code between {CODE_BEGIN} and {CODE_END}"
    for block in reversed(blocks):
        if _defines(block, entry):
            return block.strip("\n") + "\n", None, ""
    if is_cut_off:
        return "", Malformed.CUT_OFF, "the code does not end within the limit of tokens: write less"
    # Only a block that names an entry was meant as the candidate: others may be shell or prose.
    for block in reversed(blocks):
        if (error := _syntax_error(block)) and any(name in block for name in ENTRIES):
            return "", Malformed.SYNTAX_ERROR, f"line {error.lineno}: {error.msg}"
    return "", Malformed.MISSING_ENTRY, f"{entry} is not defined"


def _blocks(text: str) -> tuple[list[str], bool]:
    """The texts between fences, and whether the end of the last text is missing."""
    marks = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    ends = [begin for begin, _ in marks[1::2]]
    is_cut_off = len(marks) % 2 == 1
    if is_cut_off:
        ends.append(len(text))
    begins = [end for _, end in marks[0::2]]
    return [text[a:b] for a, b in zip(begins, ends, strict=True)], is_cut_off


def _parsed(source: str) -> ast.Module | SyntaxError:
    try:
        return syntax_tree(source)
    except SyntaxError as error:
        return error


def _syntax_error(source: str) -> SyntaxError | None:
    parsed = _parsed(source)
    return parsed if isinstance(parsed, SyntaxError) else None


def _defines(source: str, entry: str) -> bool:
    parsed = _parsed(source)
    if isinstance(parsed, SyntaxError):
        return False
    definitions = (ast.FunctionDef, ast.ClassDef)
    return any(isinstance(node, definitions) and node.name == entry for node in parsed.body)
