"""Programs of a run: each once and on one side, no benchmark's, drawn where that is asked."""

import json

import pytest
from rl_runs import make_program, make_programs, make_recipe, write_programs

from kernelwright.core.errors import UsageError
from kernelwright.programs.record import program_record
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.synth.benchmarks import task_fingerprint
from kernelwright.train.rl.programs import ProgramSource, opened, programs_of

ALL = {"validation": {"programs": 1000, "share": 0.4}}


def read(path, folder, **changes):
    recipe = make_recipe("model", path, **(ALL | changes))
    return programs_of(recipe, folder, 1, lambda _: None)


def texts(by_level):
    return {source.text for some in by_level.values() for source in some}


def test_each_program_is_on_one_side_the_same_each_time(tmp_path):
    programs = make_programs()
    path = write_programs(tmp_path / "p.jsonl", [*programs, *programs])
    found = read(path, tmp_path)
    train, held_out = texts(found.train), texts(found.held_out)
    assert not train & held_out
    assert len(train) + len(held_out) == len(programs)
    assert sum(map(len, found.train.values())) == len(train), "each once"
    assert found.sizes.keys() == {1, 2}
    turned = write_programs(tmp_path / "turned.jsonl", programs[::-1])
    again = read(turned, tmp_path)
    assert (texts(again.train), texts(again.held_out)) == (train, held_out)


def test_files_of_their_own_are_held_out_as_a_whole(tmp_path):
    programs = make_programs()
    path = write_programs(tmp_path / "p.jsonl", programs)
    own = write_programs(tmp_path / "own.jsonl", programs[:5])
    found = read(path, tmp_path, validation={"files": [str(own)], "programs": 1000})
    assert texts(found.held_out) == {program_record(each)["text"] for each in programs[:5]}
    assert len(texts(found.train)) == len(programs) - 5


def test_pairs_keep_the_side_they_are_on(tmp_path):
    folder = tmp_path / "pairs"
    folder.mkdir()
    for split, sizes in (("train", (24, 40, 56)), ("validation", (72, 88))):
        lines = []
        for size in sizes:
            made = program_record(make_program(1, "relu", size))
            line = {"program": made["text"], "canonical": made["fingerprint"], "split": split}
            lines += [line | {"level": 1}] * 2
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    found = read(folder, tmp_path)
    assert found.sizes == {1: 3}
    assert len(found.held_out[1]) == 2


def test_a_benchmark_s_programs_are_never_asked_for(tmp_path):
    lines = [line for line in benchmark_programs() if line["level"] in (1, 2)]
    single = next(line for line in lines if line["level"] == 1)
    pair = next(
        line
        for line in lines
        if line["level"] == 2 and task_fingerprint(parse(line["text"]))[1] == 2
    )
    for line in (single, pair):
        assert opened(ProgramSource(line["level"], line["text"], line["fingerprint"]), ()) is None
    path = tmp_path / "p.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    with pytest.raises(UsageError, match="held out"):
        read(path, tmp_path)


@pytest.mark.slow
def test_programs_are_drawn_into_the_run_s_folder_once(tmp_path):
    def draw():
        recipe = make_recipe(
            "model", "none", programs={"files": [], "draw": {"1": 6, "2": 4}}, **ALL
        )
        return programs_of(recipe, tmp_path, 1, lambda _: None)

    found = draw()
    first = (tmp_path / "programs.jsonl").read_bytes()
    assert sum(map(len, found.train.values())) + sum(map(len, found.held_out.values())) == 10
    assert texts(draw().train) == texts(found.train)
    assert (tmp_path / "programs.jsonl").read_bytes() == first
    older = first.replace(b'"code": "', b'"code": "0')
    (tmp_path / "programs.jsonl").write_bytes(older)  # as another version would have drawn them
    assert texts(draw().train) == texts(found.train)
    lines = older.splitlines(keepends=True)
    (tmp_path / "programs.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(UsageError, match="begun with"):
        draw()


@pytest.mark.parametrize("text", ["", '{"record": "synth"}\n'])
def test_a_file_without_programs_is_named(tmp_path, text):
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"p\.jsonl"):
        read(path, tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "missing.jsonl", tmp_path)
