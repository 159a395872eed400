"""Recurrent layers (LSTM, GRU, RNN): a product for all steps, then a kernel that walks them.

What a layer takes from its input does not wait for any step and is one product. The walk is one
launch, in one of two ways. Either programs have a part of the weights each and wait for each other
at every step; or a program owns a sample of the batch and keeps its states in memory that only it
touches. The states have two copies in turn, so that a step reads what the one before wrote while it
writes the other.
"""

from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.recurrence.kernels import product, walk_alone
from kernelwright.teacher.recurrence.layers import Alone, Layers, RecurrentSchedule, Together
from kernelwright.teacher.recurrence.together import fits, size_lines, walk_together
from kernelwright.teacher.source import Kernel, candidate, launch_lines
from kernelwright.teacher.ways import Way, is_writable

_MODES = {"strict": ("tf32x3", "ieee"), "tf32": ("tf32", "tf32x3"), "kernelbench": ("tf32",)}
"""Dot precisions of fp32 factors under each policy, the faster first."""
_TILES = ((64, 64, 32, 4), (128, 64, 32, 8), (32, 64, 32, 4))
"""BLOCK_M, BLOCK_N, BLOCK_K and num_warps of the product."""
_TOGETHER = (
    Together(64, 4), Together(32, 4), Together(64, 8), Together(128, 4), Together(32, 8),
    Together(128, 8),
)  # fmt: skip
"""Walks with waits, in the order of trial; `ways` leaves out walks that do not fit."""
_ALONE = (Alone(4096, 8), Alone(8192, 16), Alone(2048, 4), Alone(8192, 8))
"""A thread has 16 or 32 of a gate's weights at a time."""


def classify(program: Program) -> bool:
    """Whether the program is one recurrent call that has kernels here."""
    return is_writable(lambda: Layers(program))


def ways(program: Program, precision: str) -> list[Way]:
    """Every way to write the program, best first."""
    layers = Layers(program)
    first, *others = _ALONE
    together = [walk for walk in _TOGETHER if fits(layers, walk)]
    # A walk alone comes third, so a short search tries a kernel without cooperative launch too.
    walks: list[Alone | Together] = [*together[:2], first, *together[2:], *others]
    schedules = [
        RecurrentSchedule(product=tiles, precision=mode, walk=walk)
        for mode in (_MODES[precision] if layers.dtype == "float32" else ("ieee",))
        for tiles in _TILES
        for walk in walks
    ]
    return [
        Way((type(one.walk), one.precision), partial(_candidate, layers, one)) for one in schedules
    ]


def _candidate(layers: Layers, schedule: RecurrentSchedule) -> Candidate:
    """The candidate: two kernels, which the wrapper launches for each layer and direction."""
    walk = schedule.walk
    if isinstance(walk, Together):
        # States are fp32 whatever the weights are.
        precision = schedule.precision if layers.dtype == "float32" else "tf32x3"
        walks = walk_together(layers, walk, precision)
        before = ["arrived = arrivals[number]"]
        memory = [*size_lines(layers, walk), _copies(layers, "h_all")]
    else:
        walks, before = walk_alone(layers, walk), []
        memory = ["BLOCK_H = triton.next_power_of_2(hidden)"]
        memory += [_copies(layers, state) for state in layers.kept]
    kernels = [product(layers, schedule), walks]
    names = [value.name for value in layers.program.inputs]
    return candidate(names, _wrapper(layers, kernels, memory, before), kernels)


def _copies(layers: Layers, name: str) -> str:
    """The wrapper's line that allocates the two copies of a state, (2, samples, hidden) in fp32."""
    device = f"{layers.args['input'].name}.device"
    return f"{name} = torch.empty((2, n_samples, hidden), device={device}, dtype=torch.float32)"


def _wrapper(
    layers: Layers, kernels: list[Kernel], memory: list[str], before: list[str]
) -> list[str]:
    """The lines of `fused_operator`'s body.

    Args:
        kernels: the product and the walk.
        memory: lines that allocate the walk's memory, before all layers.
        before: lines before each walk.
    """
    # Layers and directions are a loop in the wrapper: all of them launch the same two kernels.
    x, first_state = layers.args["input"].name, layers.states[0]
    size = 4 if layers.has_biases else 2
    names = "w_ih, w_hh, b_ih, b_hh" if size == 4 else "w_ih, w_hh"
    cells = [layers.weights[i : i + size] for i in range(0, len(layers.weights), size)]
    steps, apart = ("1", "1, n_steps") if layers.args["batch_first"] else ("0", "n_samples, 1")
    y, *finals = layers.call.outputs
    lines = [
        # Kernels compute addresses from sizes alone, without strides.
        *(f"{value.name} = {value.name}.contiguous()" for value in layers.program.inputs),
        "cells = (",
        *(f"    ({', '.join(cell)})," for cell in cells),
        ")",
        f"_, n_samples, hidden = {first_state}.shape",
        f"n_steps, n_rows = {x}.shape[{steps}], {x}.shape[0] * {x}.shape[1]",
        f"step_apart, sample_apart = {apart}",
        f"n_gates, y_width = {len(layers.gates)} * hidden, {layers.directions} * hidden",
        f"gates = torch.empty((n_rows, n_gates), device={x}.device, dtype=torch.float32)",
        *memory,
        *(f"{final} = torch.empty_like({parameter})"
          for final, parameter in zip(finals, layers.states, strict=True)),
        # Each layer reads the result of the layer before; the first layer reads the input.
        f"{y} = {x}",
        f"for number, ({names}) in enumerate(cells):",
        *(f"    {line}" for line in [*_cell(layers, y, finals), *before]),
    ]  # fmt: skip
    for one in kernels:
        lines += launch_lines(one)
    lines.append(f"return [{', '.join(layers.program.outputs)}]")
    return [f"    {line}" for line in lines]


def _cell(layers: Layers, y: str, finals: list[str]) -> list[str]:
    """Lines before the launches of a layer in one direction: its input, output and states."""
    allocation = f"{y} = torch.empty((*x.shape[:-1], y_width), device=x.device, dtype=x.dtype)"
    lines = [f"x = {y}", allocation]
    if layers.directions == 2:
        # Both directions read what the layer before them made.
        lines = ["if number % 2 == 0:", f"    x = {y}", f"    {allocation}"]
        lines += [
            "y_start = number % 2 * hidden",
            "first, toward = (n_steps - 1, -1) if number % 2 else (0, 1)",
        ]
    else:
        lines += ["y_start, first, toward = 0, 0, 1"]
    # An RNN and a GRU have one state, so the loop ends after "h".
    for state, initial, final in zip("hc", layers.states, finals, strict=False):
        lines.append(f"{state}_0, {state}_n = {initial}[number], {final}[number]")
    return [*lines, f"width, y = x.shape[-1], {y}"]
