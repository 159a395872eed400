"""Requests to models: one template for every policy.

The embedded model was trained on the user's message alone. For other models a system message
describes the form of an answer (`policy.answer`). A verdict comes back as a further turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.reasons import REASONS
from kernelwright.core.verdict import Verdict
from kernelwright.policy.answer import CODE_BEGIN, CODE_END, PLAN_BEGIN, PLAN_END, Answer
from kernelwright.policy.endpoint import Message
from kernelwright.programs.program import Program
from kernelwright.programs.text import to_text

SYSTEM = f"""\
You write Triton kernels for NVIDIA GPUs. You are given a PyTorch program: `get_inputs()` makes
example inputs, `fused_operator(...)` computes from them. Answer with a plan, then code:

{PLAN_BEGIN}
Plan of NAME_kernel
  fuses: operators that this kernel computes, in program order
  part: the values of the program that it computes, for example t2, t3
  reads: the values it is given, for example x0, t1
  makes: the values it returns, for example t3
  loop: how it loops, for example pointwise, one_pass, two_pass, matmul
  tiles: BLOCK=1024, num_warps=4
  precision: of tl.dot: tf32, tf32x3 or bf16x3; left out where it is ieee or there is none
  why: one sentence
{PLAN_END}
{CODE_BEGIN}
a whole Python module
{CODE_END}

One plan for each kernel. The module imports torch, triton and triton.language as tl, defines the
kernels with @triton.jit, and defines fused_operator with the same parameters and results, which
allocates outputs, launches kernels and returns a list. Sizes are read from the tensors, not spelled
out: it is judged at other sizes too. Results must be as near to float64 as PyTorch's own.

Precision "strict": no less exact than PyTorch. "tf32": as exact as TF32 allows.
Mode "pure": only your kernels compute; PyTorch allocates, views and launches. Mode "hybrid":
library calls may stay beside at least one kernel that does a part of the work.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A program to write kernels for, and the rules for them."""

    program: Program
    device: str = "sm_90"
    precision: str = "strict"
    mode: str = "pure"


def request_text(request: Request) -> str:
    """The user's message: device, rules, and the program with the types of its values."""
    program = to_text(request.program, says_types=True).strip()
    return (
        f"Device: {request.device}\nPrecision: {request.precision}\nMode: {request.mode}\n"
        f"{CODE_BEGIN}\n{program}\n{CODE_END}\n"
    )


def conversation(request: Request) -> list[Message]:
    """The first messages to any model. The system message explains the form of an answer to models
    that were not trained on the form. The embedded model's chat template drops this message."""
    return [Message("system", SYSTEM), Message("user", request_text(request))]


def with_feedback(
    messages: Sequence[Message], answer: Answer, verdict: Verdict | None
) -> list[Message]:
    """The conversation with two more turns: the answer, and the judge's finding about it.

    Args:
        verdict: None if the answer has no candidate. The turn then has the reason (`malformed`).
    """
    return [*messages, Message("assistant", answer.text), Message("user", _found(answer, verdict))]


def _found(answer: Answer, verdict: Verdict | None) -> str:
    if verdict is None:
        said = f"Your answer holds no candidate ({answer.malformed}): {answer.message}."
    elif verdict.accepted:
        speed = f" It is {verdict.speedup:.2f}x as fast as PyTorch." if verdict.speedup else ""
        return f"Your code is right.{speed} Write a faster one, plan and code, in whole."
    else:
        line = f" line {verdict.line}:" if verdict.line else ""
        reason = REASONS[verdict.code]
        said = f"Your code was rejected ({verdict.code}):{line} {verdict.message}. {reason.remedy}"
    return f"{said} Answer again, plan and code, in whole."
