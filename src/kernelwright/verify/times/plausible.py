"""Checks a guest's times against the host's wall clock and against physics."""

from collections.abc import Sequence
from statistics import median, quantiles

import torch

from kernelwright.core.verdict import Code, Precision, Stage
from kernelwright.ops.operator import Numerics, ParameterKind
from kernelwright.programs.program import Program
from kernelwright.timing.floor import floor_ms
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.sides import Believed

WALL_SHARE = 0.2
"""The share of the claimed time by which the host's clock may exceed the events."""
WALL_SLACK_MS = 0.5
"""As much is always allowed a request, and more on a busy machine, where requests take uneven
times."""
CALL_SLACK_MS = 0.06
"""As much is always allowed a call: what the timer takes for settled."""
SPREADS = 4.0
"""Times the middle half of the idle requests' range."""
BURST_FACTOR, BURST_SLACK_MS = 2.0, 0.05
"""A call in a burst may be said to take this much longer than one by itself."""
OUTPUT_MS = 0.1
"""For each output: the guest queues a sum over it before it answers."""
CACHED_BYTES = 64 << 20
"""The written bytes that may still be in L2 when a call ends."""
FLOOR_SHARE = 0.9
"""A time below this share of the floor is refused: events and clocks are not exact."""
FLOPS_SHARE = 0.5
"""The share of a product's arithmetic that must be done; algorithms like Strassen's save some."""


def check_wall(believed: Believed, num_outputs: int) -> None:
    """Compares the guest's events with the host's wait, less the time that a request takes by
    itself. Medians are compared, so that a single hiccup on either side counts for nothing.

    Args:
        num_outputs: outputs of a call; the guest queues a sum over each before it answers.

    Raises:
        Rejected: the clocks differ by more than the slack.
    """
    beyond_ms = [w - t for w, t in zip(believed.walls_ms, believed.times_ms, strict=True)]
    claimed_ms, spread_ms = median(believed.times_ms), SPREADS * _spread(believed.idles_ms)
    request_ms = WALL_SLACK_MS + OUTPUT_MS * num_outputs
    hidden_ms = median(beyond_ms) - median(believed.idles_ms)
    _check_hidden(claimed_ms, hidden_ms, request_ms + spread_ms)
    if median(beyond_ms) < 0.0:
        message = f"calls said to take {claimed_ms:.3g} ms were answered sooner"
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)
    if not believed.bursts:
        return
    # In one request of many calls, the slack of a request is shared: small lies add up.
    num = believed.bursts[0].num
    slack_ms = max(request_ms / num, CALL_SLACK_MS) + spread_ms / num**0.5
    _check_hidden(claimed_ms, median(b.beyond_ms / b.num for b in believed.bursts), slack_ms)
    in_bursts_ms = median(b.time_ms / b.num for b in believed.bursts)
    if in_bursts_ms > BURST_FACTOR * claimed_ms + BURST_SLACK_MS:
        message = f"calls said to take {claimed_ms:.3g} ms take {in_bursts_ms:.3g} ms in a row"
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)


def clocks_agree(believed: Believed, num_outputs: int) -> bool:
    """Whether `check_wall` accepts the times, and the clocks do not differ the other way either. A
    late idle burst would hide time that the calls hide."""
    try:
        check_wall(believed, num_outputs)
    except Rejected:
        return False
    return min(burst.beyond_ms / burst.num for burst in believed.bursts) > -CALL_SLACK_MS


def _check_hidden(claimed_ms: float, hidden_ms: float, slack_ms: float) -> None:
    if hidden_ms > max(WALL_SHARE * claimed_ms, slack_ms):
        message = (
            f"calls said to take {claimed_ms:.3g} ms took {claimed_ms + hidden_ms:.3g} ms "
            "on the host's clock"
        )
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)


def check_floor(
    times_ms: Sequence[float], outputs: Sequence[torch.Tensor], task: Task, rules: Rules
) -> None:
    """Refuses a call that is faster than the memory traffic and the arithmetic that it needs at
    least."""
    num_bytes, flops_ms = bytes_written(outputs), 0.0
    if (program := plain_product(task)) is not None:
        num_bytes += sum(value.type.num_bytes for value in program.inputs)
        flops_ms = FLOPS_SHARE * (product_ms(program, rules) or 0.0)
    least_ms = max(floor_ms(rules.device_name, num_bytes, 0) or 0.0, flops_ms)
    fastest_ms = min(times_ms)
    if fastest_ms < FLOOR_SHARE * least_ms:
        message = f"{fastest_ms:.3g} ms is below the {least_ms:.3g} ms that physics allows"
        raise Rejected(Stage.TIMING, Code.IMPLAUSIBLE_TIME, message)


def leaves_inputs_unread(
    times_ms: Sequence[float], outputs: Sequence[torch.Tensor], task: Task, rules: Rules
) -> bool:
    """Whether the times are too short to read all inputs. This can be honest: a program's result
    may not depend on all of them."""
    if not isinstance(task, ProgramTask):
        return False
    num_bytes = bytes_written(outputs) + sum(v.type.num_bytes for v in task.program.inputs)
    return min(times_ms) < FLOOR_SHARE * (floor_ms(rules.device_name, num_bytes, 0) or 0.0)


def bytes_written(outputs: Sequence[torch.Tensor]) -> int:
    """Returns the bytes that must have reached the memory when a call ends."""
    num_bytes = sum(output.numel() * output.element_size() for output in outputs)
    return max(num_bytes - CACHED_BYTES, 0)


def plain_product(task: Task) -> Program | None:
    """Returns the program if it is one matrix product, else None. A product needs every input, and
    no rewriting removes its arithmetic. Several operators may need less than the sum of their
    parts."""
    if not isinstance(task, ProgramTask) or len(task.program.calls) != 1:
        return None
    call = task.program.calls[0]
    if call.is_extern or call.operator.family != "matrix":
        return None
    has_scales = any(param.kind is ParameterKind.ATTRIBUTE for param in call.operator.params)
    is_product = call.operator.numerics is Numerics.CONTRACTION and not has_scales
    return task.program if is_product else None


def product_ms(program: Program, rules: Rules) -> float | None:
    """Returns the time of the arithmetic in ms, at the highest rate that can meet the policy. fp32
    to the last bits takes three products of 16-bit parts. None for other types."""
    dtype = program.calls[0].types[0].dtype
    if dtype not in ("float32", "float16", "bfloat16"):
        return None
    parts = 3 if dtype == "float32" and rules.precision is Precision.STRICT else 1
    return floor_ms(rules.device_name, 0, parts * program.flops())


def _spread(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4)
    return high - low
