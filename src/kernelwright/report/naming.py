"""Names of runs on pages, from the folders and files of their records."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

LONGEST_SLUG = 120
"""Characters; file systems allow 255 with the suffix."""


def names_of(paths: Sequence[Path]) -> list[str]:
    """A name for each path: its last parts, as few as tell the paths apart. Equal paths share a
    name."""
    whole = [path.resolve() for path in paths]
    names: list[str] = []
    for length in range(1, max((len(path.parts) for path in whole), default=0) + 1):
        names = ["/".join(path.parts[-length:]) for path in whole]
        if len(set(names)) == len(set(whole)):
            break
    return names


class Slugs:
    """Gives out names of files and folders, each name once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._used = set(taken)

    def new(self, name: str) -> str:
        """A name of letters, digits, dots and dashes, near to the name of a run or a task."""
        plain = re.sub(r"[^\w.]+", "-", name, flags=re.ASCII)[:LONGEST_SLUG].strip("-.")
        plain = plain or "unnamed"
        slug, number = plain, 1
        while slug.lower() in self._used:  # some file systems do not tell capital letters apart
            number += 1
            slug = f"{plain}-{number}"
        self._used.add(slug.lower())
        return slug
