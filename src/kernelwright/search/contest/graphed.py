"""Which modules are worth a CUDA graph.

A network of hundreds of small calls takes as long as Python needs to launch them. Captured once and
replayed (`search.contest.captured`), all of them are one launch.
"""

from kernelwright.core.verdict import Verdict
from kernelwright.programs.lowering.lower import Lowered

WAITS = 0.9
"""A call whose graph takes less than this share of its time waits for launches."""


def can_be_graphed(lowered: Lowered) -> bool:
    """Whether all that changes from call to call is its inputs and buffers: a graph knows neither
    plain attributes nor PyTorch's seed."""
    kinds = {source.kind for source in lowered.sources}
    is_random = any(call.is_random for call in lowered.program.calls)
    return "user" in kinds and "attribute" not in kinds and not is_random


def waits_for_launches(verdict: Verdict) -> bool:
    """Whether a call that was timed would be faster as a CUDA graph."""
    called, replayed = verdict.times.get("candidate"), verdict.times.get("candidate_graph")
    return (
        called is not None
        and replayed is not None
        and (replayed.median_ms < WAITS * called.median_ms)
    )
