"""The page as text: what it must say, must not say, and must not let through."""

import re
from pathlib import Path

import pytest
from search_records import call, cpu_run, gpu_run, timing, unchanged_run

from kernelwright import verify
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code
from kernelwright.programs.draws.families import FAMILIES
from kernelwright.report import words
from kernelwright.report.outcome import badges, headline, lead
from kernelwright.report.page import page
from kernelwright.report.rendering import write_page
from kernelwright.report.roofline import chart, estimate_ms
from kernelwright.report.run import read_run
from kernelwright.report.sections import bar_groups, colors_of, error_rows, facts
from kernelwright.sandbox.host.probe import GUARDS
from kernelwright.verify.tasks.cases import PART_CHANGED, PERMUTED, SWAPPED

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def of(records, kind):
    return next(r for r in records if r["record"] == kind)


@pytest.fixture
def run_of(tmp_path):
    def read(records):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, records)
        return read_run(path)

    return read


def test_a_measured_run_leads_with_its_speedup_and_interval(run_of):
    found = headline(run_of(gpu_run()))
    assert (found.text, found.interval) == ("1.55x", "95%: 1.50 to 1.60")
    assert found.title == "Speed against the better of PyTorch and torch.compile"
    assert found.notes == (
        "310 us to 200 us a call, against torch.compile",
        "1.55x faster than torch.compile (95%: 1.50 to 1.60)",
        "2.10x faster than PyTorch (95%: 2.05 to 2.16)",
    )
    assert lead(run_of(gpu_run())) == (
        "1.55x over the better of PyTorch and torch.compile (95%: 1.50 to 1.60)."
        " Of PyTorch and torch.compile, torch.compile is faster here."
    )
    assert bar_groups(run_of(gpu_run()))[-1].gain == "1.55x"


def test_where_pytorch_is_the_faster_baseline_it_leads(run_of):
    records = gpu_run()
    result = of(records, "result")
    result["times"]["compiled"] = timing(0.5)
    result["speedups"]["over_compile"] = [2.5, 2.02, 2.6]
    found = headline(run_of(records))
    assert (found.text, found.interval) == ("2.10x", "95%: 2.02 to 2.16"), "the smaller ends"
    assert found.notes[0] == "420 us to 200 us a call"


def test_without_a_time_of_torch_compile_pytorch_leads_as_ever(run_of):
    records = gpu_run()
    result = of(records, "result")
    del result["times"]["compiled"], result["speedups"]["over_compile"]
    found = headline(run_of(records))
    assert (found.text, found.interval) == ("2.10x", "95%: 2.05 to 2.16")
    assert (found.title, found.notes) == ("Speed against PyTorch", ("420 us to 200 us a call",))
    assert lead(run_of(records)) == ""


def test_where_torch_compile_is_delivered_the_page_says_that_it_is_the_best_known(run_of):
    records = unchanged_run()
    result = of(records, "result")
    result["form"] = "compiled"
    result["times"] = {"eager": timing(0.4), "compiled": timing(0.2), "optimized": timing(0.2)}
    run = run_of(records)
    assert badges(run)[0] == ("", "Unchanged: torch.compile is the best known")
    assert dict(facts(run))["Delivered"] == "unchanged: torch.compile is the best known"
    assert headline(run).text == "Unchanged"


@pytest.mark.parametrize(
    ("over", "sentence"),
    [
        ([0.92, 0.9, 0.94], "Slower than torch.compile: 0.92x of its speed (95%: 0.90 to 0.94)"),
        ([1.01, 0.98, 1.03], "No clear difference from torch.compile: 1.01x (95%: 0.98 to 1.03)"),
    ],
)
def test_a_run_says_plainly_where_torch_compile_is_not_beaten(run_of, over, sentence):
    records = gpu_run()
    of(records, "result")["speedups"]["over_compile"] = over
    assert headline(run_of(records)).notes[1] == sentence


def test_a_torch_compile_without_a_time_has_its_reason_instead_of_a_bar(run_of):
    records = gpu_run()
    message = "torch.compile was not timed: 8 s of the budget were left."
    result = of(records, "result")
    result["torch_compile"] = {"timed": False, "message": message, "seconds": 0.0}
    del result["times"]["compiled"], result["speedups"]["over_compile"]
    run = run_of(records)
    assert headline(run).notes[1] == message
    time = bar_groups(run)[-1]
    assert [bar.label for bar in time.bars] == ["PyTorch", "optimized"]
    assert message in time.note


def test_an_older_record_has_its_ratio_without_an_interval(run_of):
    records = gpu_run()
    result = of(records, "result")
    del result["speedups"], result["torch_compile"]
    found = headline(run_of(records))
    assert (found.text, found.interval) == ("1.55x", "")
    assert found.notes[1:] == ("2.10x over PyTorch",)


