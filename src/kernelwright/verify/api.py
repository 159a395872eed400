"""`kernelwright verify`, as a function."""

from dataclasses import replace
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Verdict
from kernelwright.verify.judge import Judge, Say
from kernelwright.verify.load import load_task


def verify(
    ref: str | Path,
    candidate_path: str | Path,
    *,
    device: str = "auto",
    precision: str = "strict",
    mode: str = "pure",
    timeout_s: float | None = None,
    progress: Say | None = None,
) -> Verdict:
    """The verdict on a candidate file against a reference file or `package.module:factory`.

    Args:
        ref: with `Model`, the candidate must define `ModelNew`; else `fused_operator`.
        device: "auto", "cpu" (Triton's interpreter, no times) or "cuda".
        precision: "strict", "tf32" or "kernelbench".
        mode: "pure" (all computation in the candidate's own kernels) or "hybrid".
        timeout_s: longest a call of the candidate's may take; by default 60, on a GPU 120.
        progress: is told what is done next.

    Raises:
        UsageError: an option, the reference, or the candidate's path is wrong.
        InfraError: our side broke; no verdict.
    """
    source = _read(Path(candidate_path))
    with Judge(device, precision, mode, progress=progress) as judge:
        if timeout_s is not None:
            judge.limits = replace(judge.limits, wall_s=timeout_s)
        task = load_task(ref, judge.rules.device)
        return judge.verify(task, Candidate(source=source, origin="file"))


def _read(path: Path) -> str:
    """Bytes that are no UTF-8 become what no Python file holds: the judge says so."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot be read: {reason}", file=str(path), remedy="give the candidate's file"
        ) from error
