"""Names of a benchmark's levels: "L2", and "L2-bf16" for the same tasks in bfloat16."""

import re

_BFLOAT16 = "-bf16"


def in_bfloat16(level: str) -> str:
    """The level of a task whose model and inputs are cast: "L2" -> "L2-bf16"."""
    return level + _BFLOAT16


def level_number(level: str) -> int:
    """The number of a level: "L2-bf16" -> 2.

    Raises:
        ValueError: the name is not that of a numbered level.
    """
    match = re.fullmatch(rf"L(\d+)(?:{_BFLOAT16})?", level)
    if match is None:
        raise ValueError(f"no number in the level {level!r}")
    return int(match[1])
