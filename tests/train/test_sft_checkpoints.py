"""Folders that are whole or not there."""

import errno
import os

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.train import checkpoints
from kernelwright.train.disk import disk_may_be_full


def fill(text):
    def write(folder):
        (folder / "a").write_text(text)
        (folder / "deep").mkdir()
        (folder / "deep" / "b").write_text(text)

    return write


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "best"
    assert checkpoints.write_folder(target, fill("one")) == 6
    checkpoints.write_folder(target, fill("two!"))
    assert (target / "deep" / "b").read_text() == "two!"
    assert checkpoints.is_whole(target)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "best"
    checkpoints.write_folder(target, fill("one"))

    def fail(folder):
        fill("two")(folder)
        raise KeyError("x")

    with pytest.raises(KeyError):
        checkpoints.write_folder(target, fail)
    assert (target / "a").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


FULL = [
    OSError(errno.ENOSPC, "No space left on device"),
    RuntimeError("[enforce fail at inline_container.cc:863] . PytorchStreamWriter failed"),
    ValueError("I/O error: No space left on device (os error 28)"),
]


@pytest.mark.parametrize("error", FULL, ids=lambda error: type(error).__name__)
def test_a_full_disk_is_told(error, tmp_path):
    with pytest.raises(UsageError, match="disk") as caught, disk_may_be_full(tmp_path):
        raise error
    assert str(tmp_path) in str(caught.value)
    assert "--resume" in caught.value.remedy


def test_a_full_disk_is_told_by_its_cause(tmp_path):
    with pytest.raises(UsageError, match="disk"), disk_may_be_full(tmp_path):
        raise RuntimeError("cannot generate the data") from FULL[0]


def test_other_failures_are_told_as_they_are(tmp_path):
    with pytest.raises(FileNotFoundError), disk_may_be_full(tmp_path):
        (tmp_path / "none").read_text()


@pytest.mark.parametrize("damage", ["truncated", "missing", "unlisted"])
def test_what_is_damaged_is_not_whole(damage, tmp_path):
    target = tmp_path / "step-00000001"
    checkpoints.write_folder(target, fill("text"))
    if damage == "truncated":
        os.truncate(target / "deep" / "b", 2)
    elif damage == "missing":
        (target / "a").unlink()
    else:
        (target / checkpoints.WHOLE).unlink()
    assert not checkpoints.is_whole(target)


def test_a_folder_about_to_be_replaced_is_put_back(tmp_path):
    target = tmp_path / "last"
    checkpoints.write_folder(target, fill("one"))
    target.rename(tmp_path / ".replaced-last")  # a kill between the two renames
    (tmp_path / ".writing-last").mkdir()
    checkpoints.clean(tmp_path)
    assert (target / "a").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_the_newest_whole_ones_are_kept(tmp_path):
    for step in (4, 8, 12, 16):
        checkpoints.write_folder(tmp_path / checkpoints.name_of(step), fill("x"))
    os.truncate(tmp_path / "step-00000012" / "a", 0)
    checkpoints.thin(tmp_path, keep=2)
    kept = [path.name for path in checkpoints.all_checkpoints(tmp_path)]
    assert kept == ["step-00000016", "step-00000008"]
