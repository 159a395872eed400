"""Files of pairs: found, cut into parts, read whole; what is no pair is named."""

import json

import pyarrow
import pyarrow.parquet
import pytest
from sft_runs import make_rows, write_rows

from kernelwright.core.errors import UsageError
from kernelwright.train.pairs import find_files, parts_of, read_part

ROWS = list(make_rows(40))


@pytest.mark.parametrize("part_bytes", [1, 64, 1000, 10**6])
def test_every_pair_is_read_once_however_files_are_cut(part_bytes, tmp_path):
    write_rows(tmp_path / "train.jsonl", ROWS[:25])
    write_rows(tmp_path / "validation.jsonl", ROWS[25:])
    write_rows(tmp_path / "negatives.jsonl", ROWS)
    parts = parts_of(find_files([str(tmp_path)]), part_bytes)
    read = [pair for part in parts for pair in read_part(part)]
    assert [pair.messages for pair in read] == [row["prompt"] + row["completion"] for row in ROWS]


def test_parquet_reads_as_jsonl_does(tmp_path):
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=16)
    write_rows(tmp_path / "a.jsonl", ROWS)
    one, other = (
        [pair for part in parts_of([tmp_path / name]) for pair in read_part(part)]
        for name in ("a.parquet", "a.jsonl")
    )
    assert one == other


def without(name):
    return {key: value for key, value in ROWS[0].items() if key != name}


BAD = {
    "not JSON": '{"prompt": ',
    "split missing": json.dumps(without("split")),
    "split 'test'": json.dumps(ROWS[0] | {"split": "test"}),
    "'hard'": json.dumps(ROWS[0] | {"level": "hard"}),
    "'role'": json.dumps(ROWS[0] | {"prompt": [{"content": "x"}]}),
    "string indices": json.dumps(ROWS[0] | {"prompt": "x"}),
    "completion is not one answer": json.dumps(ROWS[0] | {"completion": []}),
    "not an object": "[]",
}


@pytest.mark.parametrize("message", BAD)
def test_a_line_that_is_no_pair_is_named(message, tmp_path):
    path = write_rows(tmp_path / "a.jsonl", ROWS[:2])
    begin = path.stat().st_size
    with path.open("a") as file:
        file.write(BAD[message] + "\n")
    with pytest.raises(UsageError, match=message) as caught:
        list(read_part(parts_of([path])[0]))
    assert f"line at byte {begin}" in str(caught.value)
    assert "a.jsonl" in str(caught.value)


def test_a_parquet_file_that_ends_too_early_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match=r"a\.parquet"):
        parts_of([path])


@pytest.mark.parametrize("names", [[], ["there is no such folder"], ["."]])
def test_no_files_are_told(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="pairs"):
        find_files(names)
