"""Scores of a KernelBench run, and its page, from records."""

import pytest
from verdicts import timing_fields as timing

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.suite.page import read_suite, write_suite
from kernelwright.report.suite.scores import cases_of, scores_by_level
from kernelwright.report.suite.tables import above_floor, counts, fast, means, spent
from kernelwright.report.suite.task_sets import task_sets

RUN = {
    "record": "run",
    "command": "eval kernelbench",
    "policy": "teacher",
    "options": {"mode": "hybrid", "precision": "strict", "budget_s": 60.0},
    "environment": {"gpu": "NVIDIA H200, 1", "versions": {"torch": "2.11.0"}, "commit": "abc"},
}


def case(number, ours=None, eager=None, compiled=None, level="L1", low=None, **over):
    """A correct case in ms; `low` is the lower end of both intervals, else the ratio itself."""
    times = {"eager": eager, "compiled": compiled}
    intervals = {
        name: [low or each / ours, each / ours + 1] for name, each in times.items() if ours and each
    }
    return {
        "record": "benchmark_case",
        "level": level,
        "id": number,
        "sample": 0,
        "name": f"{number}_task",
        "correct": True,
        "code": "ok",
        "message": "",
        "optimized": ours and timing(ours),
        "eager": eager and timing(eager),
        "compiled": compiled and timing(compiled),
        "speedup_intervals": intervals,
        "seconds": 10.0,
        "candidates": 3,
        "errors": {
            "max_candidate": 2e-6,
            "max_reference": 1e-3,
            "rms_candidate": 1e-6,
            "rms_reference": 1e-4,
        },
        **over,
    }


def wrong(number, **over):
    failure = {"correct": False, "code": "no_kernel", "message": "no fragment won"}
    return case(number, **failure | over)


CASES = [
    case(1, 1.0, 2.0, 1.5, floor_ms=0.5, rewrites=["channels_last"]),
    case(2, 1.0, 2.0, 0.5),
    case(3, 1.0, 1.1, 1.1, low=0.9),
    case(4, 2.0, 1.0, 1.0, kept=False),
    wrong(5),
]


@pytest.fixture
def scores():
    return scores_by_level(CASES)[0]


def test_a_win_excludes_one(scores):
    better, compiled, eager = scores.against
    assert (scores.tasks, scores.correct, scores.kept) == (5, 4, 3)
    assert (eager.baseline, eager.beats) == ("eager", 2)
    assert (compiled.baseline, compiled.beats) == ("compiled", 1)
    assert (better.baseline, better.beats) == ("better", 1)


def test_fast_p_is_over_all_tasks(scores):
    assert scores.against[2].fast == (0.8, 0.6, 0.6, 0.4, 0.4, 0.0)
    assert scores.against[1].fast == (0.8, 0.4, 0.4, 0.2, 0.0, 0.0)


def test_both_means_name_their_tasks(scores):
    better, compiled, eager = scores.against
    assert eager.correct.num == 4
    assert eager.correct.value == pytest.approx((2 * 2 * 1.1 * 0.5) ** (1 / 4))
    assert eager.delivered.num == 4, "task 5 was not timed"
    assert eager.delivered.value == pytest.approx((2 * 2 * 1.1) ** (1 / 4))
    assert compiled.delivered.value == pytest.approx((1.5 * 0.5 * 1.1) ** (1 / 4))
    assert better.delivered.value == compiled.delivered.value
    assert scores.unchanged == {"compiled": (), "original": ("4_task", "5_task")}


def test_where_torch_compile_is_delivered_it_counts_and_wins_nothing():
    theirs = case(1, 1.0, 2.0, 1.0, form="compiled", kept=False, low=1.5)
    [scores] = scores_by_level([theirs, case(2, 1.0, 3.0, 2.0, form="compiled_kernels")])
    better, compiled, eager = scores.against
    assert (scores.kept, scores.unchanged) == (1, {"compiled": ("1_task",), "original": ()})
    assert [each.beats for each in scores.against] == [1, 1, 1]
    assert eager.fast[2] == compiled.fast[2] == 0.5
    assert compiled.delivered.value == better.delivered.value == pytest.approx(2**0.5)
    assert means([scores])[1][-1] == "1 (torch.compile 1)"


