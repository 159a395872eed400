"""The page of a KernelBench run: what a reader sees first, failures in words, links, one chart."""

from itertools import pairwise

import pytest
from search_records import cpu_run
from tags import tags_of
from test_suite_scores import CASES, RUN, case, wrong

from kernelwright.core import record
from kernelwright.report.suite.chart import HEIGHT, TICK_GAP, speed_chart
from kernelwright.report.suite.failures import raw, why
from kernelwright.report.suite.page import page, read_suite, sentence, write_suite
from kernelwright.report.suite.rows import row_of


@pytest.fixture
def suite_of(tmp_path):
    def read(cases):
        (tmp_path / "records.jsonl").unlink(missing_ok=True)
        record.append(tmp_path / "records.jsonl", [RUN, *cases])
        return read_suite(tmp_path)

    return read


def test_the_page_starts_with_what_the_user_gets_over_the_better_baseline(suite_of):
    suite = suite_of(CASES)
    assert sentence(suite) == (
        "As delivered: 0.95x over the better of eager and torch.compile, 0.95x over torch.compile,"
        " 1.45x over eager (geometric means). 4 of 5 correct, 1 faster than the better of eager and"
        " torch.compile, 1 faster than torch.compile, 2 faster than eager."
    )
    text = page(suite)
    assert text.index(sentence(suite)) < text.index("<main>")


def test_tasks_of_two_levels_with_one_number_are_two_tasks(suite_of):
    suite = suite_of([case(1, 1.0, 2.0, 1.5), case(1, 1.0, 8.0, 1.5, level="L2")])
    assert "2 of 2 correct, 2 faster than the better of" in sentence(suite)
    assert "4.00x over eager" in sentence(suite)


def test_without_times_the_sentence_claims_no_speed(suite_of):
    suite = suite_of([case(1), wrong(2)])
    assert sentence(suite) == "1 of 2 correct."
    assert "<svg" not in page(suite)


def test_the_chart_has_a_point_for_each_timed_task_and_baseline():
    chart = speed_chart(CASES)
    names = ["over the better of both", "over torch.compile", "over eager"]
    assert [line.name for line in chart.lines] == names
    assert [len(line.dots) for line in chart.lines] == [4, 4, 4]
    assert chart.num_left_out == 1
    half_timed = wrong(6, compiled=1.0)
    chart = speed_chart([*CASES, half_timed])
    assert [len(line.dots) for line in chart.lines] == [4, 4, 5]
    assert chart.num_left_out == 2, "the better of both has no point for tasks 5 and 6"
    heights = [dot.y for dot in chart.lines[0].dots]
    assert heights == sorted(heights, reverse=True), "faster is higher"
    assert chart.lines[2].dots[0].tooltip == "L1/4_task: 1.00x over eager"
    assert [tick.text for tick in chart.ticks if tick.is_even] == ["1x"]


@pytest.mark.parametrize("most", [1.2, 3.0, 40.0, 900.0])
def test_labels_of_the_chart_do_not_touch(most):
    chart = speed_chart([case(1, 1.0, 0.6, 0.3), case(2, 1.0, most, most)])
    heights = sorted(tick.y for tick in chart.ticks)
    assert all(b - a >= TICK_GAP - 1e-6 for a, b in pairwise(heights))
    assert all(0 < y < HEIGHT for y in heights)


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        ("infra", "no end within 300 s: torch/_inductor/compile_fx.py:322: User", "300 s."),
        ("infra", 'the process died: serving.py", line 23, in serve ^^^^', "task died."),
        ("memory", "CUDA out of memory. Tried to allocate 40 GiB", "GPU's memory."),
        ("usage", "forward raised TypeError", "cannot be loaded or captured."),
        ("wrong_values", "rms error 0.6 [case base/plain]", "refused: wrong values."),
        ("no_kernel", "no fragment won", "No kernel was kept. PyTorch stays."),
        ("never_seen", "?", "refused: never seen."),
    ],
)
def test_failures_are_told_in_words(code, message, words):
    told = why(wrong(1, code=code, message=message))
    assert told.endswith(words)
    assert "line 23" not in told
    assert raw(wrong(1, code=code, message=message)) == message


def test_a_task_without_a_kernel_names_what_was_refused():
    lost = wrong(1, rejected={"wrong_values": "rms 0.5", "timeout": "60 s"})
    assert why(lost) == (
        "No kernel was kept. PyTorch stays. "
        "Kernels were refused because of: wrong values, takes too long."
    )
    assert raw(lost) == "no fragment won\nwrong_values: rms 0.5\ntimeout: 60 s"


