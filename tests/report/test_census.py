"""Counting programs from records, against counts made by hand."""

import json

import pytest
from drawn import SPACE, records, write

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.programs.census import Census, count_program, octave, read_census
from kernelwright.report.programs.coverage import CoverageShare, space_of


@pytest.fixture
def census(tmp_path):
    return read_census([write(tmp_path / "programs.jsonl")])[0]


def test_calls_values_and_axes_are_counted(census):
    assert census.programs == 3
    assert census.groups == {"level 1": 1, "level 2": 1, "level 3": 1}
    assert census.operators == {"relu": 3, "add": 2, "sum": 1}
    assert census.dtypes == {"float32": 6, "float16": 4}
    assert census.ranks == {0: 3, 1: 5, 2: 2}
    assert census.sizes == {6: 3, 5: 2, 2: 4}  # 64 three times, 32 twice, 5 four times
    assert census.elements == {11: 2, 6: 1, 2: 4, 0: 3}


def test_readings_of_results_are_pairs_and_those_of_inputs_are_not(census):
    assert census.pairs == {("relu", "sum"): 1, ("relu", "add"): 1, ("add", "relu"): 1}


def test_depth_counts_calls_and_width_the_values_that_wait(census):
    assert census.depth == {2: 1, 3: 1, 1: 1}
    assert census.width == {1: 1, 2: 1, 0: 1}  # residual: x and relu(x) after the first call


def test_costs_are_counted_by_octave(census):
    chain_flops = records()[1]["flops"]
    assert census.flops == {octave(chain_flops): 1, octave(15): 1, octave(1): 1}
    assert census.bytes == {13: 1, 4: 1, 3: 1}  # 8192 + 256; 10 + 10; 3 scalars of 4
    assert census.intensity[octave(chain_flops / 8448)] >= 1
    assert [octave(value) for value in (0, 0.25, 1, 7.9, 8)] == [None, -2, 0, 2, 3]


def test_attempts_are_those_of_programs_found_and_not_found(census):
    assert census.refused == {"duplicate": 1, "domain": 7}
    assert census.attempts == 3 + 3 + 5
    assert (census.drafts, census.proposals, census.accepted) == (8, 12, 3)
    assert census.not_uniform == 1
    assert census.given_up == {"mm": 1}


def test_coverage_names_what_is_missing(census):
    space = space_of([{"space": SPACE}])
    operators, values, pairs = space.coverage(census)
    assert operators == CoverageShare("operators", 3, 4, ("mm",))
    # alpha: 2 is given once and left out once; keepdim is always left out
    assert values == CoverageShare("attribute values", 3, 4, ("sum keepdim true",))
    assert (pairs.seen, pairs.possible) == (3, 14)
    assert {"relu relu", "add sum", "mm mm"} <= set(pairs.missing)
    assert not {"sum mm", "sum sum"} & set(pairs.missing)  # a sum is of rank 1


def test_a_default_that_calls_always_replace_is_missing():
    census = Census()
    count_program(census, records()[3])
    assert "add alpha 1" in space_of([{"space": SPACE}]).coverage(census)[1].missing


def test_the_counts_are_json(census):
    plain = json.loads(json.dumps(census.to_json(), allow_nan=False))
    assert plain["ranks"] == {"0": 3, "1": 5, "2": 2}
    assert plain["pairs"] == [["add", "relu", 1], ["relu", "add", 1], ["relu", "sum", 1]]
    assert plain["programs"] == 3


def test_programs_that_were_not_drawn_are_counted_too(tmp_path):
    lines = [{key: value for key, value in each.items() if key != "drawn"} for each in records()]
    record.append(tmp_path / "collected.jsonl", lines[1:4])
    census, headers = read_census([tmp_path / "collected.jsonl"])
    assert (census.programs, census.attempts, headers) == (3, 0, [])
    assert space_of(headers) is None


def test_a_file_without_programs_is_refused(tmp_path):
    record.append(tmp_path / "other.jsonl", [{"record": "run"}])
    with pytest.raises(UsageError, match="no programs here"):
        read_census([tmp_path / "other.jsonl"])
    with pytest.raises(UsageError, match="no such file"):
        read_census([tmp_path / "gone.jsonl"])
