"""The sources of candidates for fragments: the teacher, and the models that the user names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.verdict import Verdict
from kernelwright.policy.answer import Answer, read_answer
from kernelwright.policy.endpoint import Message
from kernelwright.policy.names import EMBEDDED, FORMS, TEACHER, are_policies
from kernelwright.policy.policy import ChatPolicy, Interrupted, Policy, Sampling
from kernelwright.policy.prompt import Request, conversation, with_feedback
from kernelwright.programs.fragments.source_merge import unmergeable
from kernelwright.programs.program import Program
from kernelwright.programs.text import to_text
from kernelwright.search.policies import architecture, policy
from kernelwright.teacher.writer import write
from kernelwright.timing.stages import stage, worked_s
from kernelwright.verify.judging import Rules


class Writers(Enum):
    """Who writes candidates in one pass over a program."""

    TEACHER = "the teacher"
    MODELS = "the models"


@dataclass(frozen=True, slots=True)
class Writing:
    """The writers of candidates for a fragment, and what the teacher draws."""

    writers: Writers
    limit: int
    """The most candidates of the teacher."""
    seed: int
    """The seed of the teacher's draws."""
    first_answer: int = 0
    """The models' answers before this number are left out."""


TEMPERATURE, TOP_P = 1.0, 0.95
"""How models draw answers beside the likeliest answer: the judge refuses wrong ones."""
MENDS = 2
"""How often a model writes an answer anew from a fault that its text shows."""
DRAWING_SHARE = 0.6
"""The share of a model's time in which the model draws answers beside the likeliest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unread:
    """An answer that is no candidate for a fragment."""

    origin: str
    reason: str
    """A `policy.answer.Malformed`, or "unmergeable"."""
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedSource:
    """A model that failed, and was asked no more."""

    origin: str
    message: str

    def __str__(self) -> str:
        return f"{self.origin} failed and is asked no more: {self.message}"


class Sources:
    """The writers that `spec` names, separated by commas.

    The teacher takes milliseconds and models take seconds, so the teacher has the first pass over a
    program and the models the second. Models are asked for many programs together.
    """

    def __init__(self, spec: str = TEACHER) -> None:
        """
        Raises:
            UsageError: a policy has no such name, or cannot be used.
        """
        names = [name.strip() for name in spec.split(",") if name.strip()]
        if not names:
            raise UsageError("no policy is named", remedy=f"one of {FORMS}, or several with commas")
        if unknown := [name for name in names if not are_policies(name)]:
            raise UsageError(f"no policy {unknown[0]!r}", remedy=f"one of {FORMS}")
        models = [name for name in names if name != TEACHER]
        self.has_teacher, self.has_models = TEACHER in names, bool(models)
        self._model_names = models
        self._unloaded = [name for name in models if name == EMBEDDED]
        """The model that ships with the package is loaded when it is first asked."""
        self._models: list[Policy] = [policy(name) for name in models if name != EMBEDDED]
        """Those that are loaded and have not failed."""
        self.failed: list[FailedSource] = []
        self._answers: dict[str, list[tuple[str, Answer]]] = {}
        self._talks: dict[tuple[str, str], list[Message]] = {}
        """Program and model -> the conversation, with the judge's last feedback at its end."""
        self._ours: dict[tuple[str, int, int], list[Candidate]] = {}
        """A kernel that is compiled ahead is wanted again when the kernel is tuned."""

    @property
    def passes(self) -> tuple[Writers, ...]:
        """The writers of each pass over a program, in order."""
        has = {Writers.TEACHER: self.has_teacher, Writers.MODELS: self.has_models}
        return tuple(writers for writers, is_named in has.items() if is_named)

    def names(self, writers: Writers) -> Sequence[str]:
        """The names of the policies that write in a pass."""
        return [TEACHER] if writers is Writers.TEACHER else self._model_names

    def ask(
        self,
        programs: Sequence[Program],
        rules: Rules,
        *,
        limit: int,
        seed: int,
        for_s: float | None = None,
    ) -> None:
        """Has each model write `limit` candidates for the programs that are new to the models.

        Nothing happens if the first program is not new. A model that fails is listed in `failed`
        and not asked again; its earlier answers stay.

        Args:
            limit: candidates of each model for each program.
            for_s: seconds that each model has; None for no limit.

        Raises:
            UsageError: a model cannot be used as named.
            InfraError: all writers failed, and no answer exists.
        """
        is_wanted = bool(programs) and to_text(programs[0]) not in self._answers
        if not is_wanted or not (self._models or self._unloaded):
            return
        if self._unloaded:
            begin_s = worked_s()
            self._models += [policy(name) for name in self._unloaded]
            self._unloaded.clear()
            # Loading takes a part of the models' time.
            for_s = for_s and max(for_s - (worked_s() - begin_s), 0.0)
        new = {to_text(program): program for program in programs}
        new = {text: program for text, program in new.items() if text not in self._answers}
        requests = [_request(program, rules) for program in new.values()]
        sampling = Sampling(
            temperature=TEMPERATURE, top_p=TOP_P, seed=seed, for_s=for_s, mends=MENDS
        )
        written: dict[str, list[tuple[str, Answer]]] = {text: [] for text in new}
        for model in tuple(self._models):
            answers = self._write(model, requests, limit, sampling)
            for text, of_one in zip(new, answers, strict=True):
                written[text] += [(model.name, answer) for answer in of_one]
        self._answers |= written
        # Without a writer the search could only return the original, so it fails instead.
        if not (self._models or self.has_teacher or any(self._answers.values())):
            raise InfraError("; ".join(map(str, self.failed)))

    @stage("models write")
    def _write(
        self, model: Policy, requests: Sequence[Request], limit: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """The answers of the model to each request, the likeliest first.

        More answers are drawn in the rest of a share of the model's time. If the model fails, the
        answers until then are returned.
        """
        # The likeliest answer of every request comes first: if the time ends early, each fragment
        # has one answer.
        likeliest = replace(sampling, temperature=0.0, top_p=1.0)
        answers: list[list[Answer]] = [[] for _ in requests]
        begin_s = worked_s()
        try:
            _add(answers, model.write(requests, samples=1, sampling=likeliest))
            spent_s = worked_s() - begin_s
            left_s = sampling.for_s and DRAWING_SHARE * sampling.for_s - spent_s
            if limit > 1 and (left_s is None or left_s > 0):
                drawn = replace(sampling, for_s=left_s)
                _add(answers, model.write(requests, samples=limit - 1, sampling=drawn))
        except InfraError as error:
            self._models.remove(model)
            self.failed.append(FailedSource(origin=model.name, message=str(error)))
            _add(answers, error.answers if isinstance(error, Interrupted) else [])
        finally:
            model.release()  # the judge works on the same device
        return answers

    def refine(
        self,
        program: Program,
        rules: Rules,
        verdicts: Mapping[str, Verdict],
        *,
        seed: int,
        for_s: float | None = None,
    ) -> int:
        """Shows each model the judge's verdict on one of its answers, and has it answer again.

        At first this is the model's best answer; later it is the last one in the conversation.
        Answers without a verdict are skipped: the deadline came first, or they cannot be merged.

        Args:
            verdicts: source of a candidate -> its verdict.
            for_s: seconds that each model has.

        Returns:
            The number of new answers. A model that fails is in `failed` from then on.

        Raises:
            UsageError: a model refuses the conversation.
        """
        text = to_text(program)
        sampling = Sampling(temperature=0.0, seed=seed, for_s=for_s)
        written = self._answers.get(text, [])
        before = len(written)  # none where all models had failed
        for model in tuple(self._models):
            if not (isinstance(model, ChatPolicy) and model.takes_feedback):
                continue
            settled = [
                (answer, verdicts[answer.candidate.source] if answer.candidate else None)
                for name, answer in written
                if name == model.name
                and (answer.candidate is None or answer.candidate.source in verdicts)
            ]
            if not settled:
                continue
            talk = self._talks.get((text, model.name))
            answer, verdict = min(settled, key=_rank) if talk is None else settled[-1]
            talk = with_feedback(talk or conversation(_request(program, rules)), answer, verdict)
            self._talks[text, model.name] = talk
            with stage("models write"):
                answers = self._continued(model, talk, sampling)
            written += [(model.name, read_answer(answer, origin=model.name)) for answer in answers]
        return len(written) - before

    def _continued(
        self, model: ChatPolicy, talk: Sequence[Message], sampling: Sampling
    ) -> list[str]:
        """The model's next answer in a conversation; none where the model fails."""
        try:
            return model.chat([talk], samples=1, sampling=sampling)[0]
        except InfraError as error:
            self._models.remove(model)
            self.failed.append(FailedSource(origin=model.name, message=str(error)))
            return []
        finally:
            model.release()

    def num_answers(self, program: Program) -> int:
        """Answers of models to the program, until now."""
        return len(self._answers.get(to_text(program), ()))

    def has_answers(self, program: Program) -> bool:
        """Whether the models were asked for the program already."""
        return to_text(program) in self._answers

    def written(
        self, program: Program, rules: Rules, writing: Writing
    ) -> tuple[list[Candidate], list[Unread]]:
        """(Distinct candidates for a program, answers that are no candidates). Models wrote theirs
        in `ask`."""
        text = to_text(program)
        if writing.writers is Writers.TEACHER:
            limit, seed = writing.limit, writing.seed
            key = text, limit, seed
            if key not in self._ours:
                self._ours[key] = write(program, limit=limit, seed=seed, precision=rules.precision)
            return list({kernel.source: kernel for kernel in self._ours[key]}.values()), []
        by_source: dict[str, Candidate] = {}
        unread = []
        for origin, answer in self._answers.get(text, [])[writing.first_answer :]:
            candidate, reason, message = answer.candidate, str(answer.malformed), answer.message
            if candidate is not None and (statement := unmergeable(candidate.source)):
                candidate, reason, message = None, "unmergeable", statement
            if candidate is None:
                unread.append(Unread(origin=origin, reason=reason, message=message))
            else:
                by_source.setdefault(candidate.source, candidate)
        return list(by_source.values()), unread


def _request(program: Program, rules: Rules) -> Request:
    return Request(
        program=program, device=architecture(), precision=rules.precision.value, mode=rules.mode
    )


def _rank(settled: tuple[Answer, Verdict | None]) -> tuple[int, float]:
    """Correct answers first, the fastest of them before the others; then wrong ones; then texts
    without a candidate."""
    _, verdict = settled
    if verdict is None:
        return 2, 0.0
    if not verdict.accepted:
        return 1, 0.0
    return 0, -(verdict.speedup or 0.0)


def _add(found: list[list[Answer]], answers: Sequence[Sequence[Answer]]) -> None:
    # A model that was interrupted has answered only the first requests.
    for of_one, more in zip(found, answers, strict=False):
        of_one += more
