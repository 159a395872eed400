"""A matrix product whose epilogue ends in a reduction over the columns.

The first kernel reduces each tile over its columns and writes one partial result a row and tile:
the product itself never reaches memory. A small second kernel combines the tiles of a row.
"""

from kernelwright.core.candidate import Candidate
from kernelwright.ops.rules import dim_indices
from kernelwright.programs.program import Call
from kernelwright.teacher.contraction.contraction import Contraction
from kernelwright.teacher.contraction.parts import ProductSchedule
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.reduction.accumulators import COMBINED, functions
from kernelwright.teacher.source import Buffer
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import AxisText, Index, axes_of, factor, times
from kernelwright.teacher.tile.program import TileChoice, finish, out_buffers

_KINDS = {
    "sum": "sum", "mean": "sum", "amax": "amax", "max": "amax", "amin": "amin", "min": "amin",
    "logsumexp": "logsumexp",
}  # fmt: skip
"""Reduction operator -> how tiles combine."""
_NEUTRAL = {"sum": "0.0", "amax": 'float("-inf")', "amin": 'float("inf")'}
_COMBINE = TileChoice(tiles={"BLOCK_M": 32, "num_warps": 4}, why="few bytes: rows x tiles")


def reduces_rows(product: Contraction) -> bool:
    """Whether a call after the product is a reduction that this module has a form for."""
    return any(call.op in _KINDS for call in product.after())


def row_reduce(product: Contraction, schedule: ProductSchedule) -> Candidate:
    """Two kernels: tiles reduced over their columns, then rows combined over tiles.

    The partial results are in fp32 and have the shape (tiles of a row, rows).

    Raises:
        NotWritable: the reduction is not over exactly the columns, or another reduction follows.
    """
    program, view = product.program, product.view()
    head, reduction, tail = _cut(product)
    value, kind = next(reduction.refs()), _KINDS[reduction.op]
    num_rows = times(*(symbol for symbol in ("B", "M") if symbol.lower() in product.lengths))

    body = product.body(view)
    product.epilogue(body, head)
    if value not in body.path:
        raise NotWritable("a reduction of something else than the product")
    reduced = _reduced_index(reduction, body.path[value])
    # The first kernel alone has the tile of the product: outputs of that shape are stored there.
    early = tuple(name for name in program.outputs if name in body.path)
    place = "pid_b * M + offs_m" if "b" in view else "offs_m"
    lines = [
        *product.accumulate(schedule),
        "# Epilogue on the accumulator, still in registers.",
        *finish(body, early),
        "# Reduce the tile over its columns: one partial result a row.",
        f"part = {place} + pid_n * {factor(num_rows)}",
        *_partial_lines(kind, body.variable(value)),
    ]
    calls = behind(program, (*early, *reduction.outputs))
    # T depends on the chosen tile, so no shape of a tensor has this size.
    counted = {"T": f"triton.cdiv(N, {schedule.block_n})"}
    partials = product.kernel(
        schedule.choice, "matmul_row_reduce", calls, lines, f"({product.num_tiles()},)",
        suffix="partial", counted=counted, computed=product.constants,
    )  # fmt: skip

    # The reduction has removed the columns, so the tile is a vector of rows.
    rows = AxisText("offs_m", "", "M")
    end = product.body({"m": rows} | ({"b": view["b"]} if "b" in view else {}))
    end.place(reduction.outputs[0], reduced, reduction.outputs[0])
    _follow_tail(end, tail)
    late = tuple(name for name in program.outputs if name not in early)
    column = f"({place})[:, None]" if "b" in view else "offs_m[:, None]"
    lines = [
        *_row_position("b" in view),
        "tiles = tl.arange(0, BLOCK_T)",
        "known = (offs_m[:, None] < M) & (tiles[None, :] < T)",
        f"part = {column} + tiles[None, :] * {factor(num_rows)}",
        *_combine_lines(kind, reduction),
        *finish(end, late),
    ]
    calls = behind(program, late, until=reduction)
    grid = f"({'B * ' if 'b' in view else ''}triton.cdiv(M, BLOCK_M),)"
    # A program loads all tiles of a row at once, and `tl.arange` needs a power of two.
    combine = product.kernel(
        _COMBINE, "one_pass", calls, lines, grid,
        suffix="combine", counted=counted, computed={"BLOCK_T": "triton.next_power_of_2(T)"},
    )  # fmt: skip
    # Rows are neighbours in the buffers, so a program's loads and stores are contiguous.
    names = ("peak", "mass") if kind == "logsumexp" else ("partial",)
    buffers = [Buffer(name=name, sizes=("T", num_rows)) for name in names]
    buffers += [*out_buffers(body, early), *out_buffers(end, late)]
    extra = "".join(functions(lines))
    return product.assembled([partials, combine], buffers, counted=counted, extra=extra)


