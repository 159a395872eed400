"""docs/verifier-matrix.md says what the records say, a cheat that got through above all."""

import pytest

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from tools.pages.matrix import FOLDERS, write_matrix

ENVIRONMENT = {"commit": "abc", "versions": {"torch": "2.13", "triton": "3.7"}}


def case(kind, name, stage, code="ok", exploit="", device="cpu-interpreter"):
    return {
        "record": "corpus_case",
        "kind": kind,
        "name": name,
        "exploit": exploit,
        "about": f"does {name}",
        "device": device,
        "accepted": code == "ok",
        "stage": stage,
        "code": code,
    }


def kernelbench(kind, name, *, strict, warned):
    head = {"record": "corpus_kernelbench", "kind": kind, "name": name, "commit": "def"}
    return head | {"strict": strict, "warned": warned}


CASES = [
    case("cheats", "caught", "probe", "decoy", "E05"),
    case("cheats", "slipped", "accepted", exploit="E05"),
    case("cheats", "broke", "infra", "infra", "E44"),
    case("honest", "fine", "accepted"),
    case("honest", "wronged", "static", "forbidden"),
]


@pytest.fixture
def page(tmp_path):
    def made(**files):
        for name, lines in files.items():
            grade = "recycled" if name == "cpu_recycled" else "fresh"
            head = {"record": "run", "device": "cpu", "grade": grade, "environment": ENVIRONMENT}
            record.append(tmp_path / f"corpus-{name.replace('_', '-')}.jsonl", [head, *lines])
        write_matrix(tmp_path, tmp_path / "matrix.md")
        return (tmp_path / "matrix.md").read_text()

    return made


def test_a_cheat_that_got_through_and_a_failure_of_ours_are_counted_as_such(page):
    text = page(cpu=CASES)
    assert "| A. Not doing the work | 2 |  |  |  |  | 1 |  |  | 1 |" in text
    assert "| D. Reading or writing the judge | 1 |  |  |  |  |  |  | 1 |  |" in text
    assert "| **All cheats** | 3 |  |  |  |  | 1 |  | 1 | 1 |" in text
    assert "| **Honest kernels** | 2 | 1 |  |  |  |  |  |  | 1 |" in text
    assert "| E05 slipped | does slipped | accepted |" in text
    sums = "1 of 2 cheats stopped, 1 of 2 honest kernels accepted, our side failed in 1 cases."
    assert sums in text


def test_the_sums_of_recycled_verdicts_say_that_they_rest_on_a_draw(page):
    fresh, recycled = page(cpu=CASES, cpu_recycled=CASES).split("## CPU, recycled")
    assert "each run draws other cases" not in fresh
    assert "each run draws other cases" in recycled


def test_a_cheat_without_a_number_is_counted_in_the_group_of_its_folder(page):
    of_kinds = [case("cheats", f"{folder}/cheat", "compare", "wrong_values") for folder in FOLDERS]
    text = page(cpu=[*CASES, *of_kinds, case("cheats", "memo/slipped", "accepted")])
    for folder, title in FOLDERS.items():
        if folder == "memo":
            assert f"| {title} | 2 |  |  |  | 1 |  |  |  | 1 |" in text
        else:
            assert f"| {title} | 1 |  |  |  | 1 |  |  |  |  |" in text
    assert "| A. Not doing the work | 2 |" in text
    assert f"| **All cheats** | {4 + len(FOLDERS)} |" in text
    assert "| memo/slipped | does memo/slipped | accepted |" in text


def test_groups_without_files_have_no_row(page):
    text = page(cpu=CASES)
    assert not any(title in text for title in FOLDERS.values())


def test_columns_come_from_the_records_that_are_there(page):
    assert "H200" not in page(cpu=CASES)
    text = page(h200=[*CASES, case("cheats", "on_gpu", "timing", "wrong_values", "E50")])
    assert "| E50 on_gpu | does on_gpu | needs a GPU | timing: wrong_values |" in text


def test_the_other_checker_stands_beside_ours(page):
    theirs = [
        kernelbench("cheats", "caught", strict=True, warned=True),
        kernelbench("cheats", "slipped", strict=False, warned=True),
        kernelbench("honest", "fine", strict=False, warned=False),
        kernelbench("honest", "wronged", strict=False, warned=True),
    ]
    text = page(cpu=[*CASES, *theirs])
    assert "| kernelwright, CPU | 1 of 3 | 1 of 2 |" in text
    assert "| KernelBench's checker, as it is set | 1 of 2 | 0 of 2 |" in text
    assert "| KernelBench's checker, its warnings taken for refusals | 2 of 2 | 1 of 2 |" in text


def test_without_records_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match="eval corpus"):
        write_matrix(tmp_path, tmp_path / "matrix.md")
    assert not (tmp_path / "matrix.md").exists()
