"""Functions of a source, and the folders that they need."""

import gc
import os
import subprocess
import sys
import tempfile

import pytest

from kernelwright.sandbox.shared.own_folders import remove_stale
from kernelwright.search.module.importing import imported_function

SOURCE = "def fused_operator(x):\n    return [x]\n"
KILLED = f"""
import os
from kernelwright.search.module.importing import imported_function

function = imported_function({SOURCE!r})
os.kill(os.getpid(), 9)
"""


def test_the_folder_of_a_function_lives_as_long_as_the_function(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    function = imported_function(SOURCE)
    assert function(1) == [1]
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert any(folder.iterdir())
    del function
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_folder_of_a_killed_process_is_removed(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False).returncode
    assert any(path.is_dir() for path in tmp_path.iterdir())
    remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == []
