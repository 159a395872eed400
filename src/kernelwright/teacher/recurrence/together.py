"""The walk of a recurrent layer by programs that wait for each other at every step.

Each program keeps the weights of a few units of the state in shared memory for all steps. Each step
updates these units for a group of samples. Then all programs of the group read the states of the
others. So the programs have to run at once, and the launch is cooperative. An interpreter runs one
program after the other: there, one program for each group has all units.
"""

from kernelwright.core.candidate import KernelPlan
from kernelwright.teacher.contraction.schedules import power_of_two
from kernelwright.teacher.recurrence.layers import CELLS, Layers, Together
from kernelwright.teacher.source import Kernel, kernel_name

_BLOCK_S = 16
"""Samples of a group: the rows of the smallest product of tensor cores."""
_MIN_ROWS = 16
"""The least rows of weights that a program has: the columns of the product."""
_PLACE = 4
"""Distance of two counters in int32: 16 bytes, because Triton specialises aligned pointers."""
_WEIGHTS_A_WARP = 2048
"""Elements that a warp multiplies in a step with next to no spilling. In tf32x3 they take 16 KiB of
shared memory, so that eight warps leave room for the states."""


def fits(layers: Layers, walk: Together) -> bool:
    """Whether the programs can run at once and each has room for its weights.

    Programs that wait for each other must all run, or the launch fails.
    """
    _, n_samples, hidden = layers.program.type_of(layers.states[0]).shape
    n_groups = -(-n_samples // _BLOCK_S)
    if n_groups > walk.programs:
        return False
    # The wrapper's own arithmetic (`size_lines`): the wrapper decides the launch.
    needed = power_of_two(-(-hidden // (walk.programs // n_groups)))
    rows = max(_MIN_ROWS, _slots(layers) * needed)
    # A warp takes at least 16 of the summed axis, which pads short states.
    longest = max(power_of_two(hidden), 16 * walk.num_warps)
    return rows * longest <= _WEIGHTS_A_WARP * walk.num_warps


def _slots(layers: Layers) -> int:
    """Rows of weights for each unit: 1 or 4, as a tile's length has to be a power of two."""
    return 1 if len(layers.gates) == 1 else 4


def size_lines(layers: Layers, walk: Together) -> list[str]:
    """Wrapper lines before the layers: units of a program, BLOCK_K, and the arrival counters."""
    x, warps = layers.args["input"].name, walk.num_warps
    needed = "triton.next_power_of_2(triton.cdiv(hidden, n_programs))"
    counters = f"(len(cells), n_groups, {_PLACE})"
    return [
        f"n_groups = triton.cdiv(n_samples, {_BLOCK_S})",
        "# Programs of a group wait for each other, which an interpreter's cannot: it has one.",
        f'n_programs = 1 if {x}.device.type == "cpu" else max(1, {walk.programs} // n_groups)',
        f"UNITS = max({_MIN_ROWS // _slots(layers)}, {needed})",
        f"BLOCK_K = max(16, triton.next_power_of_2(hidden) // {warps})",
        f"arrivals = torch.zeros({counters}, device={x}.device, dtype=torch.int32)",
    ]


def walk_together(layers: Layers, walk: Together, precision: str) -> Kernel:
    """The kernel that walks all steps of a layer in one direction, with a cooperative launch."""
    slots = _slots(layers)
    body = [
        *_own_units(layers),
        *_own_weights(layers, slots),
        "for at in range(0, n_steps):",
        *(f"    {line}" for line in _step(layers, slots, precision)),
        *(f"tl.store({state}_n_ptr + own, {state}, mask=inside)" for state in layers.kept),
    ]
    plan = KernelPlan(
        kernel=kernel_name(layers.program, "walk"),
        fuses=(layers.call.op,),
        loop="sequential",
        tiles={"PROGRAMS": walk.programs, "BLOCK_S": _BLOCK_S, "num_warps": walk.num_warps},
        precision=precision,
        why="programs have the weights of a few units each and wait for each other at every step",
    )
    biases = ["b_hh"] if layers.has_biases else []
    pointers = [*(f"{state}_0" for state in layers.kept), "h_all"]
    results = [*(f"{state}_n" for state in layers.kept), "y", "arrived"]
    return Kernel(
        plan=plan,
        pointers=("gates", "w_hh", *biases, *pointers, *results),
        sizes=("n_steps", "n_samples", "hidden", "step_apart", "sample_apart", "first",
               "toward", "y_width", "y_start"),
        body=tuple(body),
        grid="(triton.cdiv(hidden, UNITS), n_groups)",
        constants={"BLOCK_S": str(_BLOCK_S), "UNITS": "UNITS", "BLOCK_K": "BLOCK_K",
                   "SPLIT": str(walk.num_warps)},
        is_cooperative=True,
    )  # fmt: skip


def _own_units(layers: Layers) -> list[str]:
    """Lines that compute the program's samples and units, and load states (BLOCK_S, UNITS)."""
    load = "tl.load({0}_0_ptr + own, mask=inside, other=0.0).to(tl.float32)"
    return [
        "part, group = tl.program_id(0), tl.program_id(1)",
        "s = group * BLOCK_S + tl.arange(0, BLOCK_S)",
        "j = part * UNITS + tl.arange(0, UNITS)",
        "own = s[:, None] * hidden + j[None, :]",
        "inside = (s < n_samples)[:, None] & (j < hidden)[None, :]",
        *(f"{state} = {load.format(state)}" for state in layers.kept),
    ]


def _own_weights(layers: Layers, slots: int) -> list[str]:
    """Lines that load the weights of the program's units as `w`, (SPLIT, BLOCK_K, rows).

    The gates of a unit are neighbouring rows; k is cut into SPLIT parts, as many as warps.
    """
    n_gates = len(layers.gates)
    if slots == 1:
        rows = ["row, live = j, j < hidden"]
    else:
        rows = [
            f"slot = tl.arange(0, {slots} * UNITS)",
            f"unit, gate = part * UNITS + slot // {slots}, slot % {slots}",
            "row = gate * hidden + unit",
            f"live = (unit < hidden) & (gate < {n_gates})" if n_gates < slots else
            "live = unit < hidden",
        ]  # fmt: skip
    bias = "bias = tl.load(b_hh_ptr + row, mask=live, other=0.0).to(tl.float32)"
    return [
        *rows,
        "k = tl.arange(0, SPLIT)[:, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, :]",
        "w_mask = (k < hidden)[:, :, None] & live[None, None, :]",
        "w_at = row[None, None, :] * hidden + k[:, :, None]",
        "w = tl.load(w_hh_ptr + w_at, mask=w_mask, other=0.0).to(tl.float32)",
        *([bias] if layers.has_biases else []),
        "x_mask = (s < n_samples)[:, None] & live[None, :]",
        "h_at = s[None, :, None] * hidden + k[:, None, :]",
        "h_mask = (s < n_samples)[None, :, None] & (k < hidden)[:, None, :]",
    ]


def _step(layers: Layers, slots: int, precision: str) -> list[str]:
    """Lines of one step: publish the own states, wait for the group, compute the next states."""
    # Two copies suffice. A program writes a copy again two steps later, after the wait of the step
    # between; to arrive there, all programs of the group have ended their reads of the copy.
    n_gates = len(layers.gates)
    bias = " + bias[None, :]" if layers.has_biases else ""

    is_apart = layers.name == "gru"  # the update's reset gate takes from the state alone
    taken = "tl.where((gate == 2)[None, :], 0.0, x)" if is_apart else "x"
    return [
        "# Copies of the states are read and written in turn.",
        "old_ptr = h_all_ptr + at % 2 * n_samples * hidden",
        "tl.store(old_ptr + own, h, mask=inside)",
        # One thread signals: the barrier makes it wait for the stores of all threads.
        "tl.debug_barrier()",
        f'tl.atomic_add(arrived_ptr + {_PLACE} * group, 1, sem="release")',
        # The input's part of the gates needs no other program: its load overlaps with the wait.
        "line = ((first + at * toward) * step_apart + s * sample_apart).to(tl.int64)[:, None]",
        f"x_at = line * {n_gates} * hidden + row[None, :]",
        "x = tl.load(gates_ptr + x_at, mask=x_mask, other=0.0)",
        # By then every program of the group has signalled once in each step so far.
        "goal = (at + 1) * tl.num_programs(0)",
        # An atomic addition of 0 reads the counter itself; a plain load could return an old count.
        f'while tl.atomic_add(arrived_ptr + {_PLACE} * group, 0, sem="acquire") < goal:',
        "    pass",
        "h_old = tl.load(old_ptr + h_at, mask=h_mask, other=0.0)",
        f'dots = tl.sum(tl.dot(h_old, w, input_precision="{precision}"), 0){bias} + {taken}',
        *_gates(layers, slots),
        *_next_states(layers),
        "tl.store(y_ptr + line * y_width + y_start + j[None, :], h, mask=inside)",
    ]


def _gates(layers: Layers, slots: int) -> list[str]:
    """Lines that take the gates apart, each (BLOCK_S, UNITS).

    The four slots of a unit are neighbours. Two `tl.split`, each along a last dimension of 2,
    separate them.
    """
    if slots == 1:
        return [f"{layers.gates[0]} = dots"]
    # A GRU has three gates, so its fourth slot is padding.
    names = [*layers.gates, "_"][:slots]
    # Slot 2 * i + j lies at (i, j): the first split separates j, the second separates i.
    cut = "tl.split(tl.reshape({}, (BLOCK_S, UNITS, 2, 2)))"
    lines = [
        f"even, odd = {cut.format('dots')}",
        f"{names[0]}, {names[2]} = tl.split(even)",
        f"{names[1]}, {names[3]} = tl.split(odd)",
    ]
    if layers.name == "gru":
        lines += [f"even, _ = {cut.format('x')}", "_, update_in = tl.split(even)"]
    return lines


def _next_states(layers: Layers) -> list[str]:
    """Lines that compute the next states in registers: h, and for an LSTM also c."""
    # The own state is in registers here, so no line loads `h_own`.
    lines = [line.replace("h_own", "h") for line in CELLS[layers.call.op][1]]
    return [*lines, *(f"{state} = {state}_next" for state in layers.kept)]
