"""The record of a task: the benchmark's own metrics, and the judge's verdicts on the calls of the
task's tests."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.bench.answers import UNANSWERED
from kernelwright.bench.tritonbench.checkout import BenchFile
from kernelwright.core.record import Record
from kernelwright.core.verdict import Code, Verdict
from kernelwright.verify.many.recipe import JudgeRecipe

NOT_POSABLE = "not_posable"
"""The code of a task that has no call for the judge."""
MAX_REASON, MAX_MESSAGE = 80, 300
NOT_LOWERED = "the call is no program"
JUDGES_REASON = "the judge cannot use the reference"


class PosedCalls:
    """The distinct calls of a task's tests, and how many of them the judge can get.

    To pose a call is to write the call as a reference for the judge, and as an adapter for
    predictions. A call that cannot be posed has a reason ("refused").

    Args:
        line: the record of the task in `stages.CALLS`.
    """

    def __init__(self, line: Record) -> None:
        self._refused: str | None = line["refused"]
        self._distinct = list({_key(call): call for call in line["calls"]}.values())

    @property
    def number(self) -> int:
        """The number of distinct calls."""
        return len(self._distinct)

    @property
    def posed(self) -> list[tuple[int, Record]]:
        """The calls that can be posed, each with its number. The first distinct call has number
        1."""
        numbered = enumerate(self._distinct, 1)
        return [(number, call) for number, call in numbered if "reference" in call]

    @property
    def refused(self) -> Counter[str]:
        """Reason -> number of calls that cannot be posed."""
        return self._counted(call["refused"] for call in self._distinct if "refused" in call)

    @cached_property
    def programs(self) -> list[str]:
        """The texts of programs, for calls that can be lowered to a program."""
        return [call["program"] for call in self._distinct if call.get("program")]

    @property
    def not_lowered(self) -> Counter[str]:
        """Reason -> number of calls that cannot be lowered to a program."""
        lacking = (call for call in self._distinct if not call.get("program"))
        return self._counted(call.get("refused") or NOT_LOWERED for call in lacking)

    def _counted(self, reasons: Iterable[str]) -> Counter[str]:
        """Kind of a reason -> number of calls. The reason why a file has no calls counts as one."""
        reasons_of_file = () if self._refused is None else (self._refused,)
        return Counter(map(_short, (*reasons, *reasons_of_file)))


def _key(call: Record) -> tuple[object, ...]:
    return tuple(call.get(name) for name in ("function", "reference", "adapter", "refused"))


def _short(reason: str) -> str:
    """The kind of a reason: the text without the details of one file."""
    head, _, rest = reason.partition(": ")
    error = rest.partition(":")[0]
    return f"{head}: {error}"[:MAX_REASON] if error.isidentifier() else head[:MAX_REASON]


@dataclass(frozen=True, slots=True)
class TaskScripts:
    """The results of a task's two scripts: the golden code and the prediction, with the tests."""

    answered: bool
    """Whether the task has a prediction."""
    golden: Record | None
    """The record of the script in `stages.SCRIPTS`; None if the script was not run."""
    predicted: Record | None
    """As `golden`, for the prediction."""

    @property
    def is_left(self) -> bool:
        """Whether a fault of ours prevented the script of the prediction."""
        return self.answered and self.predicted is None

    @property
    def called(self) -> bool:
        """The benchmark's call accuracy: whether the script of the prediction exits with 0."""
        return self.predicted is not None and self.predicted["code"] == 0

    @property
    def executed(self) -> bool:
        """The benchmark's execution accuracy: whether both scripts print the same text.

        As in the benchmark, the exit code of the golden script does not count.
        """
        if not self.called or self.golden is None or self.predicted is None:
            return False
        return bool(self.predicted["output"] == self.golden["output"])


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of the judge. All keys are ids of jobs."""

    verdicts: Mapping[str, tuple[str, Verdict]]
    """Job -> (digest of the judged texts, verdict)."""
    unusable: Mapping[str, str]
    """Job -> the reason why the judge cannot use its reference."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """Job -> the commit at which the job was judged."""


@dataclass(slots=True)
class _Count:
    """The numbers of a task's calls, by their results."""

    refused: Counter[str]
    """Reason -> number of calls that the judge cannot get."""
    posed: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    """Reason code of the verdict -> number of calls."""
    message: str = ""
    """The message of the first rejection."""
    speedups: list[float] = field(default_factory=list)
    commits: set[str] = field(default_factory=set)

    def add(self, verdict: Verdict) -> None:
        """Count a call with a verdict."""
        self.posed += 1
        self.codes[verdict.code] += 1
        if not verdict.accepted:
            self.message = self.message or verdict.message
        elif verdict.speedup:
            self.speedups.append(verdict.speedup)

    def fault(self, code: str, message: str = "") -> None:
        """Count a call for which there is no candidate."""
        self.posed += 1
        self.codes[code] += 1
        self.message = self.message or message

    def judged(self, name: str, outcomes: Outcomes) -> bool:
        """Count the result of a job; return False if the job has no result."""
        if name in outcomes.unusable:
            self.refused[_short(f"{JUDGES_REASON}: {outcomes.unusable[name]}")] += 1
        elif name in outcomes.verdicts:
            self.add(outcomes.verdicts[name][1])
        else:
            return False
        self.commits |= {outcomes.commits.get(name, "")} - {""}
        return True

    def facts(self, *, answered: bool) -> Record:
        """The fields of the record that the calls decide. A task is correct if all posed calls
        are accepted."""
        accepted = self.codes[Code.OK]
        # The first rejection names the task's code. Without a rejection the code is "ok".
        rejection = next((code for code in self.codes if code != Code.OK), Code.OK)
        code = rejection if answered else UNANSWERED
        return {
            "posed": self.posed,
            "refused": dict(self.refused.most_common()),
            "right": accepted,
            "posable": self.posed > 0,
            "correct": answered and 0 < accepted == self.posed,
            "code": code if self.posed else NOT_POSABLE,
            "codes": dict(self.codes.most_common()),
            "message": self.message[:MAX_MESSAGE],
            "speedups": self.speedups,
            **({"commit": "+".join(sorted(self.commits))} if self.commits else {}),
        }


