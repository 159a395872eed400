"""The site of many runs: figures by hand, older records, links and texts of all pages."""

import json
import re

import pytest
from search_records import gpu_run
from site_folders import HOSTILE, SETTINGS, write_bench, write_folders, write_later_bench
from tags import tags_of
from test_suite_scores import CASES, RUN, case, timing, wrong
from typer.testing import CliRunner

from kernelwright.cli.main import app
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.naming import Slugs, names_of
from kernelwright.report.site.charts import distribution, figures
from kernelwright.report.site.index import sentences
from kernelwright.report.site.reading import read_records
from kernelwright.report.site.run import reason_rows
from kernelwright.report.site.summary import Counted, summaries, summarize
from kernelwright.report.site.write import write_site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with pages of every kind."""
    paths = write_folders(tmp_path_factory.mktemp("runs"))
    out = tmp_path_factory.mktemp("site")
    write_site(paths, out, lambda _: None)
    return out


def summary(*cases):
    return summarize("kernelbench", "L1", cases)


def test_correct_counts_say_how_many_kernels_nobody_receives():
    level = summary(*CASES)
    assert level.correct == Counted(tasks=4, not_delivered=1), "task 4 is slower, so not kept"
    assert (level.tasks, level.delivered) == (5, 3)
    assert level.faster == {"eager": Counted(2, 0), "compiled": Counted(1, 0)}


def test_a_kernel_that_beats_eager_and_is_not_kept_is_labelled():
    level = summary(case(1, 1.0, 2.0, 0.5, kept=False))
    assert level.faster["eager"] == Counted(tasks=1, not_delivered=1)
    assert level.delivered == 0


def test_means_are_geometric_over_the_code_that_the_user_gets():
    level = summary(*CASES, case(6, 1.0, 4.0, 2.0, max_autotune=timing(3.0)))
    # Task 4 leaves PyTorch, which takes 1.0 ms of 1.0 ms; task 5 was not timed.
    ratios = {
        "eager": [2.0, 2.0, 1.1, 1.0, 4.0],
        "compiled": [1.5, 0.5, 1.1, 1.0, 2.0],
        "max_autotune": [3.0],
    }
    for name, values in ratios.items():
        product = 1.0
        for value in values:
            product *= value
        assert level.means[name].num == len(values), name
        assert level.means[name].value == pytest.approx(product ** (1 / len(values))), name


def test_errors_are_medians_over_correct_tasks():
    errors = [
        {"rms_candidate": ours, "rms_reference": theirs, "max_candidate": 0, "max_reference": 0}
        for ours, theirs in ((1e-7, 4e-7), (3e-7, 2e-7), (9e-7, 6e-7), (1.0, 1.0))
    ]
    right = [case(i, errors=figures) for i, figures in enumerate(errors[:3])]
    level = summary(*right, wrong(9, errors=errors[3]), case(10, errors=None))
    assert (level.errors.kernels, level.errors.pytorch, level.errors.tasks) == (3e-7, 4e-7, 3)


def test_the_roofline_is_that_of_the_delivered_code():
    kept = case(1, 1.0, 2.0, floor_ms=0.5)
    in_pytorch = case(2, 4.0, 2.0, kept=False, floor_ms=0.25)
    level = summary(kept, in_pytorch, case(3, 1.0, 2.0))
    assert level.roofline.value == pytest.approx((0.5 / 1.0 * 0.25 / 2.0) ** 0.5)
    assert level.roofline.num == 2


def test_without_times_nothing_is_said_about_speed():
    level = summary(case(1), wrong(2))
    assert (level.is_timed, level.faster, level.roofline) == (False, {}, None)


def test_older_records_win_if_the_intervals_of_medians_do_not_overlap():
    def older(ours_high, eager_low):
        times = case(1, 1.0, 2.0) | {"speedup_intervals": None}
        times["optimized"] = timing(1.0) | {"high_ms": ours_high}
        times["eager"] = timing(2.0) | {"low_ms": eager_low}
        return times

    assert summary(older(1.2, 1.3)).faster["eager"].tasks == 1
    assert summary(older(1.4, 1.3)).faster["eager"].tasks == 0


def test_the_headline_gives_the_range_over_timed_levels(tmp_path):
    slow = [case(1, 1.0, 1.0, 2.0, level="L2") | SETTINGS]
    record.append(tmp_path / "a.jsonl", [RUN, *(line | SETTINGS for line in CASES), *slow])
    (run,) = read_records([tmp_path / "a.jsonl"]).runs
    assert sentences([(run, summaries(run))]) == [
        "Users get verified kernels for 4 of 6 tasks in 2 timed levels. As delivered: 1.00x to"
        " 1.45x over eager, 0.95x to 2.00x over torch.compile (geometric means of levels).",
        "This site holds 1 run with 6 tasks.",
    ]


def test_a_speed_up_counts_in_one_range_and_exactly_one_in_its_own():
    counts = {words: number for words, number, _ in distribution([0.1, 0.9, 0.999, 1.0, 1.0, 1.05])}
    assert counts["below 0.25"] == 1
    assert counts["0.9 to 1"] == 2
    assert counts["exactly 1"] == 2
    assert counts["above 1 to 1.1"] == 1
    assert sum(counts.values()) == 6
    assert {n for words, n, _ in distribution([99.0]) if words == "10 and more"} == {1}


def test_fast_p_has_a_line_for_each_level_and_a_table():
    timed = [line | SETTINGS for line in CASES]
    fast, *_ = figures(timed)
    assert fast.title == "fast_p over eager"
    assert fast.rows[0][:3] == ("level", "p = 0", "p = 0.5")
    assert fast.rows[1][0] == "kernelbench L1"
    assert fast.rows[1][1:4] == ("80.0%", "60.0%", "60.0%"), "4, 3 and 3 of 5 tasks"
    assert len(figures(timed)) == 4


def test_one_file_with_two_policies_is_two_runs(tmp_path):
    first = CASES[0] | SETTINGS
    record.append(tmp_path / "x.jsonl", [RUN, first, first | {"policy": "model"}])
    names = [run.name for run in read_records([tmp_path / "x.jsonl"]).runs]
    assert names == ["x, teacher", "x, model"]


def test_a_run_names_its_commits_and_marks_several_as_mixed(tmp_path):
    cases = [
        CASES[0] | SETTINGS | {"id": i, "commit": digit * 12} for i, digit in ((1, "a"), (2, "b"))
    ]
    record.append(tmp_path / "mixed.jsonl", [RUN, *cases])
    record.append(tmp_path / "single.jsonl", [RUN, cases[0]])
    mixed, single = read_records([tmp_path / "mixed.jsonl", tmp_path / "single.jsonl"]).runs
    assert (mixed.commit, single.commit) == ("mixed: aaaaaaa, bbbbbbb", "aaaaaaa")


def test_a_training_run_without_a_step_is_named_and_stops_nothing(tmp_path):
    part = {"record": "part", "command": "train rl", "from_step": 0}
    record.append(tmp_path / "begun" / "records.jsonl", [part])
    record.append(tmp_path / "x.jsonl", [RUN, CASES[0] | SETTINGS])
    site = read_records([tmp_path / "begun", tmp_path / "x.jsonl"])
    assert [run.name for run in site.runs] == ["x"]
    assert site.trainings == ()
    assert [other.name for other in site.others] == ["begun"]


def test_older_records_get_missing_settings_from_their_run(tmp_path):
    old = {key: value for key, value in CASES[0].items() if key not in ("sample", "message")}
    note = {"record": "note", "text": "two machines"}
    record.append(tmp_path / "old.jsonl", [note, RUN, old, old | {"correct": False}])
    (run,) = read_records([tmp_path / "old.jsonl"]).runs
    assert (run.policy, run.mode, run.precision) == ("teacher", "hybrid", "strict")
    assert (run.device, run.commits, run.notes) == ("NVIDIA H200", ("abc",), ("two machines",))
    (only,) = run.cases
    assert not only["correct"], "the last record of a task counts"


def test_failures_are_in_words():
    lost = [
        wrong(1, code="wrong_values", message="max error"),
        wrong(2, code="wrong_values"),
        wrong(3, code="no_kernel", malformed="cut_off"),
        wrong(4),
    ]
    head, *rows = reason_rows([*lost, CASES[0]])
    assert head[:2] == ("reason", "answers")
    assert [(row[0].partition(".")[0], row[1], row[2]) for row in rows] == [
        ("Wrong values", "2", "1_task, 2_task"),
        ("The answer holds no candidate: cut off before its end", "1", "3_task"),
        ("No kernel was kept", "1", "4_task"),
    ]


def test_names_and_slugs_are_unique(tmp_path):
    paths = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    assert names_of(paths) == ["a/run", "b/run"]
    slugs = Slugs(taken=("index",))
    made_of = [slugs.new(name) for name in ("L1/a b", "L1/A b", "index", "...", "x" * 300)]
    assert made_of[:4] == ["L1-a-b", "L1-A-b-2", "index-2", "unnamed"]
    assert len(made_of[4]) < 200


def test_every_link_leads_to_a_page_of_the_site(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        attributes = tags_of(text).attributes
        targets = [value for name, value in attributes if name in ("href", "src")]
        files = [target for target in targets if not target.startswith("#")]
        assert files, page
        assert [name for name in files if not (page.parent / name).is_file()] == [], page
        assert not re.search(r"(?:src|href|url)\W{1,2}https?:", text), page


def test_the_first_page_links_runs_pairs_curves_and_modules(site):
    text = (site / "index.html").read_text()
    targets = ("bench/index.html", "compare/bench--later.html", "training/first.html")
    for target in (*targets, "training/all-train-rl.html", "modules/module.html"):
        assert f'href="{target}"' in text, target
    assert "uniformity: 2" in text, "files without a page are named"
    assert "1 of them not delivered" in text


def test_a_task_has_kernels_verdict_and_roofline_of_its_search(site):
    text = (site / "bench" / "L1-1_task.html").read_text()
    for part in ("linear_gelu", "No call changes its inputs.", 'class="roofline"', "50% of that"):
        assert part in text, part
    assert (site / "bench" / "searches" / "L1-1_task.html").is_file()


def test_a_task_has_the_answer_and_the_verdict_of_its_policy(site):
    text = (site / "exam" / "set-L1-1.html").read_text()
    assert "Plan of the kernels" in text
    assert "No call changes its inputs." in text
    assert HOSTILE not in text, "texts of models are escaped"
    assert "&lt;script&gt;" in text


def test_a_comparison_names_lost_and_gained_tasks(site):
    text = (site / "compare" / "bench--later.html").read_text()
    assert "the second run gained 1 and lost 1 correct answers" in text
    lost, gained = text.index("Lost: 1"), text.index("Gained: 1")
    assert lost < text.index("L1/1_task") < gained < text.index("L1/5_task")
    # Task 1 falls from 2 to 1, task 2 rises from 2 to 4, two are the same, one had no time before.
    assert re.search(r"1\.00x \(0\.\d+ to 1\.\d+\), log [+-]0\.00, n = 4", text)


def test_the_verb_writes_a_site_or_prints_its_figures(tmp_path):
    folder = write_bench(tmp_path / "bench")
    command = ["report", str(folder), "--out", str(tmp_path / "site")]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "site" / "index.html").is_file()
    assert not (folder / "report.html").exists()
    (row,) = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert row["correct"] == {"tasks": 4, "not_delivered": 1}


def test_a_path_without_records_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no records here"):
        read_records([tmp_path])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"level": 3}, r"x.jsonl:2: 'level' is 3"),
        ({"correct": None}, r"x.jsonl:2: 'correct' is None"),
        ({"eager": "fast"}, r"x.jsonl: the records are damaged"),
        ({"optimized": timing(0.0)}, r"x.jsonl: the records are damaged"),
    ],
)
def test_a_damaged_record_is_told_with_its_own_file(line, said, tmp_path):
    whole = write_bench(tmp_path / "bench")
    record.append(tmp_path / "x.jsonl", [RUN, CASES[0] | SETTINGS | line])
    with pytest.raises(UsageError, match=said) as error:
        write_site([whole, tmp_path / "x.jsonl"], tmp_path / "site", lambda _: None)
    assert "bench" not in str(error.value)
    assert not (tmp_path / "site").exists()


def test_a_record_that_lacks_a_field_of_the_page_is_the_users(tmp_path):
    lines = gpu_run()
    del lines[-1]["operators_triton"]
    record.append(tmp_path / "module" / "records.jsonl", lines)
    for more in ([], ["--out", str(tmp_path / "site")]):
        shown = CliRunner().invoke(app, ["report", str(tmp_path / "module"), *more])
        assert isinstance(shown.exception, UsageError)
        assert "module/records.jsonl: the records are damaged" in str(shown.exception)
        assert "operators_triton" in str(shown.exception)


def test_a_damaged_record_leaves_an_earlier_site_as_it_was(tmp_path):
    site, whole = tmp_path / "site", write_bench(tmp_path / "bench")
    write_site([whole], site, lambda _: None)
    before = {path: path.read_bytes() for path in site.rglob("*.html")}
    damaged = CASES[0] | SETTINGS | {"eager": "fast"}
    record.append(tmp_path / "x.jsonl", [RUN, damaged])
    with pytest.raises(UsageError, match="damaged"):
        write_site([write_later_bench(tmp_path / "later"), tmp_path / "x.jsonl"], site, print)
    assert {path: path.read_bytes() for path in site.rglob("*.html")} == before


def test_a_damaged_head_and_a_file_without_records_are_the_users(tmp_path):
    record.append(tmp_path / "x.jsonl", [{"record": "run", "options": "x"}, CASES[0]])
    (tmp_path / "torn.jsonl").write_text('{"record":')
    with pytest.raises(UsageError, match=r"x\.jsonl: the records are damaged"):
        read_records([tmp_path / "x.jsonl"])
    with pytest.raises(UsageError, match=r"torn\.jsonl: the file has no records yet"):
        read_records([tmp_path / "torn.jsonl"])


def test_a_folder_that_holds_something_else_is_not_written_over(tmp_path):
    paths, site = [write_bench(tmp_path / "bench")], tmp_path / "site"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        write_site(paths, tmp_path / "mine", lambda _: None)
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"
    (site / ".new").mkdir(parents=True)  # the rest of a run that was killed
    for _ in range(2):  # an earlier site is written over
        write_site(paths, site, lambda _: None)
    assert not (site / ".new").exists()


def test_the_number_of_comparisons_is_linear_in_the_runs(tmp_path):
    paths = [write_bench(tmp_path / name) for name in "abcde"]
    write_site(paths, tmp_path / "site", lambda _: None)
    pages = {path.stem for path in (tmp_path / "site" / "compare").iterdir()}
    assert pages == {"a--b", "a--c", "b--c", "a--d", "c--d", "a--e", "d--e"}


def test_kinds_without_pages_have_figures_on_the_first_page(tmp_path):
    cheat = {"record": "corpus_case", "kind": "cheats", "name": "a", "code": "x", "accepted": False}
    honest = cheat | {"kind": "honest", "accepted": True}
    lints = [
        {"record": "lint", "task": "t", "findings": []},
        {"record": "lint", "task": "u", "findings": [{"severity": "weak"}]},
        {"record": "lint_error", "task": "v", "kind": "usage", "message": ""},
    ]
    judged = {"record": "throughput", "plan": {"grade": "fresh", "timing": False}}
    environment = {"gpu": "NVIDIA H200, 580", "commit": "0123456789ab"}
    judged |= {"verdicts": 900, "per_second": 9.34, "environment": environment}
    for name, lines in (("corpus", [cheat, honest]), ("lint", lints), ("judge", [judged])):
        record.append(tmp_path / f"{name}.jsonl", lines)
    write_site(sorted(tmp_path.glob("*.jsonl")), tmp_path / "site", lambda _: None)
    text = (tmp_path / "site" / "index.html").read_text()
    assert "1 of 1 cheats stopped, 1 of 1 honest kernels accepted." in text
    assert "2 tasks, 1 clean, 1 with weak findings alone, 0 with other findings, 1 not" in text
    assert "Judge, fresh, without times: 900 verdicts, 9.3 a second." in text
    assert "NVIDIA H200; commit 0123456" in text


def test_report_tells_apart_folders_without_a_page(tmp_path):
    head = RUN | {"command": "eval kernelbench"}
    record.append(tmp_path / "bench" / "records.jsonl", [head, *(c | SETTINGS for c in CASES)])
    shown = CliRunner().invoke(app, ["report", str(tmp_path / "bench")])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "bench" / "report.html").is_file(), "lint.jsonl is not needed"
    record.append(tmp_path / "lint" / "records.jsonl", [{"record": "lint"}])
    refused = CliRunner().invoke(app, ["report", str(tmp_path / "lint")]).exception
    assert "these records have no page (lint: 1)" in str(refused)
