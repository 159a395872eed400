"""Findings from a candidate's source text alone: refusals before anything runs, and hints.

A text can always hide what the code does. So the rules (`verify.rules`) only stop simple cheats, at
little cost, and name their line. The dynamic probes decide. A rule refuses only code that no honest
kernel needs and that no probe can decide. All else is a hint and goes to the verdict's advice.
"""

import io
import re
import tokenize
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice

from kernelwright.core.verdict import Code
from kernelwright.verify.rules import RULES, Rule, RuleSeverity
from kernelwright.verify.rules.source import CandidateSource, parse

MAX_MESSAGE, MAX_FINDINGS = 2_000, 1_000
"""Characters of a message; what one rule may find. A line of ten characters can be a finding that
names a kernel of a million."""
ENCODINGS = frozenset({"utf-8", "utf-8-sig"})
ASCII_ENCODINGS = frozenset({"ascii", "iso-8859-1"})
"""Read as UTF-8 is, where the text is ASCII."""
_LINE_END = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class StaticFinding:
    rule: str
    code: Code
    line: int
    message: str
    remedy: str
    is_hint: bool = False


def findings(
    text: str, mode: str, entry: str, *, hints: bool = True, lent: Set[str] = frozenset()
) -> tuple[StaticFinding, ...]:
    """Returns the findings from the text alone, refusals first, each group by line. Takes any text.

    Args:
        entry: the name that the candidate must define: "fused_operator" or "ModelNew".
        hints: look for hints too. Without them the search takes half the time.
        lent: modules that may be imported beside the usual ones (`rules.outside.lent_by`).
    """
    try:
        source = parse(text, entry, lent)
        _check_encoding(text)
        return _check(source, mode, hints)
    except SyntaxError as error:
        message, line = f"not Python: {error.msg}", error.lineno or 1
    except (RecursionError, MemoryError) as error:
        message, line = f"cannot be read: {error or 'nested too deeply'}", 1
    remedy = "see that the file runs under python -m py_compile"
    return (StaticFinding("syntax", Code.SYNTAX_ERROR, line, message[:MAX_MESSAGE], remedy),)


def _check_encoding(text: str) -> None:
    """Refuses a comment that names another encoding: Python would then read other code from the
    same file.

    Raises:
        SyntaxError: the file says that it is not UTF-8.
    """
    lines = io.BytesIO(_LINE_END.sub("\n", text).encode())
    encoding, _ = tokenize.detect_encoding(lines.readline)
    is_same = encoding in ENCODINGS or (encoding in ASCII_ENCODINGS and text.isascii())
    if not is_same:
        raise SyntaxError(f"the encoding {encoding}, not UTF-8")


def _check(source: CandidateSource, mode: str, hints: bool) -> tuple[StaticFinding, ...]:
    rules = [rule for rule in RULES if mode == "pure" or not rule.is_pure_only]
    refusing = [rule for rule in rules if rule.severity is RuleSeverity.REFUSE]
    hinting = [rule for rule in rules if rule.severity is RuleSeverity.HINT and hints]
    return (*_required(source), *_apply(refusing, source), *_apply(hinting, source))


def _apply(rules: list[Rule], source: CandidateSource) -> list[StaticFinding]:
    """Returns at most one finding for each rule and line, by line."""
    by_rule: dict[tuple[str, int], StaticFinding] = {}
    for rule in rules:
        is_hint = rule.severity is RuleSeverity.HINT
        for line, message in islice(rule.find(source), MAX_FINDINGS):
            message = message[:MAX_MESSAGE]
            finding = StaticFinding(rule.id, Code.FORBIDDEN, line, message, rule.remedy, is_hint)
            by_rule.setdefault((rule.id, line), finding)
    return sorted(by_rule.values(), key=lambda finding: finding.line)


def _required(source: CandidateSource) -> Iterator[StaticFinding]:
    defined = source.top_level_names()
    if source.entry not in defined:
        other = ({"ModelNew", "fused_operator"} - {source.entry}).pop()
        message = f"{source.entry} is not defined" + (f", {other} is" if other in defined else "")
        remedy = "define ModelNew for a Model, or fused_operator for a flat program"
        yield StaticFinding("entry", Code.MISSING_ENTRY, 1, message, remedy)
    if not source.uses_jit:
        yield StaticFinding(
            "kernel", Code.NO_KERNEL, 1, "no @triton.jit kernel", "write the computation in Triton"
        )
