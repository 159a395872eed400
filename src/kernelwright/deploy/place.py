"""The file of a package. This module imports no torch: the command checks the file at its start."""

from pathlib import Path

from kernelwright.core.errors import UsageError

SUFFIX = ".pt2"


def check_place(place: Path) -> None:
    """See that a package can have this name.

    Raises:
        UsageError: the name has another suffix, or its folder is missing.
    """
    if place.suffix != SUFFIX:
        raise UsageError(
            f"a package cannot have the name {place}", remedy=f"end the name in {SUFFIX}"
        )
    if not place.parent.is_dir():
        raise UsageError(
            f"there is no folder {place.parent} for the package", remedy="make the folder first"
        )
