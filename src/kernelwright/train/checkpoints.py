"""Checkpoints that are complete or missing, never half-written. A checkpoint is written into a
temporary folder, its files are listed and flushed, and then the folder is renamed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

WHOLE = "whole.json"
"""The file with the names and sizes of all files of a checkpoint. It is written last."""
_WRITING, _REPLACED = ".writing-", ".replaced-"


def write_folder(
    target: Path,
    fill: Callable[[Path], object],
    *,
    is_main: bool = True,
    wait: Callable[[], None] = lambda: None,
) -> int:
    """Write a folder so that it appears at `target` complete, in place of an older folder.

    If `fill` raises an exception, the exception is passed on, and the older folder stays.

    Args:
        fill: writes files into a folder. Each process calls its own `fill`.
        is_main: true in the one process that makes and renames the folder.
        wait: a barrier: returns once all processes have called it.

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

    Files are flushed before the folder is renamed. Otherwise a loss of power could leave a folder
    of empty files at the place of a checkpoint.
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
    """Remove folders that an interrupted `write_folder` left in `folder`. If the new folder is not
    complete, the old folder gets its name back."""
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
    """Whether a folder has all files of its list, at their sizes."""
    try:
        sizes = json.loads((folder / WHOLE).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def name_of(step: int) -> str:
    """The name of a step's checkpoint. Leading zeros give the names the order of the steps."""
    return f"step-{step:08d}"


def all_checkpoints(folder: Path) -> list[Path]:
    """All checkpoints in a folder, the newest first, complete or not."""
    return sorted((path for path in folder.glob("step-*") if path.is_dir()), reverse=True)


def thin(folder: Path, keep: int) -> None:
    """Remove all checkpoints except the newest complete checkpoints.

    Args:
        keep: the number of checkpoints that stay.
    """
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