def test_rewrites_roofline_and_what_was_spent(scores):
    assert scores.rewrites == {"channels_last": 1}
    assert (scores.by_rewrites, scores.by_algebra) == (1, 0)
    assert scores.roofline.value == pytest.approx(0.5)
    assert scores.roofline.num == 1
    assert (scores.seconds, scores.candidates) == (50.0, 15)


def test_a_baseline_that_fails_is_not_beaten():
    cases = [
        case(1, 1.0, 2.0, 2.0),
        case(2, 1.0, 2.0, baselines_failed={"compiled": "RuntimeError"}),
    ]
    compiled = scores_by_level(cases)[0].against[1]
    assert compiled.beats == 1
    assert compiled.fast[0] == 1.0
    assert compiled.fast[2] == 0.5
    assert compiled.correct.num == 1
    assert compiled.delivered.num == 1


def test_several_samples_of_a_task_give_pass_at_k():
    cases = [
        *(case(1, sample=i, correct=i == 3) for i in range(4)),
        *(case(2, sample=i, correct=i < 2) for i in range(5)),
    ]
    found = scores_by_level(cases)[0]
    assert (found.tasks, found.correct) == (2, 1), "the first sample stands for its task"
    assert found.pass_at == pytest.approx({1: (0.25 + 0.4) / 2, 2: (0.5 + 0.7) / 2, 4: (1 + 1) / 2})
    assert scores_by_level([case(1)])[0].pass_at == {}


def test_the_last_record_of_a_case_counts():
    lines = [RUN, wrong(1, code="infra"), case(2), case(1)]
    assert [(line["id"], line["correct"]) for line in cases_of(lines)] == [(1, True), (2, True)]


def test_sets_leave_out_what_others_removed_and_what_the_linter_finds():
    lint = [
        {"record": "lint", "task": "level1/1_a.py", "findings": []},
        {"record": "lint", "task": "level1/23_b.py", "findings": [{"id": "zero_passes"}]},
        {"record": "lint_error", "task": "level2/7_c.py", "kind": "usage"},
    ]
    sets = task_sets({(1, 1), (1, 23), (2, 7)}, lint)
    assert sets["all"] == {(1, 1), (1, 23), (2, 7)}
    assert sets["metr"] == {(1, 1), (2, 7)}, "METR removed task 23 of level 1"
    assert sets["clean"] == {(1, 1)}, "what was not linted is not clean"


def test_tables_say_what_the_scores_say(scores):
    assert counts([scores], published=True)[1] == (
        "L1",
        "5",
        "4",
        "3",
        "1",
        "1",
        "2",
        "69 / 17 / 12",
        "unknown",
    )
    assert [row[1] for row in means([scores])[1:]] == [
        "the better of both",
        "torch.compile",
        "eager",
    ]
    assert means([scores])[0][2] == "as delivered"
    assert means([scores])[1][-1] == "2"
    assert fast([scores])[3][2:] == ("0.80", "0.60", "0.60", "0.40", "0.40", "0.00")
    assert spent([scores])[1] == ("L1", "50", "15", "0", "1 (channels last 1)", "0",
                                "0.50, n = 1")  # fmt: skip


def form(algebra, ours):
    times = {"optimized": timing(ours), "eager": timing(2.0)} if ours else {}
    return {"layout": "contiguous", "algebra": algebra, "rewrites": [], "times": times}


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ([form(["sum_of_product"], 0.5), form([], 0.75), form([], 0.8)], 3.0 * 0.5 / 0.75),
        ([form(["sum_of_product"], 0.5), form([], 1.6)], 1.0),
        ([form(["sum_of_product"], 0.5), form([], None)], 1.0),
        ([], 3.0),
    ],
    ids=["slower", "loses to eager", "not right", "nothing compared"],
)
def test_means_are_given_without_algebra_too(forms, expected):
    won = case(1, 1.0, 3.0, 6.0, algebra=["sum_of_product"], forms=forms)
    [scores] = scores_by_level([won])
    assert scores.by_algebra == 1
    assert scores.algebra == {"sum_of_product": 1}
    _, compiled, eager = scores.against
    assert eager.delivered.value == pytest.approx(3.0)
    assert eager.without_algebra.value == pytest.approx(expected)
    assert compiled.without_algebra.value == pytest.approx(2 * expected), "eager is 2x as fast"