def test_a_graph_is_named_with_the_time_of_its_kernels_launched_one_by_one(run_of):
    lines = gpu_run()
    assert ("CUDA graph", "none") in facts(run_of(lines))
    of(lines, "result")["graph"] = {"replayed_ms": 0.2, "launched_ms": 1.5}
    said = dict(facts(run_of(lines)))["CUDA graph"]
    assert said == "replayed in 200 us; its kernels launched one by one take 1.5 ms"


def test_without_a_gpu_no_time_is_claimed(run_of):
    run = run_of(cpu_run())
    assert headline(run).text == "Not measured"
    assert "Estimate" in headline(run).notes[1]
    *_, time = bar_groups(run)
    assert time.title == "Time of a call, estimated"
    assert time.note.startswith("Not measured")
    roofline = chart(run.program, run.fragments, colors_of(run.fragments), "cpu-interpreter")
    assert {point.kind for point in roofline.points} == {"estimate"}
    assert ">4.00x<" not in page(run)


def test_an_unchanged_run_is_no_failure(run_of):
    text = page(run_of(unchanged_run()))
    found = headline(run_of(unchanged_run()))
    assert found.text == "Unchanged"
    assert found.notes[0].startswith("No kernel is right. Of 4 candidates: 4 wrong")
    assert "No kernel is right. Of 4 candidates" in text
    assert "wrong values: 4" in text
    for false in ("Rejected", "never compared", "does arithmetic", "1.00x", 'class="badge bad"'):
        assert false not in text
    assert "\u2717" not in text


def test_a_run_with_nothing_to_fuse_counts_no_fragments(run_of):
    records = [r for r in unchanged_run() if r["record"] not in ("fragment", "candidate")]
    outcome = of(records, "result")["outcome"]
    message = "Nothing can be fused here: the module computes with aten.sort.default."
    outcome.update(cause="nothing_to_fuse", message=message, fragments={"proposed": 0, "tried": 0})
    outcome["candidates"].update(tried=0, right=0, wrong=0, reasons={})
    of(records, "program")["calls"] = [call("aten.sort.default", ["x0"], "t0", None, extern=True)]
    text = page(run_of(records))
    assert message in text
    assert "0 of 0" not in text
    assert "not covered by a kernel" in text
    assert "<div>stays in PyTorch</div>" not in text, "no operator of that kind is drawn"


def test_an_unchanged_run_on_a_gpu_still_shows_torch_compile(run_of):
    records = unchanged_run()
    of(records, "result")["times"] = {"eager": timing(0.4), "compiled": timing(0.3)}
    [time] = bar_groups(run_of(records))
    assert [bar.label for bar in time.bars] == ["PyTorch", "torch.compile"]
    assert time.gain == ""


def test_an_unchanged_run_says_why_torch_compile_was_not_timed(run_of):
    records = unchanged_run()
    reason = "torch.compile fails on this program: RuntimeError: no backend"
    of(records, "result")["torch_compile"] = {"timed": False, "message": reason, "seconds": 9.0}
    assert headline(run_of(records)).notes[1] == reason


def test_the_verdict_is_told_in_words(run_of):
    text = page(run_of(cpu_run()))
    assert "the sizes given: a small part of the values changed" in text
    assert "inputs of 63x511, 512: ordinary values" in text
    assert "CPU (Triton&#39;s interpreter)" in text
    assert "Judging stopped after 8 s, so some cases were not run." in text
    assert "depend on the arguments alone" not in text, "no advice about code that we generated"
    shown = re.sub(r'title="[^"]*"', "", text)
    for raw in ("nan poison", "userns", "cpu-interpreter", "part changed/"):
        assert raw not in shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("rms 0.6 [case base/spikes/seed 7/nan poison]",
         "rms 0.6 (the sizes given: a few very large values)"),
        ("x [case one of 5 in a row, the first 3x4 scalar/plain/seed 7/finite poison]",
         "x (one of 5 in a row, the first inputs of 3x4, scalar: ordinary values)"),
        ("x [case other weights/plain/seed 7/finite poison]", "x (other weights: ordinary values)"),
        ("x [case base/flat_rows/seed 7/as a user calls]",
         "x (the sizes given: rows of equal values)"),
        ("index [0] of a list", "index [0] of a list"),
    ],
)  # fmt: skip
def test_the_case_of_a_message_is_told_in_words(raw, shown):
    assert words.message(raw) == shown


def test_every_short_name_has_words():
    assert set(Code) <= words.OUTCOMES.keys()
    assert set(GUARDS) == words.GUARDS.keys()
    assert {*FAMILIES, PART_CHANGED, PERMUTED, SWAPPED} == words.FAMILIES.keys()
    assert words.outcome("new_code") == "new code"