def _row_position(is_batched: bool) -> list[str]:
    if not is_batched:
        return ["offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)"]
    return [
        "num_m = tl.cdiv(M, BLOCK_M)",
        "pid_b = tl.program_id(0) // num_m",
        "offs_m = tl.program_id(0) % num_m * BLOCK_M + tl.arange(0, BLOCK_M)",
    ]


def _cut(product: Contraction) -> tuple[tuple[Call, ...], Call, tuple[Call, ...]]:
    """The calls that do not need the reduction, the reduction, and those that do."""
    calls = product.after()
    reduction = next(call for call in calls if call.op in _KINDS)
    late = {reduction.outputs[0]}
    head, tail = [], []
    for call in calls:
        if call is reduction:
            continue
        if late.isdisjoint(call.refs()):
            head.append(call)
        else:
            tail.append(call)
            late.update(call.outputs)
    return tuple(head), reduction, tuple(tail)


def _reduced_index(reduction: Call, index: Index) -> Index:
    """Index of the reduction's result, where `index` is that of its operand.

    Raises:
        NotWritable: the reduction is not over exactly the columns, or is in another dtype.
    """
    # PyTorch casts the operand before such a sum. The partial results here are fp32.
    if reduction.op in ("sum", "mean") and reduction.arg("dtype") is not None:
        raise NotWritable("a reduction in another dtype")
    gone = dim_indices(reduction.arg("dim"), len(index))
    over = axes_of(tuple(index[dim] for dim in gone))
    left = _without(index, gone)
    # A view may have split the columns: a reduction over a part of them leaves "n" in the rest.
    if over != {"n"} or "n" in axes_of(left):
        raise NotWritable("the reduction is not over exactly the columns")
    if reduction.arg("keepdim"):
        return tuple(() if i in gone else dim for i, dim in enumerate(index))
    return left


def _follow_tail(body: TileBody, tail: tuple[Call, ...]) -> None:
    """Write into `body` the calls after the reduction.

    A further reduction over dimensions of one element changes nothing and is a view.

    Raises:
        NotWritable: a further reduction is over more than one element.
    """
    for call in tail:
        if call.op not in _KINDS:
            body.follow([call])
            continue
        [value] = call.refs()
        index = body.path[value]
        gone = dim_indices(call.arg("dim"), len(index))
        if any(index[dim] for dim in gone):
            raise NotWritable("a second reduction")
        left = index if call.arg("keepdim") else _without(index, gone)
        body.place(call.outputs[0], left, body.variable(value))


def _without(index: Index, gone: tuple[int, ...]) -> Index:
    return tuple(dim for i, dim in enumerate(index) if i not in gone)


def _reduced(kind: str, text: str) -> str:
    """Text that reduces a tile over its columns."""
    if kind == "sum":
        return f"tl.sum({text}, axis=1)"
    return f"tl.reduce({text}, combine_fn={COMBINED[kind]}, axis=1)"


def _partial_lines(kind: str, text: str) -> list[str]:
    """Lines that reduce the tile `text` over its columns and store one result a row."""
    # Columns past the end wrapped around to real values: the neutral element replaces these.
    mask = "mask=offs_m < M"
    if kind != "logsumexp":
        return [
            f"valid = tl.where(offs_n[None, :] < N, {text}, {_NEUTRAL[kind]})",
            f"tl.store(partial_ptr + part, {_reduced(kind, 'valid')}, {mask})",
        ]
    return [
        f'valid = tl.where(offs_n[None, :] < N, {text}, float("-inf"))',
        "peak = tl.max(valid, axis=1)",
        "# An infinite peak would turn the differences into NaN.",
        'base = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)',
        "mass = tl.sum(tl.exp(valid - base[:, None]), axis=1)",
        f"tl.store(peak_ptr + part, peak, {mask})",
        f"tl.store(mass_ptr + part, mass, {mask})",
    ]


def _combine_lines(kind: str, reduction: Call) -> list[str]:
    """Lines that load the partial results of all tiles of a row and reduce them."""
    result = reduction.outputs[0]
    if kind != "logsumexp":
        # `_reduced_index` has checked that the reduction is over exactly the N columns.
        mean = " / N" if reduction.op == "mean" else ""
        return [
            f"parts = tl.load(partial_ptr + part, mask=known, other={_NEUTRAL[kind]})",
            f"{result} = {_reduced(kind, 'parts')}{mean}",
        ]
    return [
        'peaks = tl.load(peak_ptr + part, mask=known, other=float("-inf"))',
        "masses = tl.load(mass_ptr + part, mask=known, other=0.0)",
        "peak = tl.max(peaks, axis=1)",
        'base = tl.where(tl.abs(peak) == float("inf"), 0.0, peak)',
        "mass = tl.sum(masses * tl.exp(peaks - base[:, None]), axis=1)",
        f"{result} = base + tl.log(mass)",
    ]
