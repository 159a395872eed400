"""The task linter: each finding on a program that has it, and none on its near neighbour."""

import time
from pathlib import Path

import pytest
import torch
from drawing import draw_program
from lint_samples import LINEAR, NORMAL, SAMPLES, UNIFORM, WEIGHT, program
from test_operators_in_text import SAMPLES as CALLS
from test_operators_in_text import program_of

from kernelwright.lint.findings import KINDS, Severity
from kernelwright.lint.gaps import Allowed, CheapAnswer, gap
from kernelwright.lint.linter import lint_program

OF_MODULES = {"ignores_parameter", "stateful_reference", "hidden_state"}
"""Kinds that programs do not have: tests/verify/test_lint_task.py."""


def ids(report):
    return {each.id for each in report.findings}


def finding(report, id):
    return next(each for each in report.findings if each.id == id)


def test_every_kind_has_a_sample():
    assert SAMPLES.keys() | OF_MODULES == KINDS.keys()


@pytest.mark.parametrize("id", SAMPLES)
def test_a_program_that_has_it_is_found(id):
    report = lint_program(SAMPLES[id][0])
    assert id in ids(report), report.findings
    assert finding(report, id).to_json()["remedy"]


@pytest.mark.parametrize("id", SAMPLES)
def test_its_near_neighbour_has_not(id):
    assert id not in ids(lint_program(SAMPLES[id][1]))


def test_a_good_program_is_clean():
    report = lint_program(
        program([NORMAL, WEIGHT, "torch.randn(96)"], ["a = F.linear(x0, x1, x2)", "b = F.gelu(a)"])
    )
    assert report.findings == ()
    assert report.not_checked == ()
    assert not report.scaled


@pytest.mark.parametrize(
    "body",
    [["a = torch.mean(x0, dim=1)"], ["a = x0 * 2.0", "b = torch.sum(a, dim=0)"], ["a = x0 - 1.0"]],
)
def test_the_work_itself_is_no_cheap_answer(body):
    assert not lint_program(program([NORMAL], body)).reasons("1e-4")


def test_tolerances_name_the_tightest_and_the_loosest_that_pass():
    tight = finding(lint_program(program([UNIFORM], ["a = torch.relu(x0)"])), "identity")
    assert tight.tolerances == ("strict", "1e-4", "1e-2")
    text = ["a = x0 * 0.001", "b = torch.sin(a)"]
    loose = finding(lint_program(program([UNIFORM], text)), "zero_passes")
    assert loose.tolerances == ("1e-2",)
    assert loose.holds_under("1e-2")
    assert not loose.holds_under("strict")
    assert loose.measure == pytest.approx(1e-3, rel=0.05)


def test_rounding_noise_around_zero_is_a_constant_output():
    text = ["a = F.layer_norm(x0, normalized_shape=(32,))", "b = torch.mean(a, dim=1)"]
    found = finding(lint_program(program([NORMAL], text)), "constant_output")
    assert found.tolerances[0] == "strict"


def test_only_the_last_of_a_chain_of_ignored_operators_is_named():
    report = lint_program(SAMPLES["ignores_operator"][0])
    named = [each.operator for each in report.findings if each.id == "ignores_operator"]
    assert named == [2]


def test_a_sum_of_shuffled_values_is_not_taken_for_an_ignored_operator():
    text = [LINEAR, "b = torch.relu(a)", "c = torch.sum(b, dim=0)"]
    assert "ignores_operator" not in ids(lint_program(program([NORMAL, WEIGHT], text)))


@pytest.mark.slow
def test_a_large_program_is_scaled_down_and_says_so():
    large = program(["torch.randn(4096, 4096)"], ["a = torch.tanh(x0)", "b = torch.exp(a)"])
    assert lint_program(large).scaled
    assert not lint_program(large, max_elements=1 << 30).scaled


def test_what_time_runs_out_for_is_named():
    report = lint_program(SAMPLES["idle_operator"][0], budget_s=0.0)
    assert any("out of time" in reason for reason in report.not_checked)
    assert report.num_draws < 5


def test_the_same_program_gives_the_same_report():
    first, second = (lint_program(SAMPLES["subsampled"][0]) for _ in range(2))
    assert first.findings == second.findings


def test_linting_leaves_the_callers_random_state_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    lint_program(program([NORMAL], ["a = F.dropout(x0, p=0.2)", "b = torch.argmax(a, dim=1)"]))
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_most_sample_calls_of_most_operators_are_clean():
    reports = [lint_program(program_of(sample), str(sample)) for sample in CALLS[::4]]
    flagged = [report.task for report in reports if report.reasons("1e-4")]
    assert len(flagged) < 0.25 * len(reports), flagged
    odd = [text for text in flagged if text.startswith(("gelu", "linear", "conv", "layer_norm"))]
    assert odd == []


def test_a_program_that_returns_an_input_is_found():
    drawn = next(p for p in map(draw_program, range(99)) if "x0" in p.outputs)
    copied = {e.output for e in lint_program(drawn).findings if e.id == "identity"}
    assert drawn.outputs.index("x0") in copied


def test_a_small_program_takes_milliseconds():
    small = program([NORMAL, WEIGHT], [LINEAR, "b = F.gelu(a)", "c = torch.softmax(b, dim=1)"])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        lint_program(small)
        begin_s = time.process_time()
        for _ in range(5):
            lint_program(small)
        assert (time.process_time() - begin_s) / 5 < 0.2
    finally:
        torch.set_num_threads(before)


def test_a_mean_that_a_sixteenth_settles_is_degenerate_and_a_longer_sum_is_weak():
    most = finding(lint_program(SAMPLES["subsampled"][0]), "subsampled")
    assert (most.severity, most.measure) == (Severity.WEAK, 0.75)
    text = ["a = x0 + x1", "b = torch.mean(a, dim=0)"]
    few = program(["torch.rand(8192, 4) * 0.1", "torch.randn(4)"], text)
    found = finding(lint_program(few, max_elements=1 << 20), "subsampled")
    assert (found.severity, found.measure) == (Severity.DEGENERATE, 1 / 16)


@pytest.mark.parametrize("size", [100, 1 << 17])
def test_one_wrong_element_shows_in_the_gap(size):
    reference = torch.ones(size)
    answer = reference.clone()
    answer[size // 3] = 3.0
    assert gap(reference, answer).excess == pytest.approx(0.5)
    assert not gap(reference, answer).passes_any


def test_nan_answers_pass_nothing():
    reference = torch.ones(8)
    assert (
        gap(reference, torch.full((8,), float("nan"))).tolerances(Allowed.by_floor(torch.float32))
        == ()
    )


def test_elements_without_a_finite_reference_do_not_count():
    reference = torch.tensor([1.0, float("nan"), float("inf")])
    assert gap(reference, CheapAnswer(shift=1.0)).excess == 0.0


def test_the_page_lists_every_kind_as_it_is():
    page = (Path(__file__).parents[2] / "docs" / "lint.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    expected = [
        f"| `{id}` | {kind.severity} | {kind.measure.replace('|', chr(92) + '|') or '-'} "
        f"| {kind.meaning} | {kind.remedy} |"
        for id, kind in KINDS.items()
    ]
    assert rows == expected
