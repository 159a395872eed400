"""Finds indices of extremes that the values do not decide, because several elements are equal."""

from collections.abc import Iterator, Sequence

import torch

from kernelwright.lint.findings import Finding, Severity, found
from kernelwright.lint.operators import ProbedRun
from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program

_OF_LARGEST = names_with(Trait.INDEX_OF_LARGEST)
_GIVING_INDICES = _OF_LARGEST | names_with(Trait.INDEX_OF_SMALLEST)
MIN_SHARE = 1e-3
"""The least share of tied rows: rounding makes a rare tie in any large draw."""


def check_ties(program: Program, tensors: Sequence[torch.Tensor]) -> Iterator[Finding]:
    """Yields index operators whose input holds its extreme more than once: as drawn, or where the
    same draw is rounded to bfloat16."""
    calls = [i for i, call in enumerate(program.calls) if _gives_indices(program, call)]
    if not calls:
        return
    devices = list({t.device for t in tensors if t.device.type == "cuda"})
    with torch.random.fork_rng(devices), torch.no_grad():
        native = ProbedRun(program, tensors, 0).env
        rounded = ProbedRun(program, [_rounded(t) for t in tensors], 0).env
    for i in calls:
        call = program.calls[i]
        now, then = (_tied_share(call, env[call.arg("input").name]) for env in (native, rounded))
        if max(now, then) < MIN_SHARE:
            continue
        when = "as drawn" if now >= MIN_SHARE else "once inputs are rounded to bfloat16"
        yield found(
            "integer_ties",
            f"{call.op} (call {i}): {max(now, then):.1%} of rows are tied {when}",
            measure=now if now >= MIN_SHARE else then,
            operator=i,
            severity=Severity.UNSOUND if now >= MIN_SHARE else Severity.WEAK,
        )


def _gives_indices(program: Program, call: Call) -> bool:
    if call.op not in _GIVING_INDICES:
        return False
    indices = call.outputs[-1]
    return indices in program.outputs or bool(program.users()[indices])


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16().to(tensor.dtype) if tensor.is_floating_point() else tensor


def _tied_share(call: Call, x: torch.Tensor) -> float:
    """Returns the share of rows in which the extreme occurs more than once."""
    dim = call.arg("dim")
    if dim is None or not x.dim():
        x, dim = x.reshape(-1), 0
    extreme = x.amax(dim, keepdim=True) if call.op in _OF_LARGEST else x.amin(dim, keepdim=True)
    return float(((x == extreme).sum(dim) > 1).float().mean())
