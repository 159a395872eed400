import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass, replace

import pytest
from pairs_data import PROGRAMS, program_file, recipe
from verdicts import verdict

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import INTERPRETER, Code, Stage
from kernelwright.data.pairs import answers
from kernelwright.data.pairs.answers import WrittenAnswer, make_source
from kernelwright.data.pairs.shard import ShardWorker, index_of, read_shard, shards_of
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.whole import write_whole


@pytest.fixture
def made(tmp_path):
    held_out = next(line["text"] for line in benchmark_programs() if line["level"] == 2)
    path = program_file(tmp_path / "p.jsonl", (*PROGRAMS, held_out))
    return recipe({"name": "a", "file": str(path), "answers": 3}, validation=0.5)


def written(made, folder):
    folder.mkdir()
    (shard,) = shards_of(made)
    worker = ShardWorker(made, folder)
    tally = worker.run({name: getattr(shard, name) for name in shard.__slots__})
    return folder / shard.name, tally


@pytest.mark.slow
def test_a_shard_is_the_same_whoever_writes_it(made, tmp_path):
    one, _ = written(made, tmp_path / "one")
    other, _ = written(made, tmp_path / "other")
    assert one.read_bytes() == other.read_bytes()
    assert list((tmp_path / "one").iterdir()) == [one]


def test_what_is_held_out_is_dropped_and_counted(made, tmp_path):
    path, tally = written(made, tmp_path / "out")
    pairs, told = read_shard(path, lambda _: True)
    assert {**tally, "index": index_of(pairs)} == told
    assert read_shard(path, "a/1/0".__eq__)[0] == [pairs[3]]
    assert tally["programs"] == 5
    assert tally["dropped"] == {"program of synthetic-v1": 1}
    assert {pair["id"].split("/")[1] for pair in pairs} == {"0", "1", "2", "3"}
    assert tally["answers"] == len(pairs)
    assert all(pair["licence"] == "MIT AND Apache-2.0" for pair in pairs)
    sides = {pair["canonical"]: set() for pair in pairs}
    for pair in pairs:
        sides[pair["canonical"]].add(pair["split"])
    assert all(len(found) == 1 for found in sides.values())


@dataclass(frozen=True)
class Careless:
    """Answers that a look at their text refuses."""

    licence = "MIT"

    @classmethod
    def of(cls, _options):
        return cls()

    def answers(self, request, *, limit, seed):
        (good,) = write_whole(request.program, limit=1, seed=seed)
        reads_files = f"import subprocess\n{good.source}"
        return [
            WrittenAnswer(candidate=None, refused="no form"),
            WrittenAnswer(candidate=Candidate(source="def f(:\n", plan=good.plan)),
            WrittenAnswer(candidate=replace(good, source=reads_files)),
            WrittenAnswer(candidate=replace(good, plan=())),
            WrittenAnswer(candidate=good, reasoning="because", provenance={"turn": 2}),
        ]


def test_flaws_of_the_text_alone_are_counted_by_reason(made, tmp_path, monkeypatch):
    monkeypatch.setitem(answers.SOURCES, "teacher", f"{__name__}:Careless")
    path, tally = written(made, tmp_path / "out")
    pairs, _ = read_shard(path, lambda _: True)
    assert len(pairs) == 4
    assert {pair["reasoning"] for pair in pairs} == {"because"}
    assert all('"turn": 2' in pair["provenance"] for pair in pairs)
    del tally["dropped"]["program of synthetic-v1"]
    assert sum(tally["dropped"].values()) == 16
    assert tally["dropped"]["no form"] == 4
    assert any(reason.startswith("static rule") for reason in tally["dropped"])
    assert any(reason.startswith("unreadable") for reason in tally["dropped"])


class Slow(Careless):
    """Answers that the source had judged: the interpreter did not get through one of them."""

    def answers(self, request, *, limit, seed):
        (good,) = write_whole(request.program, limit=1, seed=seed)
        late = verdict(Code.TIMEOUT, stage=Stage.RUN, message="a minute", device=INTERPRETER)
        on_gpu = replace(late, device="NVIDIA H200")
        return [WrittenAnswer(candidate=good, verdict=judged) for judged in (late, on_gpu)]


