"""Reads kernels, plans and verdicts of tasks from the folder of a run.

A published file of records holds none of these texts. The page of a task then shows only the record
of the case.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.fields import VerdictFields
from kernelwright.core.kinds.judging import VerdictLine
from kernelwright.core.kinds.suites import AnswerFields, AnswersLine, CaseLine
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.report.suite.page import RECORDS, WORK

ANSWERS, JUDGED = "answers.jsonl", "judged"
"""Names in the folder of a run of `eval synthetic`: the answers, and the folder of their verdicts.
Either may be missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskTexts:
    """The texts about one case. Any text may be missing."""

    search: ReportedRun | None = None
    """The search for the task's kernels, by `eval kernelbench` and `eval modules`."""
    answer: AnswerFields | None = None
    verdict: VerdictFields | None = None


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts in the folder of a run."""

    folder: Path | None = None
    answers: dict[str, list[AnswerFields]] = field(default_factory=dict)
    """Name of a task -> its answers."""
    verdicts: dict[str, VerdictFields] = field(default_factory=dict)
    """Name of a task and number of the answer, with a slash between -> verdict."""

    def of(self, case: CaseLine) -> TaskTexts:
        """The texts about a case."""
        name, sample = case["name"], case["sample"]
        if self.folder is None:
            return TaskTexts()
        answers = self.answers.get(name, [])
        return TaskTexts(
            search=_search(self.folder / WORK / case["level"] / name / RECORDS),
            answer=answers[sample] if sample < len(answers) else None,
            verdict=self.verdicts.get(f"{name}/{sample}"),
        )


def read_texts(folder: Path | None) -> RunTexts:
    """The texts in the folder of a run.

    Args:
        folder: None if the user named a file of records without its folder: there are no texts.
    """
    if folder is None:
        return RunTexts()
    answers, judged = folder / ANSWERS, folder / JUDGED / RECORDS
    return RunTexts(
        folder=folder,
        answers={
            line["problem"]: line["answers"]
            for line in record.of_kind(record.whole_lines(answers), AnswersLine)
        },
        verdicts={
            line["id"]: line["verdict"]
            for line in record.of_kind(record.whole_lines(judged), VerdictLine)
        },
    )


def _search(path: Path) -> ReportedRun | None:
    """The search that a file records; None without the file, or where the search did not end."""
    if path.is_file():
        with suppress(UsageError):
            return read_run(path)
    return None
