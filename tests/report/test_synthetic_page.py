"""Scores of a policy's answers, and their page, from records."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import timing_fields as timing

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.scores import best_of_k
from kernelwright.report.synthetic.page import (
    answers,
    bests,
    curves,
    diversity,
    failures,
    gap_rows,
    operators,
    read_examination,
    reasons,
    speeds,
    write_examination,
)
from kernelwright.report.synthetic.scores import gaps, level_scores, operator_scores, pass_1
from tools.pages.readme import metrics, read_groups

RUN = {
    "record": "run",
    "command": "eval synthetic",
    "policy": "embedded",
    "left": 3,
    "options": {
        "samples": 1,
        "temperature": 0.0,
        "top_p": 1.0,
        "mode": "pure",
        "precision": "strict",
        "grade": "fresh",
        "device": "cuda",
    },
    "environment": {"gpu": "NVIDIA H200, 1", "versions": {"torch": "2.11.0"}, "commit": "abc"},
}


def right(number, *, sample=0, speedup=None, level="L1", suite="set", operators=("relu",), **over):
    ours = 1.0 if speedup else None
    return {
        "record": "benchmark_case",
        "suite": suite,
        "level": level,
        "policy": "embedded",
        "mode": "pure",
        "precision": "strict",
        "id": number,
        "sample": sample,
        "name": f"{suite}/{level}/{number}",
        "operators": list(operators),
        "num_calls": len(operators),
        "correct": True,
        "kept": True,
        "has_triton": True,
        "code": "ok",
        "message": "",
        "malformed": None,
        "schedule": "pointwise BLOCK=1024",
        "content": f"{number}-{sample}",
        "eager": speedup and timing(speedup),
        "compiled": None,
        "optimized": ours and timing(ours),
        "speedup_intervals": {"eager": [speedup - 0.1, speedup + 0.1]} if speedup else {},
        **over,
    }


def wrong(number, code="wrong_values", **over):
    return right(number, correct=False, has_triton=False, code=code, **over)


def cut_off(number, **over):
    return wrong(number, "cut_off", malformed="cut_off", **over)


GREEDY = [
    right(1, speedup=2.0),
    right(2, speedup=1.05),
    wrong(3),
    cut_off(4),
    right(1, level="L2", speedup=0.5, operators=("relu", "sum")),
    wrong(2, level="L2", operators=("sum", "exp")),
]


def test_levels_count_first_samples_and_only_sure_wins():
    one, two = level_scores(GREEDY)
    assert (one.level, one.first.tasks, one.first.correct, one.malformed) == ("L1", 4, 2, 1)
    assert one.pass_1.value == 0.5
    assert one.pass_1.low < 0.5 < one.pass_1.high
    assert one.reasons == {"wrong_values": 1, "answer: cut_off": 1}
    assert one.first.against[0].beats == 1
    assert one.first.against[0].correct.value == pytest.approx((2.0 * 1.05) ** 0.5)
    assert two.first.against[0].beats == 0
    assert one.diversity is None


def test_several_samples_are_meaned_within_their_program_first():
    sampled = [right(1, sample=n) for n in range(4)]
    sampled += [right(2, sample=0), *(wrong(2, sample=n) for n in (1, 2, 3))]
    (level,) = level_scores(sampled)
    assert level.samples == 8
    assert level.pass_1.value == pytest.approx((1.0 + 0.25) / 2)
    assert level.pass_1.num == 2
    assert level.first.pass_at[2] == pytest.approx((1.0 + 0.5) / 2)


def test_the_best_of_k_is_what_a_user_gets_from_k_samples():
    """4x, 2x and a wrong answer; and a program whose samples are slower than PyTorch."""
    fast = [right(1, sample=0, speedup=4.0), right(1, sample=1, speedup=2.0), wrong(1, sample=2)]
    slow = [right(2, sample=n, speedup=0.5) for n in range(3)]
    (level,) = level_scores([*fast, *slow])
    assert level.best_of.is_measured
    assert level.best_of.at.keys() == level.first.pass_at.keys() == {1, 2}
    one, two = (level.best_of.at[k].value for k in (1, 2))
    assert one == pytest.approx(2 ** ((2 + 1 + 0) / 3 / 2))
    assert two == pytest.approx(2 ** ((2 + 2 + 1) / 3 / 2)), "pairs: 4 and 2, 4 and no, 2 and no"
    assert bests([level])[0] == ("level", "programs", "by", "best of 1", "best of 2")
    assert bests([level])[1][:3] == ("L1", "2", "times")
    passed, speed = curves([level])
    assert (passed.title, speed.title) == ("pass@k", "Speed-up of the best of k")


def test_the_best_of_k_is_by_the_cost_model_where_nothing_was_timed():
    cases = [right(1, sample=n, modelled=float(n)) for n in (1, 2)]
    (level,) = level_scores(cases)
    assert not level.best_of.is_measured
    assert level.best_of.at[2].value == pytest.approx(2.0)
    assert bests([level])[1][2] == "cost model"
    assert bests(level_scores(GREEDY)) == []
    assert curves(level_scores([right(1)])) == []


@given(st.lists(st.floats(0, 9), min_size=1, max_size=7), st.data())
def test_the_best_of_k_is_the_mean_over_all_choices(values, data):
    k = data.draw(st.integers(1, len(values)))
    every = [max(chosen) for chosen in combinations(values, k)]
    assert best_of_k(values, k) == pytest.approx(sum(every) / len(every))


@pytest.mark.parametrize("k", [0, 3])
def test_no_best_of_more_values_than_there_are(k):
    with pytest.raises(ValueError, match="of 2 values"):
        best_of_k([1.0, 2.0], k)


def test_diversity_is_within_programs():
    two = [right(1, sample=0, speedup=2.0), right(1, sample=1, speedup=0.5, schedule="other")]
    same = [right(2, sample=n, speedup=2.0, content="same") for n in (0, 1)]
    (level,) = level_scores([*two, *same, cut_off(3)])
    found = level.diversity
    assert (found.programs, found.schedules, found.texts) == (2, 0.75, 0.75)
    assert found.spread.value == pytest.approx(4.0)
    assert found.spread.num == 1
    assert diversity([level])[1][1:4] == ("2", "0.75", "0.75")


def test_operators_are_told_apart_alone_and_among_others():
    by_name = {each.operator: each for each in operator_scores(GREEDY)}
    assert by_name["relu"].alone.value == 0.5
    assert by_name["relu"].among.value == pytest.approx(3 / 5)
    assert by_name["relu"].reasons == {"wrong_values": 1, "answer: cut_off": 1}
    assert by_name["exp"].alone is None
    assert operators(list(by_name.values()))[1][0] == "exp"


def test_a_gap_has_an_interval_and_is_taken_level_by_level():
    train = [right(n, suite="train") for n in range(50)]
    held_out = [right(n, suite="held out") for n in range(45)]
    held_out += [wrong(n, suite="held out") for n in range(45, 50)]
    (gap,) = gaps([*train, right(1, suite="train", level="L5")], held_out)
    assert gap.level == "L1"
    assert gap.above.value == pytest.approx(0.1)
    assert gap.above.low < 0.1 < gap.above.high < 0.25
    assert gap_rows([gap])[1][0] == "L1"
    assert gap_rows([gap])[1][3].startswith("10.0 (")


def test_rows_say_what_is_published_and_leave_out_what_was_not_measured():
    levels = level_scores(GREEDY)
    assert answers(levels)[1][-2:] == ("86.8 / 32.1", "unknown")
    assert [row[0] for row in reasons(levels)] == [
        "reason",
        "wrong values",
        "answer: cut off before its end",
    ]
    assert len(speeds(levels)) == 3
    assert speeds(level_scores([right(1)])) == []
    assert diversity(levels) == []


def test_failures_are_programs_with_the_first_reason():
    sampled = [right(1), wrong(1, sample=1, message="rows"), wrong(1, sample=2), right(2)]
    assert failures(sampled)[1:] == [("set/L1/1", "2 of 3", "relu", "wrong values: rows")]


def test_the_page_names_every_suite_and_their_difference(tmp_path):
    other = [right(1, suite="<b>other</b>"), wrong(2, suite="<b>other</b>")]
    record.append(tmp_path / "records.jsonl", [RUN, *GREEDY, *other])
    write_examination(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "set above &lt;b&gt;other&lt;/b&gt;" in text
    assert "<b>other" not in text
    assert "NVIDIA H200" in text
    assert "greedy" in text
    assert "3 answers not judged" in text


def test_a_folder_without_cases_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no cases"):
        read_examination(tmp_path)
    record.append(tmp_path / "records.jsonl", [RUN])
    with pytest.raises(UsageError, match="no cases"):
        read_examination(tmp_path)


def test_published_figures_are_of_the_first_sample_but_for_those_of_several(tmp_path):
    sampled = [wrong(1), right(1, sample=1, schedule="other"), right(2), right(2, sample=1)]
    found = metrics(sampled)
    assert found["correct"] == {"value": 1, "of": 2, "ci": None}
    assert found["pass_at_1"]["value"] == 0.75
    assert found["pass_at_2"]["value"] == 1.0
    assert found["malformed"] == {"value": 0, "of": 4, "ci": None}
    assert found["distinct_schedules"]["value"] == 0.75
    record.append(tmp_path / "a.jsonl", [RUN, *sampled])
    record.append(tmp_path / "b.jsonl", [RUN, right(1)])
    (group,) = read_groups(tmp_path).values()
    assert [(case["id"], case["sample"]) for case in group.cases] == [(1, 0), (2, 0), (2, 1)]


def test_pass_1_of_no_program_is_no_figure():
    with pytest.raises(ValueError, match="no tasks"):
        pass_1([])
