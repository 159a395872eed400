"""Two runs compared: by hand, by level, and by programs that both have."""

import json

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import app
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.suite.compare import ALL, compare, rows


def case(number, level="L2", *, correct=True, speedup=None, modelled=None, low=None):
    timing = speedup and {"median_ms": 1.0}
    return {
        "record": "benchmark_case",
        "suite": "synthetic-v1",
        "level": level,
        "id": number,
        "sample": 0,
        "correct": correct,
        "eager": speedup and {"median_ms": speedup},
        "optimized": timing,
        "speedup_intervals": {"eager": (low or speedup, speedup)} if speedup else {},
        "modelled": modelled,
    }


def write(folder, cases):
    record.append(folder / "records.jsonl", [{"record": "run"}, *cases])
    return folder


@pytest.fixture
def runs(tmp_path):
    before = [
        case(1, speedup=1.0, low=0.9, modelled=1.0),
        case(2, speedup=2.0, modelled=2.0),
        case(3, correct=False),
        case(4, speedup=1.5),
        case(1, "L5", correct=False),
    ]
    after = [
        case(1, speedup=2.0, modelled=4.0),
        case(2, speedup=2.0, modelled=1.0),
        case(3, speedup=3.0),
        case(4, correct=False),
        case(1, "L5", correct=False),
        case(9, "L5", speedup=9.0),
    ]
    return write(tmp_path / "before", before), write(tmp_path / "after", after)


def test_runs_are_compared_program_by_program(runs):
    second, fifth, everything = compare(*runs)
    assert (second.level, fifth.level, everything.level) == ("L2", "L5", ALL)
    assert (second.programs, second.correct, second.gained, second.lost) == (4, (3, 3), 1, 1)
    assert second.faster == (2, 3)
    assert second.measured.value == pytest.approx(2**0.5), "of programs 1 and 2: 2 and 1"
    assert second.measured.num == 2
    assert second.modelled.value == pytest.approx((4 * 0.5) ** 0.5)
    assert (fifth.programs, fifth.faster, fifth.measured) == (1, None, None)
    assert everything.programs == 5, "program 9 is in one run alone"


def test_delivered_counts_a_task_that_one_run_leaves_in_pytorch(tmp_path):
    kept = case(1, correct=False) | {"eager": {"median_ms": 3.0}}
    before = write(tmp_path / "a", [kept, case(2, speedup=2.0)])
    after = write(tmp_path / "b", [case(1, speedup=4.0), case(2, speedup=2.0)])
    (level, _) = compare(before, after)
    assert level.delivered.value == pytest.approx((4.0 / 1.0 * 2.0 / 2.0) ** 0.5)
    assert level.measured.value == pytest.approx(1.0), "program 2 alone is solved by both"


def test_a_table_tells_it(runs):
    head, second, *_ = rows(compare(*runs))
    told = dict(zip(head, second, strict=True))
    assert told["gained / lost"] == "1 / 1"
    assert told["p"] == "1"
    assert told["measured"].startswith("1.41x")
    assert "log +0.35" in told["measured"]


def test_the_verb_prints_a_table_or_json(runs):
    shown = CliRunner().invoke(app, ["eval", "compare", *map(str, runs)])
    assert shown.exit_code == 0, shown.output
    assert "1.41x" in shown.output
    shown = CliRunner().invoke(app, ["eval", "compare", *map(str, runs), "--json"])
    assert json.loads(shown.stdout)[0]["correct"] == [3, 3]


def test_runs_without_a_program_in_common_are_refused(runs, tmp_path):
    other = write(tmp_path / "other", [case(77)])
    with pytest.raises(UsageError, match="no program in common"):
        compare(runs[0], other)
    with pytest.raises(UsageError, match="no records here"):
        compare(runs[0], tmp_path / "none")


def test_an_answer_that_holds_no_candidate_counts_as_wrong(tmp_path):
    unread = case(1, correct=False)
    for missing in ("eager", "optimized", "speedup_intervals", "modelled"):
        del unread[missing]
    before = write(tmp_path / "a", [case(1, speedup=2.0), case(2, speedup=2.0)])
    after = write(tmp_path / "b", [unread, case(2, speedup=4.0)])
    (level, _) = compare(before, after)
    assert level.correct == (2, 1)
    assert level.faster == (2, 1)
    assert level.measured.value == pytest.approx(2.0)
