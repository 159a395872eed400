"""Files of programs as Parquet, for readers of data sets."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_ONCE = 4096
DRAWN = {"group": "string", "index": "int64", "attempt": "int64", "uniform": "bool"}
FLAT = {
    "level": "int64", "text": "string", "flops": "int64", "bytes_unfused": "int64",
    "bytes_fused": "int64", "intensity": "double", "fingerprint": "string",
}  # fmt: skip
NESTED = ("inputs", "calls", "outputs")
"""As JSON texts: arguments of calls have no common type."""


def check_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        UsageError: it is not.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        remedy = "pip install 'kernelwright[train]'"
        raise UsageError("Parquet needs pyarrow", remedy=remedy) from error


def write_parquet(programs: Path, out: Path) -> None:
    """Write the programs of a JSONL file as Parquet: a row each, the header in the metadata.

    Columns are those of DRAWN and FLAT, the names of the operators called, NESTED as JSON, and
    `eager_s`, null where no time was taken.

    Raises:
        UsageError: pyarrow is not installed.
    """
    lines = record.read(programs)
    schema = _schema(next(lines))
    write_rows((_row(line) for line in lines if line["record"] == "program"), out, schema)


def write_rows(rows: Iterator[Record], out: Path, schema: "pyarrow.Schema | None" = None) -> None:
    """Writes rows as a Parquet file. Without rows and without a schema, no file is written.

    Args:
        schema: the columns; None takes the columns of the first `ROWS_AT_ONCE` rows.

    Raises:
        UsageError: pyarrow is not installed.
    """
    check_pyarrow()
    import pyarrow.parquet

    first = pyarrow.Table.from_pylist(list(islice(rows, ROWS_AT_ONCE)), schema)
    if not first.num_columns:
        return
    with pyarrow.parquet.ParquetWriter(out, first.schema) as writer:
        writer.write_table(first)
        while some := list(islice(rows, ROWS_AT_ONCE)):
            writer.write_table(pyarrow.Table.from_pylist(some, first.schema))


def _schema(header: Record) -> "pyarrow.Schema":
    import pyarrow

    types = DRAWN | FLAT | dict.fromkeys(NESTED, "string") | {"eager_s": "double"}
    fields = [pyarrow.field(name, pyarrow.type_for_alias(alias)) for name, alias in types.items()]
    fields.append(pyarrow.field("operators", pyarrow.list_(pyarrow.string())))
    return pyarrow.schema(fields, metadata={"kernelwright": json.dumps(header)})


def _row(line: Record) -> dict[str, Any]:
    return {
        **{name: line["drawn"][name] for name in DRAWN},
        **{name: line[name] for name in FLAT},
        **{name: json.dumps(line[name]) for name in NESTED},
        "operators": [call["op"] for call in line["calls"]],
        "eager_s": line.get("eager_s"),
    }