def test_what_the_interpreter_did_not_get_through_is_no_negative(made, tmp_path, monkeypatch):
    monkeypatch.setitem(answers.SOURCES, "teacher", f"{__name__}:Slow")
    path, tally = written(made, tmp_path / "out")
    assert tally["dropped"]["too_slow_to_interpret"] == 4
    assert [pair["verdict"] for pair in read_shard(path, lambda _: True)[0]] == ["timeout"] * 4


@dataclass(frozen=True)
class Failing:
    """Fails for one program, and ends the process for another."""

    licence = "MIT"

    @classmethod
    def of(cls, _options):
        return cls()

    def answers(self, request, *, limit, seed):
        calls = [call.op for call in request.program.calls]
        if calls == FAILS:
            raise IndexError("tuple index out of range")
        if calls == ENDS:
            os.kill(os.getpid(), signal.SIGKILL)
        return [
            WrittenAnswer(candidate=each) for each in write_whole(request.program, limit=1, seed=0)
        ]


FAILS, ENDS = ([call.op for call in parse(text).calls] for text in (PROGRAMS[0], PROGRAMS[1]))


def test_a_program_that_we_fail_at_costs_no_other_its_pairs(made, tmp_path, monkeypatch):
    monkeypatch.setitem(answers.SOURCES, "teacher", f"{__name__}:Failing")
    monkeypatch.setattr(sys.modules[__name__], "ENDS", None)
    path, tally = written(made, tmp_path / "out")
    pairs, _ = read_shard(path, lambda _: True)
    assert tally["dropped"]["failure of ours"] == 1
    (failure,) = tally["failures"]
    assert failure["program"] == "a/0"
    assert "IndexError: tuple index out of range" in failure["error"]
    assert {pair["id"].split("/")[1] for pair in pairs} == {"1", "2", "3"}


def test_a_program_that_ends_two_workers_is_left_to_no_third(made, tmp_path, monkeypatch):
    monkeypatch.setitem(answers.SOURCES, "teacher", f"{__name__}:Failing")
    monkeypatch.setattr(sys.modules[__name__], "FAILS", None)
    (tmp_path / "out").mkdir()
    (shard,) = shards_of(made)
    job = {name: getattr(shard, name) for name in shard.__slots__}
    for _ in range(2):
        worker = multiprocessing.get_context("fork").Process(
            target=lambda: ShardWorker(made, tmp_path / "out").run(job)
        )
        worker.start()
        worker.join()
        assert worker.exitcode == -signal.SIGKILL
    tally = ShardWorker(made, tmp_path / "out").run(job)
    assert tally["failures"] == [{"program": "a/1", "error": "it ended the process"}]
    assert tally["answers"] == 3
    assert [each.name for each in (tmp_path / "out").iterdir()] == [shard.name]


@pytest.mark.parametrize(
    ("num_drawn", "expected"),
    [(1, ["teacher", "teacher-best"] * 4), (0, ["teacher-best"] * 4)],
    ids=["beside drawn ones", "alone"],
)
def test_best_answers_say_that_they_are(tmp_path, num_drawn, expected):
    file = program_file(tmp_path / "p.jsonl")
    part = {"name": "a", "file": str(file), "answers": num_drawn, "options": {"best": 1}}
    worker = ShardWorker(recipe(part), tmp_path)
    worker.run({"part": "a", "number": 0, "first": 0, "last": 4})
    pairs, _ = read_shard(tmp_path / "a-00000.jsonl", lambda _: True)
    assert [pair["source"] for pair in pairs] == expected
    chain = [pair["kernels"] for pair in pairs if pair["id"].startswith("a/2/")]
    assert chain[-1] == 1, "the best answer to two calls is one kernel"


def test_a_negative_number_of_best_answers_is_refused():
    with pytest.raises(UsageError, match="best"):
        make_source("teacher", {"best": -1})
    with pytest.raises(UsageError, match="calls"):
        make_source("teacher", {"best": 1, "calls": 0})
