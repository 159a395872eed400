"""Published figures from benchmark records."""

import json

import pytest

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from tools.pages.readme import (
    ANSWERS_BEGIN,
    ANSWERS_END,
    BEGIN,
    END,
    metrics,
    write_summary,
)


def timing(median, spread=0.01):
    return {
        "median_ms": median,
        "low_ms": median * (1 - spread),
        "high_ms": median * (1 + spread),
        "num_samples": 30,
    }


def case(number, optimized=None, eager=None, compiled=None, **over):
    return {
        "record": "benchmark_case",
        "suite": "kernelbench",
        "level": "L2",
        "policy": "teacher",
        "mode": "hybrid",
        "precision": "strict",
        "id": number,
        "name": f"problem {number}",
        "correct": True,
        "has_triton": True,
        "code": "ok",
        "eager": eager and timing(eager),
        "compiled": compiled and timing(compiled),
        "optimized": optimized and timing(optimized),
        **over,
    }


RUN = {
    "record": "run",
    "command": "bench",
    "environment": {"commit": "abc123", "gpu": "NVIDIA H200, 580.1, 143771 MiB"},
}
PREFIX = "kernelbench/L2/teacher/hybrid/strict"


@pytest.fixture
def place(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    readme = tmp_path / "README.md"
    answers = f"{ANSWERS_BEGIN}\nold\n{ANSWERS_END}\n"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n{answers}")
    return results, readme


def test_levels_stand_in_order_and_probes_are_not_published(place):
    results, readme = place
    levels = ("L1", "L20", "L5", "L10")
    record.append(results / "a.jsonl", [RUN, *(case(1, 1.0, 2.0, level=level) for level in levels)])
    (results / "probes").mkdir()
    record.append(results / "probes" / "b.jsonl", [RUN, case(1, level="L99"), {"level": "L98"}])
    write_summary(results, readme)
    table = readme.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line.split("|")[1].split()[1] for line in table.splitlines()[3:]]
    assert rows == ["L1", "L5", "L10", "L20"]


def test_the_interval_of_the_speedup_decides_significance_where_there_is_one():
    interval = {"eager": [1.001, 1.1], "compiled": [0.99, 1.1]}
    near = case(1, 1.0, 1.005, 1.005, speedup_intervals=interval)
    values = {name: figure["value"] for name, figure in metrics([near]).items()}
    assert values["beats_eager_significant"] == 1
    assert values["beats_compile_significant"] == 0


def test_medians_decide_a_win_and_overlapping_intervals_are_not_significant():
    found = metrics([case(1, 1.0, 2.0, 1.005), case(2, 1.0, 1.0, 0.5)])
    values = {name: figure["value"] for name, figure in found.items()}
    assert values["beats_eager"] == 1
    assert values["beats_eager_significant"] == 1
    assert values["beats_compile"] == 1
    assert values["beats_compile_significant"] == 0


def test_a_wrong_case_never_beats_anything():
    found = metrics([case(1, 1.0, 2.0, correct=False), case(2, 1.0, 2.0)])
    assert found["correct"] == {"value": 1, "of": 2, "ci": None}
    assert found["beats_eager"]["value"] == 1
    assert found["beats_eager"]["of"] == 2


def test_the_geometric_mean_lies_in_its_interval():
    found = metrics([case(i, 1.0, 2.0 ** (i % 3)) for i in range(30)])["geomean_over_eager"]
    low, high = found["ci"]
    assert found["value"] == 2.0
    assert 1.3 < low < 2.0 < high < 3.0


def test_a_rival_that_was_never_timed_has_no_figures():
    assert not any("compile" in name for name in metrics([case(1, 1.0, 2.0)]))


def test_summary_and_readme_are_rebuilt_from_the_records(place):
    results, readme = place
    record.append(results / "l2.jsonl", [RUN, case(1, 1.0, 2.0, 1.5), case(2, code="timeout")])
    record.append(results / "l2_more.jsonl", [RUN, case(2, 1.0, 4.0, 1.0)])
    write_summary(results, readme)
    write_summary(results, readme)
    summary = json.loads((results / "summary.json").read_text())
    assert summary[f"{PREFIX}/beats_eager"] == {
        "value": 2,
        "of": 2,
        "ci": None,
        "records": ["l2.jsonl", "l2_more.jsonl"],
        "commits": ["abc123"],
    }
    assert list(summary) == sorted(summary)
    text = readme.read_text()
    assert "old" not in text
    assert text.startswith(f"before\n{BEGIN}\n| suite |")
    assert "| kernelbench L2 | teacher, hybrid, strict | 1.23x (1.00 to 1.50) |" in text
    assert "| 0 / 2, at worst 1.00x (task 2) | 1 / 2 | 2 / 2 | 2 / 2 | 2 / 2 | NVIDIA" in text


