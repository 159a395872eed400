"""A collection is the same file whatever happens on the way: who answers first, limits, cuts.

The worker runs in this process here; the verb's test has workers of its own.
"""

import json
from collections import Counter

import pytest
import torch

from kernelwright.core.errors import UsageError
from kernelwright.data.collect import run
from kernelwright.data.collect.file import CollectionFile
from kernelwright.data.collect.run import CollectOptions, collect
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse
from kernelwright.sandbox.workers.executor import Done

BLOCKS = """
import os
import torch
from torch import nn

class Mlp(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden_dim), nn.Linear(hidden_dim, dim)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class SameMlp(Mlp):
    pass

class Fatal(nn.Module):
    def forward(self, x):
        os._exit(7)

class Views(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)
"""
TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = torch.nn.Linear(size, 3)

    def forward(self, x):
        return torch.sigmoid(self.layer(x))

def get_inputs():
    return [torch.randn(5, 7)]

def get_init_inputs():
    return [7]
"""
FILES = {
    "pack/__init__.py": "",
    "pack/blocks.py": BLOCKS,
    "pack/derived.py": "import torch\nfrom .blocks import Mlp\nclass Third(Mlp): ...\n",
    "missing.py": "import torch, no_such_package\nclass A(torch.nn.Module): ...\n",
    "task.py": TASK,
}
OPTIONS = CollectOptions(max_calls=3)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collect") / "target"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


class InThisProcess:
    """An executor that answers the last job first."""

    def __init__(self, factory, num_workers, job_s):
        self.worker = factory.make()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.close()

    def run(self, jobs):
        for name, job in reversed(list(jobs)):
            yield Done(name, self.worker.run(job))


@pytest.fixture(scope="module", autouse=True)
def executor():
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "LocalExecutor", InThisProcess)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def collected(target, executor):
    """(path of the file, summary) of a whole collection."""
    out = target.parent / "collected.jsonl"
    return out, collect(str(target), out, OPTIONS, num_workers=1)


def records(path, kind):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["record"] == kind]


@pytest.mark.slow
def test_every_module_ends_as_one_thing(collected):
    out, summary = collected
    ends = {line["name"]: line["outcome"] for line in records(out, "module")}
    assert ends == {
        "pack/blocks.py:Mlp": "collected",
        "pack/blocks.py:SameMlp": "collected",
        "pack/blocks.py:Fatal": "crash",
        "pack/blocks.py:Views": "no_programs",
        "pack/derived.py:Third": "collected",
        "task.py": "collected",
    }
    assert summary["refused"] == {"crash": 1, "import_failed": 1, "no_programs": 1}
    assert (summary["found"], summary["lowered"], summary["files"]) == (6, 5, 4)


def test_programs_are_there_once_with_where_they_come_from(collected):
    out, summary = collected
    programs = records(out, "program")
    assert len(programs) == summary["programs"] == 6 + 3
    assert summary["by_level"] == dict(Counter(p["level"] for p in programs))
    assert len({p["fingerprint"] for p in programs}) == len(programs)
    assert {p["provenance"]["class"] for p in programs} == {"Mlp", None}
    for program in programs:
        assert fingerprint(parse(program["text"])) == program["fingerprint"]
        assert len(program["provenance"]["calls"]) == program["level"]
    first = programs[0]["provenance"]
    assert (first["file"], first["line"]) == ("pack/blocks.py", 6)
    assert first["inputs"] == "x=float32[8, 256, 256]"
    assert programs[-1]["inputs"][0]["shape"] == [5, 3]  # the task's own sizes


@pytest.mark.slow
def test_another_order_a_limit_and_a_torn_line_make_the_same_file(collected, target, monkeypatch):
    in_order = run.LocalExecutor.run
    monkeypatch.setattr(InThisProcess, "run", lambda self, jobs: in_order(self, reversed([*jobs])))
    whole = collected[0].read_bytes()
    out = target.parent / "resumed.jsonl"
    summary = collect(str(target), out, OPTIONS, num_workers=1, limit=8)
    assert summary["programs"] == len(records(out, "program")) == 8
    assert not records(out, "summary")
    out.write_bytes(out.read_bytes()[:-40])
    collect(str(target), out, OPTIONS, num_workers=1)
    assert out.read_bytes() == whole


@pytest.fixture
def begun(tmp_path):
    """A file with one source, one module and a program of another, as if cut short there."""
    path = tmp_path / "begun.jsonl"
    file = CollectionFile(path, {"target": "t"}, {"max_calls": 2})
    file.write_source("a.py", {"classes": [["A", 1], ["B", 9]], "outcome": "collected"})
    program = {"text": "...", "fingerprint": "f0", "level": 1, "calls_in_module": [0]}
    where = {"file": "a.py", "class": "A", "line": 1}
    file.write_module("a.py:A", where, {"outcome": "collected"}, [dict(program)], None)
    file.write_module("a.py:B", where, {"outcome": "collected"}, [program, program], None)
    return path


def test_a_known_program_is_not_written_again(begun):
    assert [line["new"] for line in records(begun, "module")] == [1, 0]


def test_records_after_the_last_settled_one_are_cut_off(begun):
    settled = begun.read_bytes()
    with begun.open("a") as file:
        file.write('{"record": "program", "fingerprint": "f1", "level": 2}\n{"record": "pro')
    file = CollectionFile(begun, {"target": "t"}, {"max_calls": 2})
    assert begun.read_bytes() == settled
    assert (set(file.modules), file.num_programs) == ({"a.py:A", "a.py:B"}, 1)


@pytest.mark.parametrize(
    ("facts", "options", "named"),
    [({"target": "other"}, {"max_calls": 2}, "target"), ({"target": "t"}, {}, "options")],
)
def test_another_collection_is_not_mixed_in(begun, facts, options, named):
    before = begun.read_bytes()
    with pytest.raises(UsageError, match=f"begun with {named}"):
        CollectionFile(begun, facts, options)
    assert begun.read_bytes() == before


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"record": "lint"}\n{"torn')
    with pytest.raises(UsageError):
        CollectionFile(path, {}, {})
    assert path.read_text() == '{"record": "lint"}\n{"torn'
