"""Parts of matrix product kernels: which tile a program owns, the loop over K, the epilogue."""

from dataclasses import dataclass

from kernelwright.core.candidate import KernelPlan
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.expressions import NotWritable, literal
from kernelwright.teacher.source import kernel_name
from kernelwright.teacher.tile_body import TileBody
from kernelwright.teacher.tile_contraction import Contraction
from kernelwright.teacher.tile_index import (
    AxisText,
    View,
    align,
    axes_of,
    memory_order,
    offset,
    parts,
    placed,
    times,
)
from kernelwright.teacher.tile_views import Side, sources


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int = 3
    group_m: int = 1
    """Rows of tiles walked together; 1 walks the tiles column by column."""
    split_k: int = 1
    precision: str = "ieee"
    why: str = ""

    @property
    def tiles(self) -> dict[str, int]:
        """What the plan shows and the launch passes."""
        found = {"BLOCK_M": self.block_m, "BLOCK_N": self.block_n, "BLOCK_K": self.block_k}
        if self.group_m > 1:
            found["GROUP_M"] = self.group_m
        if self.split_k > 1:
            found["SPLIT_K"] = self.split_k
        return found | {"num_warps": self.num_warps, "num_stages": self.num_stages}


def plan(
    product: Contraction,
    schedule: Schedule,
    loop: str,
    calls: tuple[Call, ...],
    suffix: str = "",
    tiles: dict[str, int] | None = None,
) -> KernelPlan:
    """Plan of one kernel; its name says what it starts with."""
    return KernelPlan(
        kernel=kernel_name([call.op for call in product.program.calls], suffix),
        fuses=tuple(call.op for call in calls),
        loop=loop,
        tiles=schedule.tiles if tiles is None else tiles,
        precision=schedule.precision,
        why=schedule.why,
    )


def tile_view(product: Contraction) -> View:
    """Axes of an output tile."""
    view = {
        "m": AxisText("offs_m", "[:, None]", "M"),
        "n": AxisText("offs_n", "[None, :]", "N"),
    }
    return view | ({"b": AxisText("pid_b")} if "b" in product.lengths else {})


def tile_grid(product: Contraction, second: str = "") -> str:
    """One program a tile, times `second` in another dimension."""
    batches = "B * " if "b" in product.lengths else ""
    return f"({batches}triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N), {second})".replace(
        ", )", ",)"
    )


def position(product: Contraction, schedule: Schedule) -> list[str]:
    """Lines that find the program's tile: offs_m, offs_n and, in batches, pid_b."""
    lines = [
        "pid = tl.program_id(0)",
        "num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)",
    ]
    if "b" in product.lengths:
        lines += [
            wide(product, "pid_b", "pid // (num_m * num_n)"),
            "pid = pid % (num_m * num_n)",
        ]
    if schedule.group_m > 1:
        lines += [
            "# Walk GROUP_M rows of tiles together: neighbours share operands in L2.",
            "first_m = pid // (GROUP_M * num_n) * GROUP_M",
            "group_rows = tl.minimum(num_m - first_m, GROUP_M)",
            "pid_m = first_m + pid % (GROUP_M * num_n) % group_rows",
            "pid_n = pid % (GROUP_M * num_n) // group_rows",
        ]
    else:
        lines += ["pid_m = pid % num_m", "pid_n = pid // num_m"]
    return [
        *lines,
        wide(product, "offs_m", "pid_m * BLOCK_M + tl.arange(0, BLOCK_M)"),
        wide(product, "offs_n", "pid_n * BLOCK_N + tl.arange(0, BLOCK_N)"),
    ]


def wide(product: Contraction, name: str, text: str) -> str:
    """Assignment of positions, in 64 bits where a tensor needs them."""
    return f"{name} = ({text}).to(tl.int64)" if product.is_wide else f"{name} = {text}"