def test_answers_to_drawn_programs_have_a_table_with_columns_for_each_level(place):
    results, readme = place
    synthetic = {"suite": "synthetic-v1", "mode": "pure"}
    cases = [
        case(1, level="L1", **synthetic),
        case(1, level="L2", correct=False, **synthetic),
        case(1, 1.0, 2.0, level="L5", **synthetic),
        case(2, 2.0, 1.0, level="L5", **synthetic),
    ]
    record.append(results / "a.jsonl", [RUN, *cases])
    write_summary(results, readme)
    table = readme.read_text().partition(ANSWERS_BEGIN)[2]
    assert "| correct at L1 | faster at L1 | correct at L2 |" in table
    judged_alone = "1 / 1 | not measured | 0 / 1 | not measured"
    assert f"| synthetic-v1 | teacher, pure, strict | {judged_alone} | 2 / 2 | 1 / 2 |" in table


def test_a_right_kernel_that_the_search_did_not_keep_is_not_delivered():
    cases = [case(1, 1.0, 2.0, kept=True), case(2, 3.0, 2.0, kept=False), case(3, 1.0, 2.0)]
    assert metrics(cases)["delivered"] == {"value": 2, "of": 3, "ci": None}


def delivered(cases, metric):
    return metrics(cases)[metric]["value"]


def test_delivered_means_are_over_every_timed_task_by_what_the_user_gets():
    cases = [
        case(1, 1.0, 4.0, 2.0),
        case(2, 4.0, 1.0, 0.5, kept=False),
        case(3, None, 1.0, 0.25, correct=False, kept=False),
        case(4, 1.0, 4.0, 1.0, form="compiled", kept=False),
        case(5, correct=False, kept=False),
    ]
    assert delivered(cases, "delivered") == 1
    assert delivered(cases, "geomean_over_eager_delivered") == pytest.approx(2.0)
    assert delivered(cases, "geomean_over_compile_delivered") == pytest.approx(0.25**0.25, 1e-3)
    assert delivered(cases, "geomean_over_better_delivered") == pytest.approx(0.25**0.25, 1e-3)
    assert metrics(cases)["geomean_over_compile_delivered"]["of"] == 4
    assert metrics(cases)["worst_over_compile"] == {"value": 0.25, "of": 4, "ci": None, "task": 3}
    assert metrics(cases)["slower_than_compile"] == {"value": 2, "of": 4, "ci": None}


def test_a_task_within_three_percent_of_torch_compile_is_not_slower():
    intervals = {"compiled": [0.9, 0.98]}
    cases = [case(1, 1.0, 2.0, 0.975), case(2, 1.0, 2.0, 0.965, speedup_intervals=intervals)]
    assert delivered(cases, "slower_than_compile") == 1
    assert metrics(cases)["worst_over_compile"]["ci"] == [0.9, 0.98]


def test_what_torch_compile_wins_alone_is_no_win_of_ours():
    won = case(1, 0.5, 2.0, 1.0, form="compiled_kernels")
    theirs = case(2, 0.5, 2.0, 1.0, form="compiled")
    for metric in ("beats_eager", "beats_compile", "beats_eager_significant"):
        assert delivered([won, theirs], metric) == 1
    assert delivered([won, theirs], "delivered") == 1
    assert delivered([won, theirs], "geomean_over_compile_delivered") == 2.0


def test_tasks_without_a_time_are_not_in_the_table_s_mean_which_says_so(place):
    results, readme = place
    lost = case(2, None, None, 1.0, correct=False, kept=False)
    record.append(results / "l2.jsonl", [RUN, case(1, 1.0, 2.0, 2.0), lost])
    write_summary(results, readme)
    text = readme.read_text()
    assert "| 2.00x (2.00 to 2.00), n = 1 | 2.00x (2.00 to 2.00), n = 1 | 1.41x (1.00" in text


def test_all_runs_that_have_a_case_in_the_table_are_named(place):
    results, readme = place
    runs = [{**RUN, "environment": {**RUN["environment"], "commit": name}} for name in "abc"]
    first = [runs[0], case(1), case(2), runs[1], case(3)]
    record.append(results / "l2.jsonl", [*first, runs[2], case(1), case(2)])
    summary = write_summary(results, readme)
    assert summary[f"{PREFIX}/correct"]["commits"] == ["b", "c"]


def test_a_case_has_its_own_commit_and_a_row_of_several_is_marked(place):
    results, readme = place
    cases = [case(1, 1.0, 2.0), case(2, 1.0, 2.0, commit="fedcba9")]
    record.append(results / "l2.jsonl", [RUN, *cases])
    summary = write_summary(results, readme)
    assert summary[f"{PREFIX}/correct"]["commits"] == ["abc123", "fedcba9"]
    assert "| mixed: abc123, fedcba9 |" in readme.read_text()


def test_no_records_leave_a_sentence(place):
    results, readme = place
    assert write_summary(results, readme) == {}
    assert "No benchmark records yet." in readme.read_text()


def test_a_case_without_a_run_is_refused(place):
    results, readme = place
    record.append(results / "l2.jsonl", [case(1)])
    with pytest.raises(UsageError, match="before any run record"):
        write_summary(results, readme)


def test_a_readme_without_markers_is_refused(place):
    results, readme = place
    readme.write_text("nothing")
    with pytest.raises(UsageError, match="results:begin"):
        write_summary(results, readme)
    readme.write_text(f"{BEGIN}\n{END}")
    with pytest.raises(UsageError, match="answers:begin"):
        write_summary(results, readme)
