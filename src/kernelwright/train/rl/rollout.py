"""The answers of a step: they are written by a writer, read, and handed to the judges.

The model learns from the tokens that were written, and never from a text that is tokenised again.
Tokenising may give other tokens than those drawn, with other log-probabilities.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from kernelwright.core.seed import derive
from kernelwright.data.pool.steps import JudgedStep
from kernelwright.policy.answer import Answer, Malformed, read_answer
from kernelwright.policy.decode import WrittenTokens
from kernelwright.policy.endpoint import Message
from kernelwright.policy.local import prompt_tokens
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request, conversation, with_feedback
from kernelwright.programs.program import Program
from kernelwright.train.rl.curriculum import Name
from kernelwright.train.rl.writers import AnswerWriter
from kernelwright.verify.guests import computing
from kernelwright.verify.many.standing import JudgedCandidate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ORIGIN = "rl"
READ = 4096
"""The most answers in the cache of read texts. A trained policy often writes the same text."""
CANDIDATE = "candidate"
"""The name under which answers with a candidate are counted. Other answers are counted by their
`Malformed` reason."""


class Judges(Protocol):
    """The interface of `verify.many.standing.StandingJudges`; tests have other judges."""

    num_judged: int

    def judge(self, reference: str, sources: Sequence[str]) -> "list[Future[JudgedCandidate]]": ...

    def undisturbed(self) -> AbstractContextManager[None]: ...

    def take_stages(self) -> dict[str, Counter[str]]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A program and the conversation that asks a model for its kernels."""

    name: Name
    reference: str
    """The program's text."""
    program: Program
    messages: tuple[Message, ...]


