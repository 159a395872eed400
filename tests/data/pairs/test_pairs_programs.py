import pytest
from pairs_data import PROGRAMS, program_file, recipe, text

from kernelwright.core.errors import UsageError
from kernelwright.data.pairs import programs as programs_module
from kernelwright.data.pairs.programs import programs_of
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.synth.benchmarks import task_fingerprint


def contaminates(source):
    program = parse(source)
    return programs_module.contaminates(program, fingerprint(program), ())


def held_out(level):
    """A program of so many calls, none of which only relabels."""
    programs = ((line["text"], parse(line["text"])) for line in benchmark_programs())
    return next(t for t, p in programs if len(p.calls) == task_fingerprint(p)[1] == level)


def test_a_file_s_programs_say_where_they_are_from(tmp_path):
    made = recipe({"name": "a", "file": str(program_file(tmp_path / "p.jsonl"))})
    programs = programs_of(made, made.part[0])
    assert [to_text(programs[i].program) for i in range(len(programs))] == list(PROGRAMS)
    found = programs[1]
    assert (found.origin, found.licence) == ("pack", "MIT")
    assert found.provenance["file"] == "pack/a.py"


def test_programs_are_known_by_their_text_whatever_the_file_says(tmp_path):
    """Files of another version may have other fingerprints."""
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:1])
    known = fingerprint(parse(PROGRAMS[0]))
    path.write_text(path.read_text().replace(known, "0" * len(known)))
    made = recipe({"name": "a", "file": str(path)})
    assert programs_of(made, made.part[0])[0].canonical == known


def test_levels_and_numbers_of_a_file_s_programs(tmp_path):
    path = str(program_file(tmp_path / "p.jsonl"))
    made = recipe(
        {"name": "a", "file": path, "levels": [2]},
        {"name": "b", "file": path, "programs": 3},
        {"name": "c", "file": path, "levels": [7]},
    )
    assert len(programs_of(made, made.part[0])) == 2
    assert len(programs_of(made, made.part[1])) == 3
    with pytest.raises(UsageError, match="no program of these levels"):
        len(programs_of(made, made.part[2]))


def test_a_drawn_program_that_cannot_be_read_is_a_failure_of_ours(monkeypatch):
    """A user's error would end the whole build, and name nothing that the user can mend."""

    def refuse(text):
        raise UsageError("refused")

    monkeypatch.setattr(programs_module, "parse", refuse)
    draw = {"few": {"operators": ["relu"], "quality": {"lint": False}}}
    made = recipe({"name": "a", "level": 1, "programs": 1, "draw": "few"}, draw=draw)
    with pytest.raises(ValueError, match="cannot be read"):
        programs_of(made, made.part[0])[0]


def test_drawn_programs_are_the_same_in_any_order():
    draw = {"few": {"operators": ["relu", "exp", "sum"], "quality": {"lint": False}}}
    made = recipe({"name": "a", "level": 2, "programs": 4, "draw": "few"}, draw=draw)
    forth, back = programs_of(made, made.part[0]), programs_of(made, made.part[0])
    found = {i: back[i].canonical for i in (3, 1, 0, 2)}
    assert found == {i: forth[i].canonical for i in range(4)}
    assert len(set(found.values())) > 1


@pytest.mark.parametrize("level", [1, 2, 5])
def test_programs_of_the_held_out_set_are_known(level):
    assert contaminates(held_out(level)) == "synthetic-v1"


@pytest.mark.parametrize(("level", "known"), [(1, ""), (2, "synthetic-v1"), (5, "synthetic-v1")])
def test_at_other_sizes_those_of_several_calls_are(level, known):
    program = parse(held_out(level))
    assert programs_module.contaminates(program, "another size", ()) == known


def test_tasks_of_benchmarks_are_known_and_single_calls_are_vocabulary():
    # KernelBench level 2 has a matrix product, then a mish, then another.
    shapes = ((8, 16), (4, 16), (4,))
    body = ["t0 = F.linear(x0, x1, x2)", "t1 = F.mish(t0)", "t2 = F.mish(t1)"]
    assert contaminates(text(body, shapes, returned="t2")) == "benchmark"
    assert contaminates(text(["t0 = torch.relu(x0)"])) == ""
