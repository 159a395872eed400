"""What a candidate's source text alone shows: what is refused before anything runs, and hints.

Text can always be made to say less than it does: the rules (`verify.rules`) make cheap cheats cheap
to stop and name their line; what decides is the dynamic probes. A rule refuses only what no honest
kernel needs and no probe can decide. All else is a hint and goes to the verdict's advice.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from kernelwright.core.verdict import Code
from kernelwright.verify.rules import RULES, Rule, Severity
from kernelwright.verify.rules.source import LONG_EXPRESSION, Source, parse

MAX_SOURCE = 1 << 20
"""Characters of a candidate. Rules take some ten us a character at worst, and the longest
files of honest kernels have some ten thousand characters."""


MAX_MESSAGE = 4 * LONG_EXPRESSION
"""Characters: a quoted expression, with its escapes, is never cut."""


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    code: Code
    line: int
    message: str
    remedy: str
    is_hint: bool = False


def findings(
    text: str, mode: str, entry: str, *, hints: bool = True, lent: Set[str] = frozenset()
) -> tuple[Finding, ...]:
    """What the text alone shows, refusals first, each group by line. Takes any text.

    Args:
        entry: the name the candidate must define: "fused_operator" or "ModelNew".
        hints: look for them too; what only wants to know of refusals saves half the time.
        lent: modules that may be imported beside the usual ones (`rules.outside.lent_by`).
    """
    try:
        if len(text) > MAX_SOURCE:
            raise ValueError(f"{len(text)} characters, {MAX_SOURCE} are allowed")
        if "\0" in text or not _is_encodable(text):
            raise ValueError("a NUL character or a lone surrogate, which no Python file holds")
        return _check(parse(text, entry, lent), mode, hints)
    except SyntaxError as error:
        message, line = f"not Python: {error.msg}", error.lineno or 1
    except (ValueError, RecursionError, MemoryError) as error:
        message, line = f"cannot be parsed: {error or 'nested too deeply'}", 1
    remedy = "see that the file runs under python -m py_compile"
    return (Finding("syntax", Code.SYNTAX_ERROR, line, message, remedy),)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check(source: Source, mode: str, hints: bool) -> tuple[Finding, ...]:
    rules = [rule for rule in RULES if mode == "pure" or not rule.is_pure_only]
    refusing = [rule for rule in rules if rule.severity is Severity.REFUSE]
    hinting = [rule for rule in rules if rule.severity is Severity.HINT and hints]
    return (*_required(source), *_apply(refusing, source), *_apply(hinting, source))


def _apply(rules: list[Rule], source: Source) -> list[Finding]:
    """One finding a rule and line."""
    found: dict[tuple[str, int], Finding] = {}
    for rule in rules:
        is_hint = rule.severity is Severity.HINT
        for line, message in rule.find(source):
            # Thousands of findings may name the same kernel of a name of a million characters.
            message = message[:MAX_MESSAGE]
            finding = Finding(rule.id, Code.FORBIDDEN, line, message, rule.remedy, is_hint)
            found.setdefault((rule.id, line), finding)
    return sorted(found.values(), key=lambda finding: finding.line)


def _required(source: Source) -> Iterator[Finding]:
    defined = source.top_level_names()
    if source.entry not in defined:
        other = ({"ModelNew", "fused_operator"} - {source.entry}).pop()
        message = f"{source.entry} is not defined" + (f", {other} is" if other in defined else "")
        remedy = "ModelNew answers a Model, fused_operator a flat program"
        yield Finding("entry", Code.MISSING_ENTRY, 1, message, remedy)
    if not source.uses_jit:
        yield Finding(
            "kernel", Code.NO_KERNEL, 1, "no @triton.jit kernel", "write the computation in Triton"
        )
