"""Tasks of KernelBench as the linter's records describe them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.core import record
from kernelwright.core.kinds.judging import FindingFields, LintLine
from kernelwright.core.record import Record

TOLERANCES = ("strict", "1e-4", "1e-2")


@dataclass(frozen=True, slots=True)
class LintedTask:
    """A task of KernelBench and the linter's record of the task."""

    level: int
    number: int
    name: str
    report: LintLine | None
    """None where the task could not be linted."""
    message: str
    """The reason why the task could not be linted."""

    @property
    def is_linted(self) -> bool:
        return self.report is not None

    @property
    def is_scaled(self) -> bool:
        """The task was judged at smaller sizes."""
        return self.report is not None and self.report.get("scaled", False)

    @property
    def findings(self) -> list[FindingFields]:
        return self.report.get("findings", []) if self.report is not None else []

    @property
    def ids(self) -> set[str]:
        return {finding["id"] for finding in self.findings}

    def reasons(self, tolerance: str) -> set[str]:
        """Ids of the findings for which the task is not fit to judge by at a tolerance."""
        return {
            finding["id"]
            for finding in self.findings
            if finding["severity"] != "weak"
            and (not finding["tolerances"] or tolerance in finding["tolerances"])
        }


def linted_tasks(lines: Sequence[Record]) -> Iterator[LintedTask]:
    """The tasks of the records, each by its last record."""
    by_name: dict[str, LintedTask] = {}
    for line in lines:
        name = line.get("task", "")
        if match := re.match(r"level(\d+)/(\d+)_", name):
            report, message = record.as_kind(line, LintLine), line.get("message", "")
            by_name[name] = LintedTask(int(match[1]), int(match[2]), name, report, message)
    yield from by_name.values()
