"""Removal of folders that a guest wrote to, whatever their depth, modes and names."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

_HARD_CASE = (["chmod", "-R", "u+rwX"], ["rm", "-rf"])
"""Neither follows links inside a folder. Both manage any depth, and paths of any length."""
_LIMIT_S = 60.0
"""For each of the two programs."""


def remove(path: Path) -> None:
    """Removes a folder with all files inside, a file or a link. Never raises: files that cannot be
    removed stay."""
    if os.path.islink(path) or not os.path.isdir(path):
        with suppress(OSError):
            path.unlink()
        return
    with suppress(RecursionError):  # from folders deeper than Python's stack
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        _remove_hard_case(path)


def _remove_hard_case(folder: Path) -> None:
    for command in _HARD_CASE:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*command, "--", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=_LIMIT_S,
            )
