"""Folders that results are written to."""

import tempfile
from contextlib import suppress
from pathlib import Path

from kernelwright.core.errors import UsageError


def check_folder(path: Path) -> None:
    """Check that files can be written to a folder, which need not exist yet. Makes no folder.

    Raises:
        UsageError: a file is in the way, or the folder cannot be written to.
    """
    absolute = path.absolute()
    remedy = "give another folder with --out"
    with suppress(OSError):
        nearest = next(folder for folder in (absolute, *absolute.parents) if folder.exists())
        if not nearest.is_dir():
            message = f"cannot write to {path}: {nearest} is a file"
            raise UsageError(message, remedy=remedy)
        # Permissions do not tell of quotas and full disks; writing a byte does.
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
            file.flush()
        return
    raise UsageError(f"cannot write to {path}", remedy=remedy)
