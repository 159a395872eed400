"""A fragment's candidate in the names of the whole: who reads it, or learns to write it, sees one
name for one value from the program's text to the kernel's loads."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelwright.programs.compose import Replacement
from kernelwright.programs.fragment import Fragment
from kernelwright.programs.program import Program

_VALUE = re.compile(r"\b([xtXT])(\d+)(?=_|\b|[A-Z])")
"""What generated text calls a value, and what is made of its name: t0, x1_ptr, t2_acc, X3D1."""


def with_values_of(
    program: Program, parts: Sequence[tuple[Fragment, Replacement]]
) -> list[Replacement]:
    """The replacements in the program's names, but for those whose source several share."""
    times = Counter(found.candidate.source for _, found in parts)
    return [
        _renamed(program, fragment, found) if times[found.candidate.source] == 1 else found
        for fragment, found in parts
    ]


def _renamed(program: Program, fragment: Fragment, found: Replacement) -> Replacement:
    names = _names(program, fragment)
    free = len(program.inputs) + sum(len(call.outputs) for call in program.calls)
    for each in dict.fromkeys(_VALUE.findall(found.candidate.source)):
        name = "".join(each).lower()  # made on the way by the form itself
        if name not in names:
            names[name], free = f"{name[0]}{free}", free + 1
    source = _in_names(found.candidate.source, names)
    return replace(found, candidate=replace(found.candidate, source=source))


def _names(program: Program, fragment: Fragment) -> dict[str, str]:
    """The fragment's names -> the program's."""
    own = fragment.program
    names = dict(zip((value.name for value in own.inputs), fragment.inputs, strict=True))
    for call, at in zip(own.calls, sorted(fragment.calls), strict=True):
        names |= zip(call.outputs, program.calls[at].outputs, strict=True)
    return names


def _in_names(source: str, names: Mapping[str, str]) -> str:
    def name(match: re.Match[str]) -> str:
        new = names[match[0].lower()]
        return new.upper() if match[1].isupper() else new

    return _VALUE.sub(name, source)
