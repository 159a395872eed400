"""Checks of one judged call. A check raises `Rejected` or lets the call pass."""

import math
import re

import torch

from kernelwright.core.verdict import Code, ErrorFigures, Stage
from kernelwright.sandbox.shared.contract import ProcessState, Ran
from kernelwright.verify.dispatch import computing
from kernelwright.verify.rejection import Rejected, WrongOutputs
from kernelwright.verify.session import Called
from kernelwright.verify.tasks.answer import ReferenceAnswer
from kernelwright.verify.values.compare import Comparison, Expected, compare, worse
from kernelwright.verify.values.live import differs

CONTAINERS = re.compile(r"[\[\]()]")
MAX_LIBRARY_SHARE = 0.9
"""`pure` mode: of the GPU's time outside own kernels. Filling and copying memory takes some, as do
gaps between small kernels; what takes nearly all of it is where the work is done."""


def check_process(born: ProcessState, now: ProcessState) -> None:
    """Refuses a guest whose settings, running work or objects differ from those at birth."""
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


def check_structure(ran: Ran, answer: ReferenceAnswer, *, is_exact: bool = False) -> None:
    """Refuses outputs that are not plain tensors in the order of the reference.

    A list may be a tuple, and a container of one tensor may be the tensor itself.

    Args:
        is_exact: the containers must also be those of the reference.
    """
    mine, wanted = ran.structure, answer.structure
    if not is_exact:
        mine, wanted = (CONTAINERS.sub("", text).strip(",") for text in (mine, wanted))
    if mine != wanted:
        raise Rejected(
            Stage.COMPARE,
            Code.WRONG_STRUCTURE,
            f"returns {ran.structure}, the reference returns {answer.structure} (T: a tensor)",
        )


def check_values(ran: Ran, expected: Expected, precision: str) -> ErrorFigures | None:
    """Compares outputs with the oracle, and returns their error figures. Raises `WrongOutputs`."""
    return check_comparison(compare(ran.outputs, expected, precision))


def check_comparison(comparison: Comparison) -> ErrorFigures | None:
    """Does the work of `check_values` for outputs that have been compared."""
    if comparison.mismatch is not None:
        raise WrongOutputs(comparison.mismatch.code, comparison.mismatch.message, comparison.errors)
    return comparison.errors


def check_state(
    called: Called, answer: ReferenceAnswer, precision: str, *, is_drop_in: bool
) -> ErrorFigures | None:
    """Refuses parameters and buffers that do not change as the reference's do; all others must
    stay. Plain attributes that the reference changes must have its values.

    Args:
        is_drop_in: integer buffers and attributes must not be missing.

    Returns:
        The worst error figures; None if no floating-point state was compared.
    """
    errors = None
    for name, expected in answer.state.items():
        value = called.state.get(name)
        if value is None:
            if is_drop_in or expected.native[0].is_floating_point():
                message = f"{name} is missing, the reference updates it"
                raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)
            continue
        comparison = compare((value,), expected, precision)
        errors = worse(errors, comparison.errors)
        if comparison.mismatch is not None:
            reason = comparison.mismatch.message.removeprefix("the output")
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, f"{name} after the call{reason}")
    for name, value in called.state.items():
        if name not in answer.state and bool(differs(called.before[name].to(value.device), value)):
            message = f"{name} is changed by the call, the reference leaves it"
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)
    _check_attributes(called, answer, is_drop_in=is_drop_in)
    return errors


def _check_attributes(called: Called, answer: ReferenceAnswer, *, is_drop_in: bool) -> None:
    """Refuses numbers and texts that differ from the reference's after the call. Tensors are not
    compared."""
    for path, wanted in answer.attributes.items():
        if isinstance(wanted, torch.Tensor):
            continue  # outputs of later calls show their effect
        if path not in called.attributes:
            if is_drop_in:
                message = f"attribute {path} is missing, the reference changes it"
                raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)
            continue
        value = called.attributes[path]
        if value != wanted and not _is_near(value, wanted):
            message = f"attribute {path} is {value} after the call, the reference's is {wanted}"
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)


def _is_near(value: object, wanted: object) -> bool:
    """Whether two floats differ by rounding. An object (a dict here) may stand for a number."""
    if isinstance(value, dict):
        return True
    if isinstance(value, float) and isinstance(wanted, float):
        return math.isclose(value, wanted, rel_tol=1e-3) or (value != value and wanted != wanted)
    return False


