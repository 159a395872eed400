"""A kernel's plan as text: the comment above the kernel, and the same lines in a model's answer."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from kernelwright.core.candidate import PRECISION, KernelPlan
from kernelwright.core.syntax import syntax_tree

MAX_LINE = 100
OPTIONAL = ("part", "reads", "makes", "precision", "why")
_HEAD = "Plan of "
_FIELD, _MORE = "  ", "     "
"""Indents of a field, and of what is left of a long one."""
_LINE_END = re.compile(r"\r\n?|\n")
_COMMENT = re.compile(r"^# Plan of \w+\n(?:#   .*\n)*", re.MULTILINE)


def plan_lines(plan: KernelPlan) -> list[str]:
    """A plan as lines of text: a head with the kernel's name, then one field a line.

    Long fields continue on further lines. Optional fields without a value are left out.
    """
    fields = {
        "fuses": ", ".join(plan.fuses),
        "part": ", ".join(plan.part),
        "reads": ", ".join(plan.reads),
        "makes": ", ".join(plan.makes),
        "loop": plan.loop,
        "tiles": ", ".join(f"{name}={value}" for name, value in plan.tiles.items()),
        "precision": "" if plan.precision == PRECISION else plan.precision,
        "why": plan.why,
    }
    lines = [f"{_HEAD}{plan.kernel}"]
    for label, text in fields.items():
        if text or label not in OPTIONAL:
            lines += _wrapped(label, text)
    return lines


def plan_comment(plan: KernelPlan) -> list[str]:
    """The lines of `plan_lines` as a Python comment."""
    return [f"# {line}" for line in plan_lines(plan)]


def lines_of(text: str) -> list[str]:
    """The lines of a text as syntax trees count them. `str.splitlines` would also end lines at form
    feeds and other characters that Python's parser does not count."""
    return _LINE_END.split(text)


def with_plans(source: str, plans: Sequence[KernelPlan]) -> str:
    """The source with each plan as a comment above its kernel.

    Comments with older plans are removed. Plans of kernels that the source lacks are dropped.

    Raises:
        SyntaxError: there are plans, and the source without its plan comments is not Python.
    """
    source = _COMMENT.sub("", source)
    if not plans:
        return source
    # A decorator belongs to its function: the comment stands above the first decorator.
    begins = {
        node.name: min((decorator.lineno for decorator in node.decorator_list), default=node.lineno)
        for node in syntax_tree(source).body
        if isinstance(node, ast.FunctionDef)
    }
    above: dict[int, list[KernelPlan]] = {}
    for plan in plans:
        if plan.kernel in begins:
            above.setdefault(begins[plan.kernel], []).append(plan)
    lines = list[str]()
    for number, line in enumerate(lines_of(source.removesuffix("\n")), 1):
        for plan in reversed(above.get(number, [])):
            lines += plan_comment(plan)
        lines.append(line)
    return "\n".join(lines) + "\n"


def read_plans(lines: Iterable[str]) -> Iterator[KernelPlan]:
    """Read plans from lines as `plan_lines` writes them. Blank lines are skipped.

    Raises:
        ValueError: a line belongs to no plan, a field is unknown, or tiles are not NAME=SIZE. The
            message names it.
    """
    kernel, fields, label = "", dict[str, str](), ""
    for line in lines:
        if line.startswith(_HEAD):
            if kernel:
                yield _plan(kernel, fields)
            kernel, fields, label = line.removeprefix(_HEAD).strip(), {}, ""
        elif kernel and line.startswith(_MORE) and label:
            fields[label] += f" {line.strip()}"
        elif kernel and line.startswith(_FIELD) and ":" in line:
            label, _, text = line.strip().partition(":")
            fields[label] = text.strip()
        elif line.strip():
            raise ValueError(f"not a line of a plan: {line.strip()[:MAX_LINE]}")
    if kernel:
        yield _plan(kernel, fields)


def _plan(kernel: str, fields: dict[str, str]) -> KernelPlan:
    known = ("fuses", "part", "reads", "makes", "loop", "tiles", "precision", "why")
    if unknown := fields.keys() - set(known):
        raise ValueError(f"the plan of {kernel} has no field {sorted(unknown)[0]!r}")
    fuses, part, reads, makes, loop, tiles, precision, why = (
        fields.get(name, "") for name in known
    )
    try:
        sizes = {
            name.strip(): int(size)
            for name, _, size in (
                assignment.partition("=") for assignment in tiles.split(",") if assignment.strip()
            )
        }
    except ValueError:
        raise ValueError(f"the plan of {kernel} gives tiles {tiles!r}, not NAME=SIZE, ..") from None
    return KernelPlan(
        kernel=kernel,
        fuses=_names(fuses),
        part=_names(part),
        reads=_names(reads),
        makes=_names(makes),
        loop=loop,
        tiles=sizes,
        precision=precision or PRECISION,
        why=why,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _wrapped(label: str, text: str) -> list[str]:
    """The lines of a field, each within MAX_LINE as a comment."""
    lines, line = [], f"{_FIELD}{label}:"
    for word in text.split():
        if len(line) + len("#  ") + len(word) > MAX_LINE:
            lines.append(line)
            line = _MORE.removesuffix(" ")
        line += f" {word}"
    return [*lines, line]
