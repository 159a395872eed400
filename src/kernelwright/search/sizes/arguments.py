"""Sizes that kernels have as constants, turned into arguments.

Triton compiles a kernel anew for each value of a constant. Where sizes vary from call to call, that
takes longer than the constant saves.
"""

import re
from dataclasses import replace

from kernelwright.core.candidate import Candidate

_PASSED = re.compile(r"\b([A-Z][A-Z0-9]*)=\1\b")
"""A size that a launch passes under its own name, as in N=N. Sizes of tiles are numbers there."""
_NEEDS_CONSTANTS = ("static_range(", "tl.arange(", "tl.zeros(", "tl.full(", "tl.reshape(")
"""Functions whose arguments must be constants."""


def with_size_arguments(candidate: Candidate) -> Candidate:
    """Returns the candidate whose kernels take as arguments all sizes that need not be constants.
    The candidate itself where nothing changes."""
    lines = candidate.source.splitlines()
    needed = "\n".join(line for line in lines if any(text in line for text in _NEEDS_CONSTANTS))
    names = set(_PASSED.findall(candidate.source)) - set(re.findall(r"\w+", needed))
    source = candidate.source
    for name in names:
        source = re.sub(rf"\b{name}: tl\.constexpr", name, source)
    return replace(candidate, source=source) if source != candidate.source else candidate
