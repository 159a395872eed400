"""`kernelwright verify`, as a function."""

from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Contract, Verdict
from kernelwright.policy.names import DEFAULT_MODE
from kernelwright.sandbox.host import supervised
from kernelwright.verify.advise import Adviser, reference_text
from kernelwright.verify.apart import verify_apart
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.task import Task


def verify(
    ref: str | Path | Task,
    candidate: str | Path | Candidate,
    *,
    device: str = "auto",
    precision: str = "strict",
    mode: str = DEFAULT_MODE,
    contract: str = Contract.FIXED,
    timeout_s: float | None = None,
    large: bool = False,
    training: bool | None = None,
    adviser: Adviser | None = None,
    progress: Say | None = None,
) -> Verdict:
    """Returns the verdict on a candidate against its reference.

    A reference that is a file or a factory is loaded and run in a child process: its code cannot
    end or hang the caller's process. A `Task` is judged in the caller's process.

    Args:
        ref: a file, `package.module:factory` or a task. Where it has a `Model`, the candidate must
            define `ModelNew`, else `fused_operator`.
        candidate: a file, or the source itself (text of more than one line).
        device: "auto", "cpu" (Triton's interpreter, no times) or "cuda".
        precision: "strict", "tf32" or "kernelbench".
        mode: "hybrid" (library calls may stay) or "pure" (Triton kernels for all computation).
        contract: "fixed" (right for the task's own sizes, layout and mode) or "drop-in" (right
            wherever the reference is).
        timeout_s: seconds that one request to the guest may take; by default 60, on a GPU 120.
        large: judge a case of more than 2^31 elements too (GPU, programs that can be resized).
        training: judge in train mode (True) or eval mode (False). None: as the reference's code
            leaves its module, mostly train mode. A `Task` stays in its own mode.
        adviser: a language model that may add flags to the verdict; it never decides.
        progress: is told what is done next.

    Raises:
        UsageError: an option, the reference, or the candidate's path is wrong.
        InfraError: our side broke; no verdict.
    """
    candidate = _candidate(candidate)
    if adviser is not None:
        adviser.endpoint.ready()
    options: Record = {"device": device, "precision": precision, "mode": mode, "contract": contract}
    if not isinstance(ref, Task) and not supervised.is_child() and adviser is None:
        request: Record = {"ref": str(ref), "candidate": f"{candidate.source}\n", **options}
        request |= {"timeout_s": timeout_s, "large": large, "training": training}
        return verify_apart(request, progress or (lambda _: None))
    judging = JudgeOptions(**options, wall_s=timeout_s)
    with Judge(judging, large=large, progress=progress, trusted=False) as judge:
        task = ref
        if not isinstance(task, Task):
            task = load_task(task, judge.rules.device, training=training)
        verdict = judge.verify(task, candidate)
    if adviser is None:
        return verdict
    if progress is not None:
        progress("asking the adviser")
    return adviser.review(reference_text(task), candidate.source, verdict)


def _candidate(given: str | Path | Candidate) -> Candidate:
    """Returns the candidate of a path or text. Bytes that are no UTF-8 become lone surrogates,
    which no Python file holds: the judge then rejects the text."""
    if isinstance(given, Candidate):
        return given
    if isinstance(given, str) and "\n" in given:
        return Candidate(source=given, origin="text")
    path = Path(given)
    try:
        source = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot be read: {reason}", file=str(path), remedy="give the candidate's file"
        ) from error
    return Candidate(source=source, origin="file")
