"""Answers of a step: has them written, reads them, and hands their candidates to the judges.

The written tokens are kept and learnt from. A text that is tokenised again may give other tokens,
whose log-probabilities are not those of the tokens that were drawn.
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
"""The most texts whose reading is remembered. A trained policy writes the same texts again and
again."""
CANDIDATE = "candidate"
"""The name under which answers with a candidate are counted. Other answers are counted by the
reason why they have none."""


class Judges(Protocol):
    """`verify.many.standing.StandingJudges`, or what tests have in its place."""

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
    """One answer to a question: its tokens, the answer read out of them, and the judge's future."""

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
    """None where there is no candidate."""
    logps: np.ndarray | None = None
    """(its tokens,) float32, of the policy that wrote it; None where the trainer computes them."""
    steps: tuple[JudgedStep, ...] = ()
    """Verdicts on its steps, from a pool that has them."""

    @property
    def group(self) -> tuple[Name, int, int]:
        """The key of the answers that are compared with this one: those to the same request.

        Second answers to different first answers have different requests, so the first answer's
        seed is part of the key.
        """
        return self.question.name, self.turn, 0 if self.parent is None else self.parent.seed

    @property
    def counted_as(self) -> str:
        """`CANDIDATE`, or why the answer holds none: a member of `Malformed`."""
        if self.answer.candidate is not None:
            return CANDIDATE
        if self.is_cut_off:
            return Malformed.CUT_OFF
        assert self.answer.malformed is not None
        return self.answer.malformed

    def finding(self) -> JudgedCandidate | None:
        """Wait for the judge's finding; None if the answer holds no candidate.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        return None if self.future is None else self.future.result()


class Asker:
    """Has answers written, reads them, and hands their candidates to the judges.

    A request's candidates are handed in once all its answers are written, while the model still
    writes answers to other requests.
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
            device: that answers are written on.
        """
        self._tokenizer, self._writer, self._judges = tokenizer, writer, judges
        self._request, self._device = request, device
        self.lock_wait_s = 0.0
        """Seconds so far until the GPU was free for computing."""
        self._read = lru_cache(READ)(partial(read_answer, origin=ORIGIN))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Hold the GPU for this process's own computing: nobody takes times meanwhile.

        Not to be nested. The time until the GPU was free is added to `lock_wait_s`.
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
        """Have `samples` answers to each question written; they are judged in the background.

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
        """Have `samples` second answers written after each wrong first answer and its finding.

        Args:
            before: wrong first answers. Their findings are waited for.
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
        """Read answers from tokens that are written, and hand their candidates to the judges.

        Resumed runs call this for answers that a checkpoint kept. Not from two threads at once.
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
    """Plain data from which a resumed run makes its pending answers again. Texts and verdicts are
    left out: both follow from the tokens."""
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
    """The rollouts that `saved` described, to be read and judged again."""
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
