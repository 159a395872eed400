"""What is checked of one judged call. Each check raises `Rejected` or lets the call pass."""

import re

from kernelwright.core.verdict import Code, ErrorFigures, Stage
from kernelwright.sandbox.guest import ProcessState, Ran
from kernelwright.verify.compare import Comparison, Expected, compare, worse
from kernelwright.verify.dispatch import computing
from kernelwright.verify.rejection import Rejected, WrongOutputs
from kernelwright.verify.session import Called
from kernelwright.verify.task import Answer

CONTAINERS = re.compile(r"[\[\]()]")
MAX_LIBRARY_SHARE = 0.9
"""`pure` mode: of the GPU's time outside own kernels. Filling and copying memory takes some, as do
gaps between small kernels; what takes nearly all of it is where the work is done."""


def check_process(born: ProcessState, now: ProcessState) -> None:
    """The guest's process is as it was before it ran anything of the candidate's."""
    for name in sorted(born.settings.keys() | now.settings.keys()):
        before, after = born.settings.get(name), now.settings.get(name)
        if before != after:
            message = f"{name} is {after} after the call, was {before} before"
            raise Rejected(Stage.PROBE, Code.SETTINGS_CHANGED, message)
    for name, count in sorted(now.running.items()):
        if count > (before_it := born.running.get(name, 0)):
            message = f"{name}: {count} after the call, {before_it} before"
            raise Rejected(Stage.PROBE, Code.LEFT_RUNNING, message)
    if now.objects and now.objects != born.objects:
        groups = [name for name, digest in born.objects.items() if now.objects.get(name) != digest]
        names = ", ".join((now.changed or tuple(groups))[:5])
        message = f"objects of the process were changed: {names}"
        raise Rejected(Stage.PROBE, Code.TAMPERED, message)


def check_structure(ran: Ran, answer: Answer) -> None:
    """Plain tensors in the reference's order; a list may be a tuple or, of one, the tensor."""
    mine, wanted = (CONTAINERS.sub("", text) for text in (ran.structure, answer.structure))
    if mine.strip(",") != wanted.strip(","):
        raise Rejected(
            Stage.COMPARE,
            Code.WRONG_STRUCTURE,
            f"returns {ran.structure}, the reference returns {answer.structure} (T: a tensor)",
        )


def check_values(ran: Ran, expected: Expected, precision: str) -> ErrorFigures | None:
    """Outputs against the oracle; their error figures."""
    return check_comparison(compare(ran.outputs, expected, precision))


def check_comparison(comparison: Comparison) -> ErrorFigures | None:
    """As `check_values`, of outputs that have been compared."""
    if comparison.mismatch is not None:
        raise WrongOutputs(comparison.mismatch.code, comparison.mismatch.message, comparison.errors)
    return comparison.errors


def check_state(
    called: Called, answer: Answer, precision: str, *, by_name: bool
) -> ErrorFigures | None:
    """Buffers that the reference changes (running statistics) must change the same way."""
    errors = None
    for name, expected in answer.state.items():
        value = called.state.get(name)
        if value is None:
            if by_name:
                message = f"buffer {name} is missing, the reference updates it"
                raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)
            continue
        comparison = compare((value,), expected, precision)
        errors = worse(errors, comparison.errors)
        if comparison.mismatch is not None:
            reason = comparison.mismatch.message.removeprefix("the output")
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, f"buffer {name}{reason}")
    return errors


def check_inputs(ran: Ran, answer: Answer) -> None:
    """Inputs are as they were, and no output lies in one, unless the reference does that."""
    changed = sorted(set(ran.changed_inputs) - answer.changed_inputs)
    if changed:
        message = f"input {changed[0]} is changed by the call"
        raise Rejected(Stage.PROBE, Code.INPUT_CHANGED, message)
    shared = sorted(set(ran.aliases) - answer.aliases)
    if shared:
        output, given = shared[0]
        message = f"output {output} shares memory with input {given}"
        raise Rejected(Stage.PROBE, Code.ALIASED, message)


def check_bounds(ran: Ran) -> None:
    """Nothing was written beside a tensor; reading there gives NaN."""
    if ran.overrun:
        message = "memory just before or behind a tensor was written"
        raise Rejected(Stage.PROBE, Code.OUT_OF_BOUNDS, message)


def check_launches(ran: Ran) -> None:
    """A kernel of the candidate's own ran in this very call."""
    has_work = any(output.numel() for output in ran.outputs)
    if has_work and not sum(ran.launches.values()):
        message = "none of the candidate's kernels was launched in the call"
        raise Rejected(Stage.PROBE, Code.NOT_LAUNCHED, message)


def check_dispatch(ran: Ran) -> None:
    """`pure` mode: PyTorch hands out memory and views and computes nothing, nor does NumPy."""
    found = computing(ran.operators)
    left = [name.removeprefix("leaves.") for name in found if name.startswith("leaves.")]
    if left:
        message = f"values leave PyTorch in the call, where nobody sees them: {', '.join(left)}"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)
    if found:
        message = f"PyTorch computes in the call: {', '.join(found[:5])}"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)


def check_share(library_share: float | None, mode: str) -> None:
    """`pure` mode: own kernels do a share of the work on the GPU, whoever else it is that computes
    (a library called directly leaves no operator to see)."""
    if mode == "pure" and library_share is not None and library_share > MAX_LIBRARY_SHARE:
        message = f"{library_share:.0%} of the GPU's time is outside the candidate's kernels"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)
