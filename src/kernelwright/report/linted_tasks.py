"""Tasks of KernelBench as the linter's records describe them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.core.record import Record

TOLERANCES = ("strict", "1e-4", "1e-2")


@dataclass(frozen=True, slots=True)
class LintedTask:
    """A task of KernelBench and the linter's record of the task."""

    level: int
    number: int
    line: Record

    @property
    def is_linted(self) -> bool:
        return bool(self.line["record"] == "lint")

    @property
    def ids(self) -> set[str]:
        return {finding["id"] for finding in self.line.get("findings", ())}

    def reasons(self, tolerance: str) -> set[str]:
        """Ids of the findings for which the task is not fit to judge by at a tolerance."""
        return {
            finding["id"]
            for finding in self.line.get("findings", ())
            if finding["severity"] != "weak"
            and (not finding["tolerances"] or tolerance in finding["tolerances"])
        }


def linted_tasks(lines: Sequence[Record]) -> Iterator[LintedTask]:
    """The tasks of the records, each by its last record."""
    by_name: dict[str, LintedTask] = {}
    for line in lines:
        match = re.match(r"level(\d+)/(\d+)_", line.get("task", ""))
        if match:
            by_name[line["task"]] = LintedTask(int(match[1]), int(match[2]), line)
    yield from by_name.values()
