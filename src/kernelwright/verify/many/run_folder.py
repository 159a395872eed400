"""The folder of a run of many judgements: its recipe first, then a record a job as it is settled.

records.jsonl holds {"record": "run"}, then "verdict", "usage" or "infra" for each job, and a
"summary" at the end. A run that was cut short goes on from its records; an "infra" record settles
nothing.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.recipe import JudgeRecipe

SETTLED = ("verdict", "usage")


class RunFolder:
    """Threads may write to one.

    Raises:
        UsageError: the folder holds something else, or a run under another recipe.
    """

    def __init__(self, folder: Path, recipe: JudgeRecipe) -> None:
        self.records = folder / "records.jsonl"
        self.by_id: dict[str, Record] = {}
        """The record that settles a job."""
        self.by_content: dict[str, Record] = {}
        self.failed: set[str] = set()
        """Ids of jobs that only ended by failures of ours."""
        self._lock = threading.Lock()
        lines = record.resumed(self.records)
        self._head: Record = {
            "record": "run",
            "command": "verify-many",
            "recipe": recipe.to_json(),
        }
        if not lines:
            self.begin()
            return
        if lines[0].get("record") != "run" or lines[0].get("command") != "verify-many":
            raise UsageError(
                "these are not records of verify-many",
                file=str(self.records),
                remedy="give another --out folder",
            )
        record.check_same(lines[0]["recipe"], recipe.to_json(), str(self.records))
        for line in lines:
            self._note(line)

    def begin(self) -> None:
        """Note the environment of the judgements that follow, if it is another than before."""
        record.begin(self.records, self._head)

    def left_of(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs that are not settled yet.

        Raises:
            UsageError: a job was settled with other texts under its id.
        """
        left = []
        for job in jobs:
            settled = self.by_id.get(job.id)
            if settled is None:
                left.append(job)
            elif settled["content"] != job.content:
                raise UsageError(
                    f"job {job.id!r} was judged with another reference or candidate",
                    file=str(self.records),
                    remedy="give it another id, or the run another --out folder",
                )
        return left

    def write(self, job: Job, kind: str, found: dict[str, Any]) -> None:
        """Settle a job by "verdict" or "usage", or note a failure of ours."""
        line = {"record": kind, "id": job.id, "content": job.content, **found}
        with self._lock:
            record.append(self.records, [line])
            self._note(line)

    def summarize(self, summary: Record) -> None:
        record.append(self.records, [{"record": "summary", **summary}])

    def _note(self, line: Record) -> None:
        if line["record"] in SETTLED:
            self.by_id[line["id"]] = self.by_content[line["content"]] = line
            self.failed.discard(line["id"])
        elif line["record"] == "infra":
            self.failed.add(line["id"])