def accumulate(product: Contraction, schedule: Schedule) -> list[str]:
    """Lines that leave the tile of the product, in fp32, in `acc`."""
    first = "tl.program_id(1) * BLOCK_K + " if schedule.split_k > 1 else ""
    step = "BLOCK_K * SPLIT_K" if schedule.split_k > 1 else "BLOCK_K"
    lines = [
        *position(product, schedule),
        wide(product, "offs_k", f"{first}tl.arange(0, BLOCK_K)"),
        "# Rows and columns past the end wrap around; the stores leave them out.",
        "rows = offs_m % M",
        "cols = offs_n % N",
    ]
    batch = {"b": AxisText("pid_b")} if "b" in product.lengths else {}
    a_view = batch | {"m": AxisText("rows", "[:, None]"), "k": AxisText("ks", "[None, :]", "K")}
    b_view = batch | {"k": AxisText("ks", "[:, None]", "K"), "n": AxisText("cols", "[None, :]")}
    factors = [
        _Factor(product, product.lhs, "a", a_view, step),
        _Factor(product, product.rhs, "b", b_view, step),
    ]
    mode = f', input_precision="{schedule.precision}"' if product.dtype == "float32" else ""
    loop = [line for one in factors for line in one.load]
    needs_ks = any("ks" in line for line in loop)
    tile_axes = ("b", "m", "n")
    return [
        *lines,
        *dict.fromkeys([*parts(a_view, tile_axes), *parts(b_view, tile_axes)]),
        *(line for one in factors for line in one.start),
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        f"for k in range(0, K, {step}):",
        *(["    ks = k + offs_k"] if needs_ks else []),
        *(f"    {line}" for line in dict.fromkeys([*parts(a_view, "k"), *parts(b_view, "k")])),
        *(f"    {line}" for line in loop),
        f"    acc = tl.dot(a, b, acc{mode})",
        *(f"    {line}" for one in factors for line in one.advance),
    ]


class _Factor:
    """Lines that load one factor's tile of a step in K into the variable `name`."""

    def __init__(self, product: Contraction, side: Side, name: str, view: View, step: str) -> None:
        self.start: list[str] = []
        self.advance: list[str] = []
        other = "m" if name == "a" else "n"
        inputs = list(sources(product.program, side.value, side.index))
        if not all(any(axis in axes_of(index) for _, index in inputs) for axis in ("k", other)):
            raise NotWritable("a factor that is a broadcast vector")
        suffix = view["k"].suffix
        if is_plain(product, side):
            [(value, index)] = inputs
            made = product.program.type_of(value)
            [stride] = [s for t, s in placed(memory_order(index, made.layout)) if t.axis == "k"]
            start_view = {**view, "k": AxisText("offs_k", suffix)}
            self.start = [f"{name}_ptrs = {value}_ptr + {offset(index, made, start_view)}"]
            self.load = [f"{name} = tl.load({name}_ptrs, mask=offs_k{suffix} < K - k, other=0)"]
            self.advance = [f"{name}_ptrs += {times(step, stride)}"]
            return
        body = TileBody(product.program, view, loop="k", tag=f"_{name}")
        text = body.value(side.value, side.index)
        self.start = body.before
        # What fused code makes of the zeros past K need not be zero.
        padded = f"tl.where(ks{suffix} < K, {text}, 0.0)"
        cast = "" if product.dtype == "float32" else f".to(tl.{product.dtype})"
        self.load = [*body.lines, f"{name} = {padded}{cast}"]


def is_plain(product: Contraction, side: Side) -> bool:
    """The factor is an input, seen through views, in which a step along K is a fixed stride."""
    inputs = list(sources(product.program, side.value, side.index))
    if len(inputs) != 1 or not product.only_views(side.value):
        return False
    [(value, index)] = inputs
    terms = placed(memory_order(index, product.program.type_of(value).layout))
    along = [term for term, _ in terms if term.axis == "k"]
    return len(along) == 1 and along[0].inner == "1" and along[0].is_outer


def after(product: Contraction) -> tuple[Call, ...]:
    """The calls that follow the product in the program."""
    return product.program.calls[product.program.calls.index(product.call) + 1 :]


def epilogue(product: Contraction, body: TileBody, calls: tuple[Call, ...]) -> None:
    """Write into `body` the product's own bias, then `calls`, on the accumulator `acc`."""
    call = product.call
    name, index = call.outputs[0], product.index
    bias = call.arg("bias") if call.op == "linear" else None
    if call.op in ("addmm", "baddbmm"):
        bias = call.arg("input")
    if not isinstance(bias, Ref):
        body.place(name, index, "acc")
    else:
        operand = body.value(bias.name, align(index, product.program.type_of(bias.name).shape))
        alpha, beta = ("1", "1") if call.op == "linear" else _scales(call)
        scaled = "acc" if alpha == "1" else f"{alpha} * acc"
        added = operand if beta == "1" else f"{beta} * {operand}"
        body.lines.append(f"{name} = {scaled} + {added}")
        body.place(name, index, name)
    body.follow(calls)


def _scales(call: Call) -> tuple[str, str]:
    return literal(call.arg("alpha")), literal(call.arg("beta"))