def case_of_prediction(
    file: BenchFile,
    calls: PosedCalls,
    scripts: TaskScripts,
    outcomes: Outcomes,
    recipe: JudgeRecipe,
) -> Record | None:
    """The record of a task with a predicted file; None if a fault of ours left a script or a
    judgement undone."""
    count = _Count(calls.refused)
    for number, _ in calls.posed:
        if not scripts.answered:
            count.fault(UNANSWERED)
        elif not count.judged(f"{file.stem}/{number}", outcomes):
            return None
    if scripts.is_left and file.fault is None:
        return None
    return {
        **_line(file, recipe),
        "answered": scripts.answered,
        "golden_code": scripts.golden and scripts.golden["code"],
        "called": scripts.called,
        "executed": scripts.executed,
        "calls": calls.number,
        **count.facts(answered=scripts.answered),
    }


def case_of_answers(
    file: BenchFile,
    calls: PosedCalls,
    answers: Sequence[tuple[str, Sequence[Record]]],
    outcomes: Outcomes,
    recipe: JudgeRecipe,
) -> Record | None:
    """The record of a task that a policy answered; None if a fault of ours left a judgement undone.

    Args:
        answers: pairs of a problem's name and the answers to this problem. Only the first answer
            counts.
    """
    count = _Count(calls.not_lowered)
    for name, texts in answers:
        if not texts:
            count.fault(UNANSWERED)
        elif "malformed" in texts[0]:
            count.fault(f"answer: {texts[0]['malformed']}", texts[0]["message"])
        elif not count.judged(f"{name}/0", outcomes):
            return None
    return {
        **_line(file, recipe),
        "answered": any(texts for _, texts in answers),
        "golden_code": None,
        "called": None,
        "executed": None,
        "calls": calls.number,
        **count.facts(answered=True),
    }


def _line(file: BenchFile, recipe: JudgeRecipe) -> Record:
    return {
        "record": "tritonbench_case",
        "channel": file.channel,
        "id": file.id,
        "name": file.stem,
        "mode": recipe.mode,
        "precision": recipe.precision,
    }
