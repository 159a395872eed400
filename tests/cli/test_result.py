"""The table of results: what was won, in 80 columns."""

import io
import re

import pytest
from rich.console import Console
from search_records import cpu_run
from verdicts import timing_fields as timing

from kernelwright.cli.result import results_table
from kernelwright.core import record
from kernelwright.report.run import read_run


@pytest.fixture
def run_of(tmp_path):
    def make(**changes):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        *lines, result = cpu_run()
        record.append(path, [*lines, result | changes])
        return read_run(path)

    return make


def test_the_table_fits_80_columns_and_folds_no_word(run_of):
    run = run_of(target="a_rather_long_name_of_a_softmax_attention_scores_file.py")
    console = Console(width=80, file=io.StringIO())
    console.print(results_table([run]))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert re.match(r"a_rather\w*\.\.\.\w+file\.py .* accepted ", lines[1])


@pytest.mark.parametrize(
    ("compiled_ms", "before", "after"),
    [
        (600.0, ["600 ms", "compiled"], "200 ms, 3.00x"),
        (950.0, ["900 ms"], "200 ms, 4.50x"),
        (None, ["900 ms"], "200 ms, 4.50x"),
    ],
)
def test_the_time_before_is_the_better_of_pytorch_and_torch_compile(
    run_of, compiled_ms, before, after
):
    times = {"eager": timing(900.0), "optimized": timing(200.0)}
    if compiled_ms:
        times["compiled"] = timing(compiled_ms)
    *_, column_before, column_after = results_table([run_of(times=times)]).columns
    [cell_before], [cell_after] = column_before.cells, column_after.cells
    assert str(cell_before).split("\n")[2:] == before
    assert str(cell_after).split("\n")[2:] == [after]