def check_inputs(ran: Ran, answer: ReferenceAnswer, precision: str) -> None:
    """Refuses inputs that the reference leaves otherwise, and outputs that share memory with an
    input where the reference's do not."""
    changed = sorted(set(ran.changed_inputs) - answer.inputs.keys())
    if changed:
        message = f"input {changed[0]} is changed by the call"
        raise Rejected(Stage.PROBE, Code.INPUT_CHANGED, message)
    for i, after in zip(answer.inputs, ran.inputs_after, strict=False):
        mismatch = compare((after,), answer.inputs[i], precision).mismatch
        if mismatch is not None:
            message = f"input {i} after the call: {mismatch.message}"
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, message)
    shared = sorted(set(ran.aliases) - answer.aliases)
    if shared:
        output, source = shared[0]
        message = f"output {output} shares memory with input {source}"
        raise Rejected(Stage.PROBE, Code.ALIASED, message)


def check_ownership(ran: Ran, answer: ReferenceAnswer) -> None:
    """Refuses outputs that share memory with each other, with state or with earlier outputs, where
    the reference's do not."""
    if pairs := sorted(set(ran.shared) - answer.shared):
        message = f"outputs {pairs[0][0]} and {pairs[0][1]} share memory"
        raise Rejected(Stage.PROBE, Code.ALIASED, message)
    if shared := sorted(set(ran.held) - answer.held):
        message = f"output {shared[0]} shares memory with a parameter or buffer"
        raise Rejected(Stage.PROBE, Code.ALIASED, message)
    # An output that is a view of state or of an input changes with it, in the reference too.
    others = answer.held | {output for output, _ in answer.aliases}
    if overwritten := sorted(set(ran.overwritten) - others):
        message = (
            f"the call writes to output {overwritten[0]} of an earlier call, or returns its memory"
            " again"
        )
        raise Rejected(Stage.PROBE, Code.ALIASED, message)


def check_marks(ran: Ran, *, is_drop_in: bool) -> str:
    """Refuses outputs that NumPy or autograd refuse, where the reference's are plain tensors.
    Returns advice for inference tensors, which only `drop-in` forbids."""
    if ran.grad:
        message = f"output {ran.grad[0]} requires gradients, though no input does"
        raise Rejected(Stage.PROBE, Code.WRONG_STRUCTURE, f"{message}: NumPy refuses it")
    if not ran.inference:
        return ""
    message = f"output {ran.inference[0]} is an inference tensor: autograd refuses it"
    if is_drop_in:
        raise Rejected(Stage.PROBE, Code.WRONG_STRUCTURE, message)
    return f"{message}; use torch.no_grad in place of torch.inference_mode"


def check_bounds(ran: Ran) -> None:
    """Refuses a call that wrote beside a tensor. A read there gives NaN, which shows in the
    values."""
    if ran.overrun:
        message = "memory just before or behind a tensor was written"
        raise Rejected(Stage.PROBE, Code.OUT_OF_BOUNDS, message)


def check_launches(ran: Ran) -> None:
    """Refuses a call in which no kernel of the candidate's own ran. A call without elements has no
    work."""
    has_work = any(output.numel() for output in ran.outputs)
    if has_work and not sum(ran.launches.values()):
        message = "none of the candidate's kernels was launched in the call"
        raise Rejected(Stage.PROBE, Code.NOT_LAUNCHED, message)


def check_dispatch(ran: Ran) -> None:
    """Refuses PyTorch and NumPy computing in `pure` mode. Memory and views are free."""
    operators = computing(ran.operators)
    left = [name.removeprefix("leaves.") for name in operators if name.startswith("leaves.")]
    if left:
        message = f"values leave PyTorch in the call, where nobody sees them: {', '.join(left)}"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)
    if operators:
        message = f"PyTorch computes in the call: {', '.join(operators[:5])}"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)


def check_share(library_share: float | None, mode: str) -> None:
    """Refuses, in `pure` mode, a candidate whose own kernels take too small a share of the GPU's
    time. A library that is called directly leaves no operator to see."""
    if mode == "pure" and library_share is not None and library_share > MAX_LIBRARY_SHARE:
        message = f"{library_share:.0%} of the GPU's time is outside the candidate's kernels"
        raise Rejected(Stage.PROBE, Code.LIBRARY_COMPUTE, message)
