"""Asks a policy about problems, and keeps the answers in a file, so that nothing is asked twice.

    {"record": "run", ...}        the policy, how its answers are drawn, the environment
    {"record": "answers", ...}    for each problem: "problem", "digest" of its text, "answers"

An answer is {"source", "schedule", "plan"}, or {"malformed", "message", "text"}. If a policy gives
fewer answers than asked for, the missing ones count as `UNANSWERED`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.bench.problems import Problem
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.policy.answer import Answer
from kernelwright.policy.policy import Interrupted, Policy, Sampling
from kernelwright.policy.prompt import Request

UNANSWERED = "unanswered"
"""The reason of a missing answer, in place of a `Malformed` reason."""
ROWS = 4096
"""Answers asked for at once: what decoding in batches needs to be fast, and what is lost at most
when a run is killed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """A policy, and how its answers are drawn."""

    policy: Callable[[], Policy]
    """Makes it, once there is something to ask; it is let go of when all is answered."""
    label: str
    """The name of the policy in records."""
    samples: int
    """Answers to each problem."""
    sampling: Sampling
    precision: str
    mode: str
    command: str = "eval synthetic"

    @property
    def name(self) -> str:
        """The policy's name and how it is asked: figures of greedy and of drawn answers are kept
        apart."""
        temperature = self.sampling.temperature
        return f"{self.label} T={temperature:g}" if temperature else self.label

    def head(self) -> Record:
        """The settings that all answers rest on: the same whenever the run is resumed."""
        return {
            "record": "run",
            "command": self.command,
            "policy": self.name,
            "options": {
                "samples": self.samples,
                **asdict(self.sampling),
                "precision": self.precision,
                "mode": self.mode,
            },
        }


def ask(
    asking: Asking, problems: Sequence[Problem], path: Path, say: Say
) -> tuple[Record, dict[str, list[Record]]]:
    """Ask for the answers that a file lacks, and add them to it.

    Returns:
        The run's head record, and name of a problem -> its answers.

    Raises:
        UsageError: the file holds answers of another policy, drawn otherwise or to other problems,
            or the policy cannot be used.
        InfraError: the policy failed. Its answers so far are in the file.
    """
    head, answered = _held(asking, problems, path)
    left = [problem for problem in problems if problem.name not in answered]
    if not left:
        return head, answered
    policy = asking.policy()
    record.begin(path, asking.head())
    step = max(1, ROWS // asking.samples)
    for first in range(0, len(left), step):
        batch = left[first : first + step]
        say(f"{first} of {len(left)} programs answered")
        for line in _asked(asking, policy, batch):
            record.append(path, [line])
            answered[line["problem"]] = line["answers"]
    policy.release()
    return head, answered


def _asked(asking: Asking, policy: Policy, batch: Sequence[Problem]) -> Iterator[Record]:
    requests = [
        Request(program=problem.program, precision=asking.precision, mode=asking.mode)
        for problem in batch
    ]
    try:
        written = policy.write(requests, samples=asking.samples, sampling=asking.sampling)
    except Interrupted as interrupted:
        # A problem with some of its samples is asked again as a whole: a line has all of them.
        whole = zip(batch, interrupted.answers, strict=True)
        yield from (_line(*answered) for answered in whole if len(answered[1]) == asking.samples)
        raise
    if len(written) != len(batch):
        raise InfraError(f"{asking.label} answers {len(written)} of {len(batch)} requests")
    yield from map(_line, batch, written)


def _line(problem: Problem, answers: Sequence[Answer]) -> Record:
    return {
        "record": "answers",
        "problem": problem.name,
        "digest": problem.digest,
        "answers": [_answer(answer) for answer in answers],
    }


def _answer(answer: Answer) -> Record:
    if answer.candidate is None:
        return {"malformed": answer.malformed, "message": answer.message, "text": answer.text}
    candidate = answer.candidate
    plan = list(candidate.to_json()["plan"])
    return {"source": candidate.source, "schedule": candidate.schedule, "plan": plan}


def _held(
    asking: Asking, problems: Sequence[Problem], path: Path
) -> tuple[Record, dict[str, list[Record]]]:
    """The run's head record, and the answers that the file holds.

    Raises:
        UsageError: the file was begun with other settings, or a problem's text has changed.
    """
    lines, head = record.resumed(path), asking.head()
    if not lines:
        return head | {"environment": record.environment()}, {}
    begun = lines[0]
    options = head.pop("options")
    record.check_same(begun | begun.get("options", {}), head | options, str(path))
    answered = [line for line in lines if line["record"] == "answers"]
    digests = {problem.name: problem.digest for problem in problems}
    for line in answered:
        if digests.get(line["problem"], line["digest"]) != line["digest"]:
            raise UsageError(
                f"{line['problem']} was another program when it was answered",
                file=str(path),
                remedy="give another --out folder",
            )
    return begun, {line["problem"]: line["answers"] for line in answered}