def graphed(number, launched_ms, **times):
    return case(number, graph={"replayed_ms": 1.0, "launched_ms": launched_ms}, **times)


def test_means_and_wins_are_given_without_graphs_too():
    faster_anyway = graphed(1, 2.0, ours=1.0, eager=4.0, compiled=6.0)
    by_the_graph = graphed(2, 5.0, ours=1.0, eager=4.0, compiled=6.0)
    [scores] = scores_by_level([faster_anyway, by_the_graph, case(3, 1.0, 1.0, 1.0)])
    assert (scores.graphs, scores.graphs_needed) == (2, 1)
    _, compiled, eager = scores.against
    assert eager.delivered.value == pytest.approx(16 ** (1 / 3))
    assert eager.launched.value == pytest.approx(2 ** (1 / 3))
    assert compiled.launched.value == pytest.approx((3 * 6 / 4) ** (1 / 3))
    assert spent([scores])[1][5] == "2 (1 not otherwise)"


def test_without_times_only_correctness_is_told():
    found = scores_by_level([case(1), wrong(2)])
    assert found[0].against == ()
    head = ("level", "tasks", "correct", "kept")
    assert counts(found, published=False)[0] == (*head, "commit")
    assert counts(found, published=True)[0] == (*head, "published, %", "commit")


def test_rows_name_the_commits_of_their_cases_and_mark_mixed_ones(tmp_path):
    later = RUN | {"environment": RUN["environment"] | {"commit": "0123456789ab-dirty"}}
    lines = [RUN, case(1), case(2), later, case(2), case(6, level="L2")]
    levels = scores_by_level(cases_of(lines))
    commits = [row[-1] for row in counts(levels, published=False)]
    assert commits == ["commit", "mixed: 0123456-dirty, abc", "0123456-dirty"]
    record.append(tmp_path / "records.jsonl", lines)
    write_suite(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "commit mixed: 0123456-dirty, abc" in text
    assert text.count("<td>0123456-dirty") == 2, "the two tasks of the later commit"


def test_the_page_names_everything_and_escapes_what_others_wrote(tmp_path):
    evil = wrong(9) | {"message": "<script>x</script>"}
    tf32 = case(6, 1.0, 2.0, 2.0, level="L2", tf32={"matmul": False, "cudnn": True})
    record.append(tmp_path / "records.jsonl", [RUN, *CASES, evil, tf32])
    checks = [
        {"record": "cross_check", "level": "L1", "id": i, "name": f"{i}_task", "agrees": i != 2,
         "issue": "tolerance"}
        for i in (1, 2)
    ]  # fmt: skip
    record.append(tmp_path / "cross_check.jsonl", checks)
    suite = write_suite(tmp_path)
    text = (tmp_path / "report.html").read_text()
    (said,) = suite.disagreements
    assert said == (
        "L1/2_task: tolerance "
        "(largest error against float64: the kernel's 2.0e-06, PyTorch's 1.0e-03)"
    )
    assert "2 kernels, 1 disagreements" in text
    assert "TF32 on all sides: matmul off, cudnn on" in text
    assert "4_task, 5_task, 9_task" in text
    assert "<script>x" not in text
    assert "2.00x" in text


def test_tasks_furthest_above_their_floor_come_first_whoever_computes_them():
    lost = wrong(3, eager=9.0, floor_ms=1.0)
    assert above_floor([case(1, 4.0, floor_ms=2.0), case(2, 5.0), lost]) == [
        ("L1/3_task", "PyTorch", "9 ms", "1 ms", "9.00x"),
        ("L1/1_task", "own kernels", "4 ms", "2 ms", "2.00x"),
    ]
    assert scores_by_level([lost])[0].against == (), "a baseline alone is no comparison"


def test_a_folder_without_cases_has_no_page(tmp_path):
    with pytest.raises(UsageError, match="no cases"):
        read_suite(tmp_path)