@pytest.mark.parametrize(
    ("contest", "is_named"),
    [
        (None, False),
        ({"right": True, "moves_layouts": True, "median_ms": {"compiled": 1.0}}, False),
        ({"right": True, "moves_layouts": False, "median_ms": {"compiled": 1.0}}, True),
        ({"right": False, "moves_layouts": True, "median_ms": {"compiled": 1.0}}, True),
        ({"right": False, "moves_layouts": True, "median_ms": {}}, False),
    ],
    ids=["older record", "right", "right without layouts", "rejected", "no contest"],
)
def test_a_torch_compile_whose_values_are_rejected_is_named(contest, is_named):
    line = case(1, 1.0, 3.0, 2.0) | ({"contest": contest} if contest else {})
    over_compile, over_eager = row_of(line, ["compiled", "eager"], "").cells[:2]
    assert ("rejects" in over_compile.below) == is_named
    assert "rejects" not in over_eager.below


def test_a_row_leads_with_the_delivered_ratios_and_says_the_form():
    baselines = ["better", "compiled", "eager"]
    row = row_of(case(1, 1.0, 3.0, 2.0, form="compiled_kernels"), baselines, "")
    assert [cell.text for cell in row.cells[:3]] == ["2.00x", "2.00x", "3.00x"]
    assert row.cells[0].below == "2.00 to 3.00"
    assert row.cells[3].text == "correct: own kernels inside torch.compile"


def test_where_torch_compile_is_delivered_the_page_says_that_it_is_the_best_known(suite_of):
    slow = case(1, 1.01, 3.0, 1.0, form="compiled", kept=False)
    lost = wrong(2, form="compiled", eager=2.0, compiled=1.0)
    right, refused = (row_of(each, ["compiled", "eager"], "").cells for each in (slow, lost))
    assert right[2].text == "correct, unchanged: torch.compile is the best known"
    assert (right[0].text, right[3].text) == ("0.99x", "1.01 ms")
    assert refused[2].text == "No kernel was kept. torch.compile is the best known."
    assert (refused[0].text, refused[1].text, refused[3].text) == ("1.00x", "2.00x", "1 ms")
    assert "L1, unchanged: torch.compile is the best known: 2" in page(suite_of([slow, lost]))


def test_an_older_row_whose_kernel_was_not_kept_shows_pytorch_and_the_kernel_s_time():
    over_eager, result, time = row_of(case(4, 2.0, 1.0, 1.0, kept=False), ["eager"], "").cells[:3]
    assert (over_eager.text, time.text) == ("1.00x", "1 ms")
    assert (result.text, result.below) == (
        "correct, unchanged: PyTorch stays",
        "the kernel takes 2 ms",
    )


def test_a_baseline_that_cannot_run_a_task_is_named_with_its_error():
    row = row_of(
        case(1, 1.0, 2.0, baselines_failed={"compiled": "RuntimeError: no"}),
        ["eager", "compiled"],
        "",
    )
    over_eager, over_compile = row.cells[:2]
    assert (over_eager.text, over_eager.value) == ("2.00x", 2.0)
    assert over_compile.text == "torch.compile cannot run it"
    assert (over_compile.raw, over_compile.value) == ("RuntimeError: no", None)


def test_an_older_record_without_intervals_has_its_ratio(suite_of):
    old = case(1, 1.0, 2.0, 1.5)
    del old["speedup_intervals"]
    assert "2.00x" in page(suite_of([old]))


def test_a_task_with_records_of_its_search_links_to_its_page(tmp_path):
    record.append(tmp_path / "records.jsonl", [RUN, *CASES])
    folder = tmp_path / "work" / "L1" / "1_task"
    record.append(folder / "records.jsonl", cpu_run())
    cut_off = tmp_path / "work" / "L1" / "2_task"
    record.append(cut_off / "records.jsonl", cpu_run()[:1])
    write_suite(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert '<a href="work/L1/1_task/report.html">L1/1_task</a>' in text
    assert "mlp_gelu" in (folder / "report.html").read_text()
    assert "work/L1/2_task" not in text


def test_all_columns_and_terms_are_there(suite_of):
    text = page(suite_of(CASES))
    tags_of(text)
    for term in (
        "kept",
        "as delivered",
        "the better of both",
        "algebra",
        "published",
        "of roofline",
    ):
        assert f"<dt>{term}</dt>" in text or f"{term}" in text
    assert text.count('data-label="over torch.compile"') == len(CASES)
    assert "over max-autotune" not in text, "no case has it"
