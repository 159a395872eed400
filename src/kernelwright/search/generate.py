"""The kernels that a policy writes for a target, unjudged."""

import torch

from kernelwright.policy.answer import Answer
from kernelwright.policy.policy import Policy, Sampling
from kernelwright.policy.prompt import Request
from kernelwright.programs.build import in_reading_order
from kernelwright.search.policies import architecture
from kernelwright.search.target import load_target


def generate(
    spec: str, writer: Policy, *, samples: int, sampling: Sampling, precision: str, mode: str
) -> list[Answer]:
    """At most `samples` answers for a target of `optimize`.

    The parameters of `fused_operator` are in the order in which the program reads its inputs.

    Raises:
        UsageError: the target cannot be loaded or captured, or the policy cannot be used.
        InfraError: what runs the policy failed (`policy.Interrupted` has what it wrote).
    """
    # Modules list their parameters first; models learn from programs that list what is read first.
    program = in_reading_order(load_target(spec, torch.device("cpu")).program)
    request = Request(program=program, device=architecture(), precision=precision, mode=mode)
    (answers,) = writer.write([request], samples=samples, sampling=sampling)
    return answers
