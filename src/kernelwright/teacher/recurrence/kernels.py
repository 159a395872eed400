"""The kernels of a recurrent layer: a product for all steps, and a walk along them by one program a
sample; `recurrence.together` has the other walk."""

from kernelwright.core.candidate import KernelPlan
from kernelwright.teacher.recurrence.layers import CELLS, Alone, Layers, RecurrentSchedule
from kernelwright.teacher.source import Kernel, kernel_name


def product(layers: Layers, schedule: RecurrentSchedule) -> Kernel:
    """The kernel that multiplies the inputs of all steps by a layer's weights.

    It reads x (steps * samples, width) and w_ih (gates, width) and writes gates (rows, gates) in
    fp32, with the input's bias.
    """
    block_m, block_n, block_k, warps = schedule.product
    # Offsets of rows have 64 bits, because this wrapper does not check the sizes of tensors.
    mode = f', input_precision="{schedule.precision}"' if layers.dtype == "float32" else ""
    bias = "acc += tl.load(b_ih_ptr + n, mask=n < n_gates, other=0.0).to(tl.float32)[None, :]"
    body = [
        "pid = tl.program_id(0)",
        "num_n = tl.cdiv(n_gates, BLOCK_N)",
        "m = (pid // num_n * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]",
        "n = pid % num_n * BLOCK_N + tl.arange(0, BLOCK_N)",
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for start in range(0, width, BLOCK_K):",
        "    k = start + tl.arange(0, BLOCK_K)",
        "    x_mask = (m < n_rows) & (k < width)[None, :]",
        "    x = tl.load(x_ptr + m * width + k[None, :], mask=x_mask, other=0.0)",
        "    w_mask = (k < width)[:, None] & (n < n_gates)[None, :]",
        "    w = tl.load(w_ih_ptr + n[None, :] * width + k[:, None], mask=w_mask, other=0.0)",
        f"    acc = tl.dot(x, w, acc{mode})",
        *([bias] if layers.has_biases else []),
        "mask = (m < n_rows) & (n < n_gates)[None, :]",
        "tl.store(gates_ptr + m * n_gates + n[None, :], acc, mask=mask)",
    ]
    plan = KernelPlan(
        kernel=kernel_name(layers.program, "product"),
        fuses=(layers.call.op,),
        loop="tiled",
        tiles={"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": warps},
        precision=schedule.precision if layers.dtype == "float32" else "ieee",
        why="what gates take from the input waits for no step: one product for all of them",
    )
    tiles = {"BLOCK_M": str(block_m), "BLOCK_N": str(block_n), "BLOCK_K": str(block_k)}
    return Kernel(
        plan=plan,
        pointers=("x", "w_ih", *(["b_ih"] if layers.has_biases else []), "gates"),
        sizes=("n_rows", "width", "n_gates"),
        body=tuple(body),
        grid=f"(triton.cdiv(n_rows, {block_m}) * triton.cdiv(n_gates, {block_n}),)",
        constants=tiles,
    )