def test_every_check_that_a_verdict_can_name_has_words():
    judge = Path(verify.__file__).parent
    sources = "".join(path.read_text() for path in judge.rglob("*.py"))
    calls = re.findall(r"\.passed\(([^)]*)\)", sources)
    names = {name for call in calls for name in re.findall(r'"([^"]*)"', call)}
    assert {"outputs", "state", "calls in a row"} <= names
    beside = {"strided inputs", "train mode", "eval mode"}  # `further` passes these
    assert names | beside == words.CHECKS.keys()


def test_the_page_explains_fragments(run_of):
    assert "A fragment (F0, F1 ...) is a group of neighbouring operators" in page(run_of(gpu_run()))


@pytest.mark.parametrize("where", ["source", "schedule", "message", "target", "op", "why"])
def test_text_written_by_models_is_escaped(run_of, where):
    records = gpu_run()
    fragment = of(records, "fragment")
    if where == "source":
        fragment["source"] = of(records, "result")["source"] = f"x = '{HOSTILE}'"
    elif where == "why":
        fragment["plan"][0]["why"] = HOSTILE
    elif where == "op":
        of(records, "program")["calls"][0]["op"] = HOSTILE
    elif where == "target":
        of(records, "result")["target"] = of(records, "run")["target"] = HOSTILE
    elif where == "schedule":
        of(records, "candidate")["schedule"] = HOSTILE
    else:
        records[-3]["verdict"]["message"] = HOSTILE
    text = page(run_of(records))
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text


def test_a_page_quotes_what_utf_8_does_not_have(run_of, tmp_path):
    records = gpu_run()
    records[-3]["verdict"]["message"] = of(records, "result")["source"] = "x = '\ud800'"
    write_page(tmp_path / "report.html", page(run_of(records)))
    assert "&#55296;" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_needs_no_network(run_of):
    text = page(run_of(gpu_run()))
    assert re.findall(r"(?:src|href)=\"(?!#)", text) == []
    assert "url(" not in text.replace("url(#tip)", "")
    assert "default-src 'none'" in text


def test_the_picture_has_every_operator_and_marks_the_unknown_one(run_of):
    text = page(run_of(gpu_run()))
    assert text.count('class="node ') == 6
    assert text.count('class="node extern') == 1
    assert text.count('class="node triton f0') == 2


def test_errors_are_listed_for_the_whole_and_for_each_winner(run_of):
    rows = error_rows(run_of(gpu_run()))
    whats = [row.what for row in rows if row.measure == "max"]
    assert whats == ["whole program", "fragment F0", "fragment F1"]
    assert rows[0].share == pytest.approx(30)


def test_the_estimate_counts_the_bytes_that_fusion_saves(run_of):
    records = cpu_run()
    of(records, "fragment")["winner"] = None  # leaves add and layer_norm, bound by memory
    run = run_of(records)
    before_ms, after_ms = estimate_ms(run.program, run.fragments)
    saved_bytes = 2 * 4_194_304 - 6_300_000
    assert before_ms - after_ms == pytest.approx(1e3 * saved_bytes / 4.8e12)


def test_a_fragment_that_lost_is_listed_apart_and_not_placed(run_of):
    records = gpu_run()
    of(records, "fragment").update(winner=None, best=None, reason="stays PyTorch: no faster")
    run = run_of(records)
    found = chart(run.program, run.fragments, colors_of(run.fragments), "NVIDIA H200")
    assert {point.label for point in found.points} == {"F1"}
    assert "Tried and not taken: 1" in page(run)


def test_an_unknown_gpu_gets_points_without_a_roof(run_of):
    run = run_of(gpu_run())
    found = chart(run.program, run.fragments, colors_of(run.fragments), "Some GPU")
    assert found.roofs == ()
    assert len(found.points) == 4


def test_a_program_without_fragments_has_a_page(run_of):
    records = [r for r in gpu_run() if r["record"] not in ("fragment", "candidate")]
    of(records, "program")["calls"] = [call("relu", ["x0"], "t0", None)]
    of(records, "result").update(num_triton=0)
    assert "No kernel was kept" in page(run_of(records))


def test_a_folder_used_twice_shows_the_last_run(run_of):
    second = gpu_run()
    of(second, "result")["target"] = "second.py"
    run = run_of([*gpu_run(), *second])
    assert run.result["target"] == "second.py"
    assert len(run.fragments) == 2


def test_an_unfinished_run_is_a_usage_error(run_of):
    with pytest.raises(UsageError, match="no 'result' record"):
        run_of(gpu_run()[:-1])
