"""Judging by the judge of some checkout, in processes of its own, and the records of that."""

import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record

LEFT = (0, 2, 3)
"""Exit codes of `verify-many` with records: 2 and 3 say that some jobs were not judged."""
KINDS = ("verdict", "usage", "infra")
MESSAGE_LENGTH = 300


def judged(
    jobs: Sequence[Record], out: Path, checkout: Path, grade: str, workers: int
) -> dict[str, Record]:
    """Job's id -> its first record by `verify-many` of that checkout; resumes what is in `out`.

    Raises:
        InfraError: the command failed.
    """
    first: dict[str, Record] = {}
    for mode in sorted({job["mode"] for job in jobs}):
        folder = out / f"{grade}-{mode}"
        path = folder / "jobs.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, [job for job in jobs if job["mode"] == mode])
        command = [sys.executable, "-m", "kernelwright.cli.main", "verify-many", str(path)]
        command += ["--out", str(folder), "--device", "cpu", "--mode", mode, "--grade", grade]
        command += ["--workers", str(workers)]
        paths = os.environ | {"PYTHONPATH": str((checkout / "src").absolute())}
        done = subprocess.run(command, env=paths, check=False)
        records = folder / "records.jsonl"
        if done.returncode not in LEFT or not records.exists():
            raise InfraError(f"verify-many of {checkout} ended with {done.returncode}")
        for line in record.read(records):
            if line["record"] in KINDS:
                first.setdefault(line["id"], line)
    return first


def code_of(line: Record) -> str:
    """The verdict's code, or how the job ended without one."""
    return str(line["verdict"]["code"]) if line["record"] == "verdict" else str(line["record"])


def cases(
    jobs: Iterable[Record], records: Mapping[str, Mapping[str, Record]], faults: Collection[str]
) -> Iterator[Record]:
    """A record for each job and grade.

    Args:
        records: grade -> job's id -> what the judge said.
        faults: ids of answers for which somebody has shown inputs with wrong results.
    """
    for job in jobs:
        for grade, by_id in records.items():
            if (line := by_id.get(job["id"])) is None:
                continue
            about = {key: job[key] for key in ("id", "writer", "level", "mode")}
            code = code_of(line)
            case = {"record": "answer", **about, "grade": grade, "accepted": code == "ok"}
            case |= {"code": code}
            if code != "ok":
                message = line["verdict"]["message"] if "verdict" in line else line[line["record"]]
                case["message"] = str(message)[:MESSAGE_LENGTH]
                case["fault"] = "demonstrated" if job["id"] in faults else "not demonstrated"
            yield case