@dataclass(kw_only=True, slots=True, eq=False)
class Rollout:
    """An answer to a question: its tokens, the text and candidate, and the finding of the judge."""

    question: Question
    turn: int = 0
    parent: "Rollout | None" = None
    """The wrong answer that this answer follows, at the second turn."""
    prompt: list[int]
    seed: int
    tokens: list[int] = field(default_factory=list)
    """Tokens of the answer, with the token that ends it unless the answer is cut off."""
    is_cut_off: bool = True
    answer: Answer = field(default_factory=lambda: read_answer("", origin=ORIGIN))
    future: "Future[JudgedCandidate] | None" = None
    """The finding of the judge; None if the answer has no candidate."""
    logps: np.ndarray | None = None
    """(answer tokens,) float32: log-probabilities of the policy that wrote the answer. None if the
    trainer computes them."""
    steps: tuple[JudgedStep, ...] = ()
    """Verdicts on the steps of the answer, if its pool has them."""

    @property
    def group(self) -> tuple[Name, int, int]:
        """The key of the answer's group: the answers to the same request.

        Second answers to different first answers have different requests. So the seed of the first
        answer is part of the key.
        """
        return self.question.name, self.turn, 0 if self.parent is None else self.parent.seed

    @property
    def counted_as(self) -> str:
        """`CANDIDATE`, or the reason why the answer has no candidate (`Malformed`)."""
        if self.answer.candidate is not None:
            return CANDIDATE
        if self.is_cut_off:
            return Malformed.CUT_OFF
        assert self.answer.malformed is not None
        return self.answer.malformed

    def finding(self) -> JudgedCandidate | None:
        """Wait for the judge's finding; None if the answer has no candidate.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        return None if self.future is None else self.future.result()


class Asker:
    """Sends questions to a writer, reads its answers, and hands their candidates to the judges.

    When all answers to a request are written, their candidates go to the judges. The writer
    continues with other requests meanwhile.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        writer: AnswerWriter,
        judges: Judges,
        request: Callable[[Program], Request],
        device: torch.device,
    ) -> None:
        """
        Args:
            request: makes the request for a program, with the run's precision and mode.
            device: the device on which answers are written.
        """
        self._tokenizer, self._writer, self._judges = tokenizer, writer, judges
        self._request, self._device = request, device
        self.lock_wait_s = 0.0
        """Seconds so far until the GPU was free for computing."""
        self._read = lru_cache(READ)(partial(read_answer, origin=ORIGIN))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A context in which this process computes on the GPU, and no process takes times.

        Such contexts must not be nested. The time of waiting for the GPU is added to
        `lock_wait_s`.
        """
        began = time.monotonic()
        with self._judges.undisturbed(), computing(self._device):
            self.lock_wait_s += time.monotonic() - began
            yield

    def question(self, name: Name, program: Program, text: str) -> Question:
        """The question about a program.

        Args:
            text: the program's canonical text.
        """
        messages = tuple(conversation(self._request(program)))
        return Question(name=name, reference=text, program=program, messages=messages)

    def ask(
        self, questions: Sequence[Question], *, samples: int, sampling: Sampling
    ) -> list[Rollout]:
        """Write `samples` answers to each question. The answers are judged in the background.

        Returns:
            The answers to the first question, then those to the second, and so on.

        Raises:
            UsageError, InfraError: as `AnswerWriter.write`.
        """
        rollouts = []
        for question in questions:
            prompt = prompt_tokens(self._tokenizer, question.messages)
            rollouts += [
                Rollout(
                    question=question,
                    prompt=prompt,
                    # By program and number: an answer does not depend on those asked for beside it.
                    seed=derive(sampling.seed, *question.name, number),
                )
                for number in range(samples)
            ]
        self._write(rollouts, sampling)
        return rollouts

    def ask_again(
        self, before: Sequence[Rollout], *, samples: int, sampling: Sampling
    ) -> list[Rollout]:
        """Write `samples` second answers to each wrong first answer. The request has the first
        answer and the finding of the judge.

        Args:
            before: wrong first answers. The method waits for their findings.
        """
        rollouts = []
        for first in before:
            finding = first.finding()
            verdict = None if finding is None else finding.verdict
            messages = with_feedback(first.question.messages, first.answer, verdict)
            prompt = prompt_tokens(self._tokenizer, messages)
            rollouts += [
                Rollout(
                    question=first.question,
                    turn=first.turn + 1,
                    parent=first,
                    prompt=prompt,
                    seed=derive(first.seed, "again", number),
                )
                for number in range(samples)
            ]
        self._write(rollouts, sampling)
        return rollouts

    def take(self, rollouts: Sequence[Rollout]) -> None:
        """Read answers from written tokens, and hand their candidates to the judges.

        Resumed runs call this method for the answers of a checkpoint. Two threads must not call it
        at the same time.
        """
        self._read_all(rollouts)
        by_program: dict[str, list[Rollout]] = defaultdict(list)
        for rollout in rollouts:
            if rollout.answer.candidate is not None:
                by_program[rollout.question.reference].append(rollout)
        for reference, some in by_program.items():
            sources = [r.answer.candidate.source for r in some if r.answer.candidate is not None]
            for asked, future in zip(some, self._judges.judge(reference, sources), strict=True):
                asked.future = future

    def _read_all(self, rollouts: Sequence[Rollout]) -> None:
        """Set each rollout's `answer` from its tokens."""
        # Marks of plan and code are no special tokens to the tokenizer: they stay.
        texts = self._tokenizer.batch_decode(
            [
                answered.tokens if answered.is_cut_off else answered.tokens[:-1]
                for answered in rollouts
            ],
            skip_special_tokens=True,
        )
        for rollout, text in zip(rollouts, texts, strict=True):
            rollout.answer = self._read(text)

    def _write(self, rollouts: Sequence[Rollout], sampling: Sampling) -> None:
        left: dict[Any, list[Rollout]] = defaultdict(list)
        missing = Counter(rollout.group for rollout in rollouts)
        taken = []
        # In a thread beside decoding: the GPU would be idle while answers are read. One thread
        # only, since `take` must not run twice at once.
        with self.computing(), ThreadPoolExecutor(1, "read") as reading:
            for number, written in self._writer.write(
                [rollout.prompt for rollout in rollouts],
                seeds=[rollout.seed for rollout in rollouts],
                sampling=sampling,
            ):
                unwritten = rollouts[number]
                _keep(unwritten, written)
                left[unwritten.group].append(unwritten)
                if len(left[unwritten.group]) == missing[unwritten.group]:
                    taken.append(reading.submit(self.take, left.pop(unwritten.group)))
        for done in taken:
            done.result()  # raises here what failed in the thread


def _keep(rollout: Rollout, written: WrittenTokens) -> None:
    rollout.is_cut_off = written.is_cut_off
    rollout.tokens = written.tokens if written.end is None else [*written.tokens, written.end]


def saved(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """Answers as plain data for a checkpoint. Texts and verdicts are left out, because a resumed
    run gets them from the tokens."""
    # Parents are left out too: second answers are written when a batch is due, never before.
    return [
        {
            "name": list(rollout.question.name),
            "turn": rollout.turn,
            "prompt": rollout.prompt,
            "seed": rollout.seed,
            "tokens": rollout.tokens,
            "is_cut_off": rollout.is_cut_off,
        }
        for rollout in rollouts
    ]


def restored(
    lines: Sequence[Mapping[str, Any]], questions: Mapping[Name, Question]
) -> list[Rollout]:
    """The rollouts that `saved` returned. The caller has them read and judged again (`take`)."""
    return [
        Rollout(
            question=questions[Name(*line["name"])],
            turn=line["turn"],
            prompt=line["prompt"],
            seed=line["seed"],
            tokens=line["tokens"],
            is_cut_off=line["is_cut_off"],
        )
        for line in lines
    ]
