"""Temporary folders go with their process, however it ends, and not before."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kernelwright.sandbox.shared import own_folders

SOURCES = Path(own_folders.__file__).parents[3]
MAKE = "from kernelwright.sandbox.shared import own_folders\nfolder = own_folders.make('test')\n"
SHOW = "print(folder, flush=True)\n"
FORK = "import os, time\nif os.fork():\n    time.sleep(300)\n"
WAIT = "import time\ntime.sleep(300)\n"

Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with temporary files in `tmp_path`."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(SOURCES)}
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_a_folder_is_removed_when_its_process_ends(start: Start, tmp_path: Path):
    process = start(MAKE + SHOW)
    folder = folder_of(process)
    assert folder.parent == tmp_path
    assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_forked", [False, True])
def test_the_next_process_removes_stale_folders_and_no_others(
    start: Start, tmp_path: Path, is_forked: bool
):
    """A fork of a process, which lives on, is no owner of the folder."""
    lives = start(MAKE + SHOW + WAIT)
    dies = start(MAKE + FORK * is_forked + SHOW + WAIT)
    lasting, stale = folder_of(lives), folder_of(dies)
    (stale / "file").touch()
    os.kill(dies.pid, signal.SIGKILL)
    dies.wait()
    assert stale.is_dir()
    start(MAKE).wait(60)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {lasting.name, lasting.name + ".owner"}


def test_what_is_not_surely_stale_stays(tmp_path: Path):
    for name, text in (("begun", ""), ("elsewhere", "another.machine"), ("mine", None)):
        (tmp_path / f"kernelwright-{name}").mkdir()
        if text is not None:
            (tmp_path / f"kernelwright-{name}.owner").write_text(text)
    (tmp_path / "kernelwright-0-gpu0.lock").touch()
    (tmp_path / "kernelwright-link.owner").symlink_to(tmp_path / "kernelwright-elsewhere.owner")
    before = sorted(tmp_path.iterdir())
    own_folders.remove_stale(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_of_another_user_stays(tmp_path: Path):
    if os.getuid() != 0:
        pytest.skip("needs root, to give a folder away")
    (tmp_path / "kernelwright-a").mkdir()
    os.chown(tmp_path / "kernelwright-a", 65534, 65534)
    (tmp_path / "kernelwright-a.owner").write_bytes(own_folders._machine())
    own_folders.remove_stale(tmp_path)
    assert (tmp_path / "kernelwright-a").is_dir()
    os.chown(tmp_path / "kernelwright-a", 0, 0)
    own_folders.remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == []
