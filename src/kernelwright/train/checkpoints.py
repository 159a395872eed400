"""Checkpoints that are whole or not there: written aside, listed, flushed, then renamed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

WHOLE = "whole.json"
"""Lists the files of a folder with their sizes; written last."""
_WRITING, _REPLACED = ".writing-", ".replaced-"


def write_folder(
    target: Path,
    fill: Callable[[Path], object],
    *,
    is_main: bool = True,
    wait: Callable[[], None] = lambda: None,
) -> int:
    """Put what `fill` writes into a folder at `target`, in place of one that is there.

    An exception of `fill` is passed on. The folder that was at `target` before is then still there.

    Args:
        fill: writes files into the folder that it is given. Each process calls its own.
        is_main: true in the one process that makes and renames the folder.
        wait: returns once all processes have called it.

    Returns:
        The size of the folder's files in bytes.
    """
    aside = target.parent / f"{_WRITING}{target.name}"
    if is_main:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
    wait()  # nobody fills before the folder is there ...
    try:
        fill(aside)
        wait()  # ... and nobody seals before all have filled
        if is_main:
            _seal(aside)
    except Exception:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if is_main:
        _publish(aside, target)
    wait()
    return _bytes_of(target)


def _seal(folder: Path) -> None:
    """List the folder's files and flush all to the disk.

    Flushing comes before renaming. After a loss of power the folder could else stand at its place
    with files that are empty.
    """
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}
    (folder / WHOLE).write_text(json.dumps({"files": sizes}))
    for path in (*_files(folder), folder / WHOLE, folder):
        _flush(path)


def _publish(aside: Path, target: Path) -> None:
    """Rename a finished folder to its place."""
    # A folder cannot be renamed onto one that has files. So the old one moves aside first, and
    # `clean` puts it back if the process ends between the two renames.
    before = target.parent / f"{_REPLACED}{target.name}"
    if target.exists():
        target.rename(before)
    aside.rename(target)
    _flush(target.parent)
    shutil.rmtree(before, ignore_errors=True)


def clean(folder: Path) -> None:
    """Remove what an interrupted `write_folder` left in `folder`. An old folder is put back if the
    new one is not whole."""
    for before in folder.glob(f"{_REPLACED}*"):
        target = folder / before.name.removeprefix(_REPLACED)
        if is_whole(target):
            shutil.rmtree(before)
        else:
            shutil.rmtree(target, ignore_errors=True)
            before.rename(target)
    for aside in folder.glob(f"{_WRITING}*"):
        shutil.rmtree(aside)


def is_whole(folder: Path) -> bool:
    """Whether every file that was listed is there at its size."""
    try:
        sizes = json.loads((folder / WHOLE).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def name_of(step: int) -> str:
    """The name of a step's checkpoint. Zeros make the order of names that of steps."""
    return f"step-{step:08d}"


def all_checkpoints(folder: Path) -> list[Path]:
    """Newest first, whole or not."""
    return sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)


def thin(folder: Path, keep: int) -> None:
    """Remove all but the newest whole checkpoints."""
    kept = [path for path in all_checkpoints(folder) if is_whole(path)][:keep]
    for path in all_checkpoints(folder):
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != WHOLE]


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
