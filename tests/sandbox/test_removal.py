"""Folders that nobody would make, but hostile code does, are removed, and nothing outside."""

import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelwright.sandbox.shared.removal import remove

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """In memory where that is possible: disks take seconds for 20,000 folders."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=memory, prefix="removal-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def by_an_ordinary_user(act: Callable[[], None]) -> None:
    """Root needs no permissions, so root becomes another user in a child process."""
    if os.getuid() != 0:
        act()
        return
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        act()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(1)


def nested(folder: Path, depth: int, name: str | bytes = "d", mode: int = 0o700) -> None:
    """Folders in folders."""
    folder.mkdir()
    before = os.getcwd()
    try:
        os.chdir(folder)
        for _ in range(depth):
            os.mkdir(name)
            os.chdir(name)
        while mode != 0o700 and (depth := depth - 1) >= 0:
            os.chdir("..")
            os.chmod(name, mode)
    finally:
        os.chdir(before)


@pytest.mark.parametrize(
    ("depth", "name"),
    [(1_500, "d"), (20_000, "d"), (60, "long" * 60), (1_500, b"-rf \xff\n*")],
)
def test_folders_of_any_depth_and_name_are_removed(place: Path, depth: int, name: str | bytes):
    nested(place / "tree", depth, name)
    remove(place / "tree")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("mode", [0o000, 0o500, 0o600])
def test_folders_without_permissions_are_removed(place: Path, mode: int):
    def act() -> None:
        nested(place / "tree", 1_500, mode=mode)
        (place / "tree" / "other").mkdir()
        (place / "tree" / "other" / "file").touch(mode=0)
        (place / "tree" / "other").chmod(mode)
        (place / "tree").chmod(mode)
        remove(place / "tree")

    by_an_ordinary_user(act)
    assert list(place.iterdir()) == []


def test_links_are_removed_and_not_followed(place: Path):
    def act() -> None:
        outside, tree = place / "outside", place / "tree"
        for folder in (outside, tree, tree / "closed"):
            folder.mkdir()
        (outside / "file").touch()
        (tree / "to_folder").symlink_to(outside)
        (tree / "to_file").symlink_to(outside / "file")
        (tree / "closed" / "to_folder").symlink_to(outside)
        (tree / "closed").chmod(0)
        (outside / "file").chmod(0o400)
        outside.chmod(0o500)
        remove(tree)
        (place / "link").symlink_to(outside)
        remove(place / "link")

    by_an_ordinary_user(act)
    assert [path.name for path in place.iterdir()] == ["outside"]
    assert (place / "outside").stat().st_mode & 0o777 == 0o500
    assert (place / "outside" / "file").stat().st_mode & 0o777 == 0o400
    (place / "outside").chmod(0o700)


def test_files_that_cannot_be_removed_stay_and_nothing_is_raised(place: Path):
    (place / "kept" / "tree").mkdir(parents=True)
    (place / "kept").chmod(0o555)
    by_an_ordinary_user(lambda: remove(place / "kept" / "tree"))
    by_an_ordinary_user(lambda: remove(place / "never" / "there"))
    assert (place / "kept" / "tree").is_dir()
    (place / "kept").chmod(0o755)
