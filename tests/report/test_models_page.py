"""Tables and page of `eval models`, from records."""

import pytest
from tags import tags_of
from verdicts import timing_fields as timing

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.models import ModelBlocksLine, ModelCaseLine, ModelsRunLine
from kernelwright.report.models import case_rows, read_models, reason_rows, sentence, write_models

RUN = {
    "record": "run",
    "command": "eval models",
    "options": {"device": "cuda", "is_small": False, "budget_s": 150.0},
    "environment": {"gpu": "H100, 1", "versions": {"torch": "2.13"}, "commit": "abc"},
}
CALL = {"model": "transformers/gpt2", "dtype": "bfloat16", "phase": "prefill", "batch": 1}
GRAPH = {
    "calls": 9,
    "runs": "own kernels",
    "why": "",
    "graph_break": "",
    "kernels": ["softmax"],
    "left": [{"operators": ["mm"], "why": "stays PyTorch: slower (0.9x)"}],
    "outside": ["mm"],
}
LEFT = GRAPH | {"kernels": [], "left": [], "why": "the budget ended <b>"}
CASE = {
    "record": "model_case",
    **CALL,
    "block": None,
    "sides_failed": {},
    "correct": {"compiled": True, "optimized": True},
    "mismatch": {},
    "eager": timing(6.0),
    "compiled": timing(3.0),
    "optimized": timing(2.0),
    "speedup_intervals": {"eager": [2.9, 3.1], "compiled": [1.4, 1.6]},
    "search_s": 100.0,
    "searches_failed": ["kernelwright failed: no end"],
    "compile_s": {"compiled": 20.0, "optimized": 5.5},
    "peak_bytes": {"eager": 3_000_000, "compiled": 2_000_000, "optimized": 1_000_000},
    "share": 0.42,
    "graphs": [GRAPH, LEFT],
}
BLOCK = {"name": "h.0", "kind": "GPT2Block", "count": 12, "calls": 12}
UNTIMED = dict.fromkeys(("eager", "compiled", "optimized", "peak_bytes", "share"))
WRONG = CASE | UNTIMED | {
    "block": BLOCK,
    "speedup_intervals": {},
    "correct": {"compiled": True},
    "sides_failed": {"optimized": "RuntimeError: lost"},
    "compile_s": {"compiled": 20.0},
    "graphs": [],
}  # fmt: skip
FAILED = {"record": "model_case", **CALL, "batch": 8, "block": None, "failed": "out of memory"}
CASES = [CASE, WRONG, FAILED]


def test_a_row_has_the_figures_of_a_case_or_the_reason_why_there_are_none():
    _, case, wrong, failed = case_rows(CASES)
    assert case == (
        "transformers/gpt2",
        "prefill 1, bfloat16",
        "yes",
        "3.00x (2.90 to 3.10)",
        "1.50x (1.40 to 1.60)",
        "42%",
        "5.5 / 20.0",
        "1 MB / 2 MB",
        "1 of 2 graphs, 1 fragment",
    )
    assert wrong[0] == "transformers/gpt2 h.0 (12x GPT2Block)"
    assert wrong[2:] == ("no", "", "", "", "none / 20.0", "", "failed: RuntimeError: lost")
    assert failed[2:] == ("",) * 6 + ("failed: out of memory",)


def test_reasons_are_counted_without_their_figures():
    others = [WRONG | {"searches_failed": []}, FAILED]
    _, *rows = reason_rows([CASE, CASE, *others])
    assert set(rows) == {
        ("graph", "the budget ended <b>", "2"),
        ("fragment", "stays PyTorch: slower", "2"),
        ("search", "kernelwright failed: no end", "2"),
    }


def test_means_are_over_correct_cases_with_times():
    slow = CASE | {"optimized": timing(8.0), "correct": {"optimized": False}}
    assert sentence([*CASES, slow]) == (
        "3 of 4 cases ran, 1 correct, 3.00x over eager (geometric mean of 1),"
        " 1.50x over torch.compile (geometric mean of 1)."
    )


def test_the_page_is_written_from_the_records_and_escapes_them(tmp_path):
    path = tmp_path / "records.jsonl"
    record.append(path, [RUN, {"record": "model_blocks", **CALL, "blocks": [BLOCK]}, *CASES])
    assert write_models(tmp_path).cases == CASES
    page = (tmp_path / "report.html").read_text()
    tags_of(page)
    assert "the budget ended &lt;b&gt;" in page
    assert "1.50x (1.40 to 1.60)" in page
    kinds = (ModelsRunLine, ModelBlocksLine, ModelCaseLine)
    counts = [len(list(record.of_kind(record.read(path), kind))) for kind in kinds]
    assert counts == [1, 1, 3]


def test_a_run_without_a_case_has_no_page(tmp_path):
    record.append(tmp_path / "records.jsonl", [RUN])
    with pytest.raises(UsageError, match="no models of a run"):
        read_models(tmp_path)


def test_the_last_record_of_a_case_counts(tmp_path):
    record.append(tmp_path / "records.jsonl", [RUN, CASE | {"failed": "no end"}, CASE])
    assert write_models(tmp_path).cases == [CASE]
