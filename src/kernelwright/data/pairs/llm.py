"""Answers of a language model behind a URL. With `refine` it improves TorchInductor's code.

With several turns, the model is told why the judge rejects an answer, and answers again. All
answers are returned: rejected ones become negatives.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Verdict
from kernelwright.data.inductor.harvest import NotHarvested, harvest
from kernelwright.data.inductor.reading import NotRewritten
from kernelwright.data.inductor.rewriting import rewrite
from kernelwright.data.pairs.answers import WrittenAnswer
from kernelwright.policy.answer import Answer, answer_text, read_answer
from kernelwright.policy.endpoint import Endpoint, Message
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import Request, conversation, with_feedback
from kernelwright.policy.served import ServedModel
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import Task

_THINKING = re.compile(r"<think(?:ing)?>")
_THINKING_END = re.compile(r"</think(?:ing)?>")
_REFINE = """
TorchInductor compiles this program to the answer below. It is right. Write one that a person would
be glad to read: plain names, no step that does nothing, a `why` in each plan; and a faster one, if
you see how.

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LlmOptions:
    """The settings of a recipe's part for its model."""

    model: str
    """openai:URL#model. The key is in the environment (`policy.endpoint`)."""
    refine: bool = False
    """Give it what TorchInductor writes; programs without are left out."""
    turns: int = 1
    """Answers to one question, each told what the judge found of the one before."""
    temperature: float = 0.8
    max_tokens: int = 8192
    device: str = "auto"
    """The judge's, between turns."""

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise UsageError("turns: at least one", remedy="leave it out for one")


class LlmSource:
    """The source of answers that asks a language model."""

    licence = "unknown"
    """The model's terms say; a recipe's part should."""

    def __init__(self, options: LlmOptions) -> None:
        self.options = options
        self._model = ServedModel(Endpoint.parse(options.model))

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return cls(strict.read(LlmOptions, options, "options"))

    def answers(self, request: Request, *, limit: int, seed: int) -> list[WrittenAnswer]:
        """All answers of all turns. `limit` first answers are asked for at once, each of which
        begins a conversation of its own."""
        begin = conversation(request)
        if self.options.refine:
            compiled = _compiled(request, seed)
            if isinstance(compiled, str):
                return [WrittenAnswer(candidate=None, refused=compiled)]
            begin[-1] = Message("user", begin[-1].content + _REFINE + answer_text(compiled))
        task = program_task(request.program)
        talks = self._answered([_Talk(begin)], limit, seed)
        written: list[WrittenAnswer] = []
        for turn in range(self.options.turns):
            if turn:
                talks = self._answered([talk.next() for talk in talks if talk.goes_on], 1, seed)
            self._judge(talks, request, task, seed)
            written += [self._written(talk, turn) for talk in talks]
        return written

    def _answered(self, talks: Sequence["_Talk"], samples: int, seed: int) -> list["_Talk"]:
        """Ask for `samples` answers to each talk; returns one talk for each answer."""
        if not talks:
            return []
        options = self.options
        sampling = Sampling(
            temperature=options.temperature, max_tokens=options.max_tokens, seed=seed
        )
        conversations = [talk.messages for talk in talks]
        replies = self._model.chat(conversations, samples=samples, sampling=sampling)
        return [
            _Talk(talk.messages, text)
            for talk, texts in zip(talks, replies, strict=True)
            for text in texts
        ]

    def _judge(self, talks: Sequence["_Talk"], request: Request, task: Task, seed: int) -> None:
        """Set the verdicts of talks, if the recipe has further turns that need them.

        If the program cannot be judged by, talks stay without verdicts. `pairs.judged` meets the
        program again, and counts it.
        """
        candidates = [talk for talk in talks if talk.answer.candidate is not None]
        if self.options.turns == 1 or not candidates:
            return
        judging = JudgeOptions(
            device=self.options.device,
            precision=request.precision,
            mode=request.mode,
            seed=seed % (1 << 31),
        )
        with Judge(judging, times=False, trusted=False) as judge:
            for talk in candidates:
                assert talk.answer.candidate is not None
                try:
                    talk.verdict = judge.verify(task, talk.answer.candidate)
                except UsageError:
                    return

    def _written(self, talk: "_Talk", turn: int) -> WrittenAnswer:
        answer = talk.answer
        return WrittenAnswer(
            candidate=answer.candidate,
            refused=f"llm: {answer.malformed}" if answer.candidate is None else "",
            verdict=talk.verdict,
            reasoning=_reasoning(talk.text),
            provenance={"model": self._model.name, "turn": turn, "refines": self.options.refine},
        )


def _reasoning(text: str) -> str:
    """The text between the first mark of thinking and the mark that ends it; empty without them."""
    # Two searches: one expression for both would look for the end again from every beginning.
    begin = _THINKING.search(text)
    end = begin and _THINKING_END.search(text, begin.end())
    return text[begin.end() : end.start()].strip() if begin and end else ""


@dataclass(slots=True)
class _Talk:
    """A conversation, and the answer to it."""

    messages: list[Message]
    text: str = ""
    verdict: Verdict | None = None
    answer: Answer = field(init=False)

    def __post_init__(self) -> None:
        self.answer = read_answer(self.text, origin="llm")

    @property
    def goes_on(self) -> bool:
        """Whether a further turn can help. A right answer is left alone, since nothing is timed
        here. An answer that could not be judged has no finding to tell."""
        if self.answer.candidate is None:
            return True
        return self.verdict is not None and not self.verdict.accepted

    def next(self) -> "_Talk":
        return _Talk(with_feedback(self.messages, self.answer, self.verdict))


def _compiled(request: Request, seed: int) -> Candidate | str:
    """Inductor's code as a candidate, or the reason why there is none."""
    try:
        return rewrite(harvest(request.program), request.program, seed, request.mode)
    except NotHarvested:
        return "inductor: not compiled"
    except NotRewritten as error:
        return f"inductor: {error}"
