import pytest

from kernelwright.core import record
from kernelwright.report.page import render


@pytest.fixture
def write(tmp_path):
    """Write records, render their page; its path."""

    def write_records(records):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, records)
        render(path, tmp_path / "report.html")
        return tmp_path / "report.html"

    return write_records
