"""Policies by the names that users give them; the teacher as one of them."""

from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.policy.answer import Answer, answer_text
from kernelwright.policy.names import EMBEDDED, FORMS, PATH, TEACHER, URL
from kernelwright.policy.policy import Policy, Sampling
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import to_text

WITHOUT_GPU = "sm_90"
"""The architecture that kernels are written for where there is no GPU to ask."""


class Teacher:
    """The rule-based writer: whole programs with cuts and schedules drawn by chance."""

    name = TEACHER

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """Distinct candidates: fewer than `samples` where there are no more, none where some call
        has no form. Of `sampling` the seed alone matters."""
        return [self._answers(request, samples, sampling.seed) for request in requests]

    def release(self) -> None:
        """As `Policy.release`: nothing is held."""

    def _answers(self, request: Request, samples: int, seed: int) -> list[Answer]:
        from kernelwright.teacher.whole import write_whole

        program = request.program
        candidates = write_whole(
            program, limit=samples, seed=derive(seed, to_text(program)), precision=request.precision
        )
        return [_as_answer(candidate) for candidate in candidates]


class Several:
    """Policies in a row: each writes what those before it left of the wanted answers."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self.name = ",".join(member.name for member in policies)

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """As `Policy.write`; a policy is asked for those requests alone that want answers."""
        answers: list[list[Answer]] = [[] for _ in requests]
        for writer in self._policies:
            short = [i for i, texts in enumerate(answers) if len(texts) < samples]
            if not short:
                break
            written = writer.write([requests[i] for i in short], samples=samples, sampling=sampling)
            for i, texts in zip(short, written, strict=True):
                answers[i] = (answers[i] + texts)[:samples]
        return answers

    def release(self) -> None:
        """As `Policy.release`."""
        for writer in self._policies:
            writer.release()


def architecture() -> str:
    """The architecture that kernels are written for: the GPU's, as "sm_90"."""
    import torch

    if not torch.cuda.is_available():
        return WITHOUT_GPU
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def policy(spec: str) -> Policy:
    """The policy that a user names, or several with commas; a model is loaded.

    Raises:
        UsageError: no policy has that name, or it cannot be used.
    """
    names = [name.strip() for name in spec.split(",")]
    if len(names) > 1:
        return Several([policy(name) for name in names])
    if spec == TEACHER:
        return Teacher()
    # Imported here, because a search without models should not wait for their libraries.
    if spec == EMBEDDED or spec.startswith(PATH):
        from kernelwright.policy.local import LocalModel

        return LocalModel.embedded() if spec == EMBEDDED else LocalModel.of_path(spec)
    if spec.startswith(URL):
        from kernelwright.policy.endpoint import Endpoint
        from kernelwright.policy.served import ServedModel

        return ServedModel(Endpoint.parse(spec))
    raise UsageError(f"no policy {spec!r}", remedy=f"one of {FORMS}")


def _as_answer(candidate: Candidate) -> Answer:
    return Answer(text=answer_text(candidate), candidate=candidate)