def walk_alone(layers: Layers, walk: Alone) -> Kernel:
    """The kernel that walks all steps of a layer in one direction, one program for each sample."""
    body = [
        "sample = tl.program_id(0)",
        "k = tl.arange(0, BLOCK_H)",
        "inside = k < hidden",
        "n_states = n_samples * hidden",
        "own = sample * hidden + k",
        *_begin(layers),
        "for at in range(0, n_steps):",
        "    # Row of this step and sample; copies of the states that are read and written.",
        "    step = first + at * toward",
        "    row = (step * step_apart + sample * sample_apart).to(tl.int64)",
        "    old, new = at % 2 * n_states, (at + 1) % 2 * n_states",
        "    h = tl.load(h_ptr + old + own, mask=inside, other=0.0)",
        "    for start in range(0, hidden, BLOCK_J):",
        *(f"        {line}" for line in _units(layers)),
        # The next step reads all units of the state, which other threads have stored.
        "    tl.debug_barrier()",
        *_end(layers),
    ]
    plan = KernelPlan(
        kernel=kernel_name(layers.program, "walk"),
        fuses=(layers.call.op,),
        loop="sequential",
        tiles={"WEIGHTS": walk.weights, "num_warps": walk.num_warps},
        precision="ieee",
        why="a step needs all of the one before: a program walks all steps of a sample",
    )
    biases = ["b_hh"] if layers.has_biases else []
    # A block of weights has BLOCK_J x BLOCK_H elements; both are powers of two, as tiles need.
    blocks = f"min(BLOCK_H, max(1, {walk.weights} // BLOCK_H))"
    pointers = [f"{state}{end}" for end in ("_0", "", "_n") for state in layers.kept]
    return Kernel(
        plan=plan,
        pointers=("gates", "w_hh", *biases, *pointers, "y"),
        sizes=("n_steps", "n_samples", "hidden", "step_apart", "sample_apart", "first",
               "toward", "y_width", "y_start"),
        body=tuple(body),
        grid="(n_samples,)",
        constants={"BLOCK_H": "BLOCK_H", "BLOCK_J": blocks},
    )  # fmt: skip


def _begin(layers: Layers) -> list[str]:
    """Lines that copy the initial states to the first of the two copies in memory."""
    # Other threads of the program read these elements: without the barrier they may come too soon.
    lines = []
    for state in layers.kept:
        load = f"tl.load({state}_0_ptr + own, mask=inside, other=0.0)"
        lines.append(f"tl.store({state}_ptr + own, {load}.to(tl.float32), mask=inside)")
    return [*lines, "tl.debug_barrier()"]


def _end(layers: Layers) -> list[str]:
    """Lines that copy the states after the last step to the results h_n and c_n."""
    # Step t writes copy (t + 1) % 2, so the number of steps names the newest copy.
    lines = ["last = n_steps % 2 * n_states"]
    for state in layers.kept:
        load = f"tl.load({state}_ptr + last + own, mask=inside)"
        lines.append(f"tl.store({state}_n_ptr + own, {load}, mask=inside)")
    return lines


def _units(layers: Layers) -> list[str]:
    """Lines that compute the next states of BLOCK_J units, and store them as states and output."""
    lines = [
        "j = start + tl.arange(0, BLOCK_J)",
        "live = j < hidden",
        "mask = live[:, None] & inside[None, :]",
        f"gates = gates_ptr + row * {len(layers.gates)} * hidden",
    ]
    for at, gate in enumerate(layers.gates):
        lines.append(f"unit = {at} * hidden + j")
        weights = "w_hh_ptr + unit[:, None] * hidden + k[None, :]"
        lines.append(f"w = tl.load({weights}, mask=mask, other=0.0).to(tl.float32)")
        lines.append(f"{gate} = tl.sum(w * h[None, :], 1)")
        if layers.has_biases:
            lines.append(f"{gate} += tl.load(b_hh_ptr + unit, mask=live, other=0.0)")
        load = "tl.load(gates + unit, mask=live, other=0.0)"
        # A reset gate takes away from what comes from the state alone.
        is_apart = layers.name == "gru" and gate == "update"
        lines.append(f"{gate}_in = {load}" if is_apart else f"{gate} += {load}")
    state = "sample * hidden + j, mask=live"
    if len(layers.kept) == 2:
        lines.append(f"c = tl.load(c_ptr + old + {state}, other=0.0)")
    if layers.name == "gru":
        lines.append(f"h_own = tl.load(h_ptr + old + {state}, other=0.0)")
    lines += CELLS[layers.call.op][1]
    for name in layers.kept:
        lines.append(f"tl.store({name}_ptr + new + sample * hidden + j, {name}_next, mask=live)")
    return [*lines, "tl.store(y_ptr + row * y_width + y_start + j, h_next, mask=live)"]
