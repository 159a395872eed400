"""The last line of `optimize`: what was won, and by what right."""

import io
import re

import pytest
from cli_runs import RECORDS, verdict
from rich.console import Console

from kernelwright.cli.closing import closing, compared_with
from kernelwright.cli.result import results_table
from kernelwright.core import record
from kernelwright.report.run import read_run


@pytest.fixture
def run_of(tmp_path):
    def make(**changes):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, [*RECORDS[:-1], {**RECORDS[-1], **changes}])
        return read_run(path)

    return make


OPTIMIZED = {"status": "optimized", "cause": None, "message": "", "left_out": []}


def test_a_measured_gain_has_its_interval_cases_operators_and_kernels(run_of):
    speedups = {"over_eager": [1.9, 1.85, 1.95], "over_compile": [1.2, 1.1, 1.3]}
    run = run_of(outcome=OPTIMIZED, measured=True, speedups=speedups)
    assert closing(run) == (
        "1.90x faster than PyTorch (95%: 1.85 to 1.95) and 1.20x faster than torch.compile"
        " (95%: 1.10 to 1.30), correct in 1 case, 2 of 2 operators in 1 kernel."
    )


def test_without_a_gpu_figures_are_called_estimates(run_of):
    assert closing(run_of(outcome=OPTIMIZED, measured=False)) == (
        "Not timed: no GPU. 6 launches become 4, 25.2 MB become 13.4 MB (estimate),"
        " correct in 1 case, 2 of 2 operators in 1 kernel."
    )


@pytest.mark.parametrize(
    ("speedup", "text"),
    [
        ((2.0, 1.5, 2.5), "2.00x faster than X (95%: 1.50 to 2.50)"),
        ((0.5, 0.4, 0.8), "2.00x slower than X (95%: 1.25 to 2.50)"),
        ((1.1, 0.9, 1.2), "as fast as X within noise (1.10x; 95%: 0.90 to 1.20)"),
    ],
)
def test_faster_and_slower_are_said_where_the_interval_excludes_1(speedup, text):
    assert compared_with("X", speedup) == text


def test_an_unchanged_program_gets_the_outcomes_own_sentence(run_of):
    outcome = {"status": "unchanged", "cause": "all_wrong", "message": "No kernel is right."}
    assert closing(run_of(outcome=outcome, num_triton=0)) == "No kernel is right."


def test_an_interrupted_search_says_so_first(run_of):
    outcome = {**OPTIMIZED, "cause": "interrupted"}
    assert closing(run_of(outcome=outcome, measured=False)).startswith("Interrupted; the best")


def test_a_rejected_result_is_no_gain(run_of):
    rejected = verdict(False, "errs by 1").to_json()
    assert closing(run_of(verdict=rejected)) == "Rejected, do not use optimized.py: errs by 1"


def test_the_table_fits_80_columns_and_folds_no_word(run_of):
    run = run_of(target="a_rather_long_name_of_a_softmax_attention_scores_file.py")
    console = Console(width=80, file=io.StringIO())
    console.print(results_table([run]))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert re.match(r"a_rather\w*\.\.\.\w+file\.py .* accepted ", lines[1])
