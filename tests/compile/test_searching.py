"""Searches behind the backend: the library, the process of a search, what is left of it."""

import subprocess
import sys
import threading
import time

import pytest

from kernelwright.compile import searching
from kernelwright.compile.searching import Background, LibraryFinder, Sought
from kernelwright.compile.settings import BackendSettings, default_library, default_precision
from kernelwright.core.errors import InfraError
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.sizes.program import SizedProgram


def program(*ops, rows=64):
    b = Builder()
    x = b.input(TensorType((rows, 32)))
    for op in ops:
        [x] = b.call(op, input=x)
    return b.program([x])


@pytest.mark.slow
def test_a_search_leaves_its_result_in_the_library(tmp_path):
    finder = LibraryFinder("cpu")
    settings = BackendSettings.of({"budget_s": 600, "library": tmp_path / "library"})
    graph = program("relu", "tanh")
    assert finder.known(Sought(graph), settings) is None
    records = finder.search(Sought(graph), settings)
    assert records[-1]["record"] == "result"
    assert "tl.store" in records[-1]["source"]
    begin_s = time.monotonic()
    known = finder.known(Sought(graph), settings)
    assert time.monotonic() - begin_s < 5.0
    assert known[-1]["source"] == records[-1]["source"]
    assert finder.known(Sought(program("relu")), settings) is None
    longer = BackendSettings.of({"budget_s": 1200, "library": tmp_path / "library"})
    assert finder.known(Sought(graph), longer) is None, "a longer search may find more"


@pytest.mark.slow
def test_a_search_at_several_sizes_delivers_one_source_for_all(tmp_path):
    finder = LibraryFinder("cpu")
    settings = BackendSettings.of({"budget_s": 600, "library": tmp_path / "library"})
    graphs = [program("relu", "tanh", rows=rows) for rows in (64, 3, 17, 200)]
    sizes = tuple({"rows": graph.inputs[0].type.shape[0]} for graph in graphs)
    texts = {"rows": "x0.shape[0]"}
    sought = Sought(graphs[0], SizedProgram(programs=tuple(graphs), sizes=sizes, texts=texts))
    *_, result = finder.search(sought, settings)
    assert "tl.store" in result["source"]
    assert any("rows 200" in text for text in result["verdict"]["advice"])
    assert finder.known(sought, settings)[-1]["source"] == result["source"]
    assert finder.known(Sought(graphs[0]), settings) is None, "kernels for one size may be faster"


@pytest.mark.slow
def test_a_search_that_fails_says_why(tmp_path):
    (tmp_path / "library").write_text("a file in the place of the folder")
    settings = BackendSettings.of({"budget_s": 20, "library": tmp_path / "library"})
    with pytest.raises(InfraError, match="cannot be made"):
        LibraryFinder("cpu").search(Sought(program("relu")), settings)
    assert LibraryFinder("cpu").known(Sought(program("relu")), settings) is None


def test_a_search_that_does_not_end_is_ended(tmp_path, monkeypatch):
    endless = (sys.executable, "-c", "import time; time.sleep(600)")
    monkeypatch.setattr(searching, "COMMAND", endless)
    monkeypatch.setattr(searching, "GRACE_S", 0.5)
    settings = BackendSettings.of({"budget_s": 0.5, "library": tmp_path / "library"})
    with pytest.raises(InfraError, match="did not end in time"):
        LibraryFinder("cpu").search(Sought(program("relu")), settings)


SEARCHING = """
import sys, threading, time
from kernelwright.compile import searching

searching.COMMAND = (sys.executable, "-c", "import time; time.sleep(600)", "{marker}")
job = {{"budget_s": 600.0}}
threading.Thread(target=searching._run, args=(job,), daemon=True).start()
while not searching._running:
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_the_end_of_the_users_program_ends_a_search(tmp_path):
    marker = f"search of {tmp_path.name}"
    subprocess.run([sys.executable, "-c", SEARCHING.format(marker=marker)], check=True, timeout=120)
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert marker not in listing.stdout


def test_work_in_the_background_is_done_in_turn_and_waited_for():
    background, order, may_end = Background(), [], threading.Event()
    background.submit(lambda: may_end.wait(60) and order.append(1))
    background.submit(lambda: order.append(2))
    assert not background.wait(0.05)
    may_end.set()
    assert background.wait(60)
    assert order == [1, 2]


def test_defaults_follow_the_environment_and_pytorch(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_LIBRARY", str(tmp_path))
    assert default_library() == tmp_path
    monkeypatch.delenv("KERNELWRIGHT_LIBRARY")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_library() == tmp_path / "cache" / "kernelwright" / "library"
    import torch

    assert default_precision() == "strict"
    torch.set_float32_matmul_precision("high")
    try:
        assert default_precision() == "tf32"
    finally:
        torch.set_float32_matmul_precision("highest")
