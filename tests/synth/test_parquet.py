"""Files of programs as Parquet: the same programs, and a clear word where it cannot be written."""

import json
import sys

import pytest
from fake_sampler import OPERATORS, FakeSampler

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.synth.draws import LevelGroup
from kernelwright.synth.parquet import write_parquet
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.run import FilePlan, synthesize


@pytest.fixture
def programs(tmp_path):
    groups = (LevelGroup(name="level 2", level=2, num=7),)
    path = tmp_path / "programs.jsonl"
    plan = FilePlan(recipe=DrawRecipe(operators=OPERATORS), seed=0, groups=groups)
    synthesize(plan, path, 1, make=FakeSampler)
    return path


def test_rows_are_the_programs_and_the_header_goes_along(programs, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    monkeypatch.setattr("kernelwright.synth.parquet.ROWS_AT_ONCE", 3)
    write_parquet(programs, tmp_path / "programs.parquet")
    table = parquet.read_table(tmp_path / "programs.parquet")
    header, *lines = record.read(programs)
    assert json.loads(table.schema.metadata[b"kernelwright"]) == header
    assert len(table) == 7
    for row, line in zip(table.to_pylist(), lines, strict=True):
        assert row["text"] == line["text"]
        assert row["index"] == line["drawn"]["index"]
        assert row["operators"] == [call["op"] for call in line["calls"]]
        assert json.loads(row["calls"]) == line["calls"]
        assert row["eager_s"] is None


def test_without_pyarrow_the_extra_is_named(programs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UsageError, match="train"):
        write_parquet(programs, tmp_path / "programs.parquet")
    assert not (tmp_path / "programs.parquet").exists()
