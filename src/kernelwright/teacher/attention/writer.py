"""Candidates of the attention family: scaled dot products with masks, causal, heads shared."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil, prod

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import DTYPE_BYTES
from kernelwright.programs.program import Program
from kernelwright.teacher.attention.flash import Flash
from kernelwright.teacher.attention.kernels import AttentionTile, flash_candidate
from kernelwright.teacher.contraction.schedules import NUM_SMS, power_of_two
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.ways import Way, is_writable

_PRECISIONS = {
    "strict": ("tf32x3", "ieee"),
    "tf32": ("tf32", "tf32x3"),
    "kernelbench": ("tf32", "tf32x3"),
}
"""Dot precisions of fp32 factors under each policy, the faster first."""

Sides = tuple[int, int, int, int]
"""Queries, keys, num_warps, num_stages."""
_HALF: tuple[Sides, ...] = (
    (128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 2), (64, 32, 4, 3), (16, 64, 4, 3),
    (64, 64, 4, 1),
)  # fmt: skip
_SINGLE: tuple[Sides, ...] = (
    (64, 32, 4, 2), (64, 64, 8, 2), (64, 32, 8, 2), (32, 32, 4, 2), (128, 32, 8, 2),
    (32, 32, 8, 2), (16, 32, 4, 2),
)  # fmt: skip
"""Sides to try first, for 16-bit floats and for fp32; all other sides that fit follow."""
# A thread has at least eight scores, or more warps would have too little work.
_OTHERS: tuple[Sides, ...] = tuple(
    (queries, keys, warps, stages)
    for queries in (128, 64, 32, 16)
    for keys in (128, 64, 32)
    for warps in (4, 8)
    for stages in (1, 2, 3, 4)
    if queries * keys >= 256 * warps
)
_MAX_WIDTH = 256
"""Longest part of a head that one tile holds."""
_SHARED_BYTES = 200 << 10
"""The shared memory that queries and the stages of keys and values may take, of Hopper's 227
KiB."""

_FEW_QUERIES = 64
"""Up to which splits of the keys go first: one block of queries a head, as in decoding."""

_REGISTERS = 64
"""Registers of a thread that sums may take; a thread has 255."""


def classify(program: Program) -> bool:
    """Whether the program has one attention that can be written, with all calls around it."""
    return is_writable(lambda: ways(program, "strict")[0].write())


def ways(program: Program, precision: str) -> list[Way]:
    """Every way to write the program, best first."""
    return [
        Way((tile.precision, tile.splits > 1), partial(_write, program, tile))
        for tile in _tiles(Flash(program), precision)
    ]


def _write(program: Program, tile: AttentionTile) -> Candidate:
    # A new Flash for each candidate, because writing fills its tables of slices.
    return flash_candidate(Flash(program), tile)


def _tiles(flash: Flash, precision: str) -> list[AttentionTile]:
    """Every tile that fits, the best first.

    For each tile size the precisions follow each other, the faster first.

    Raises:
        NotWritable: no tile fits.
    """
    is_half = flash.dtype != "float32"
    fitting = [
        tile
        for sides in dict.fromkeys((*(_HALF if is_half else _SINGLE), *_OTHERS))
        for mode in (("ieee",) if is_half else _PRECISIONS[precision])
        if (tile := _tile(flash, sides, mode)) is not None
    ]
    if not fitting:
        raise NotWritable("heads too wide for a tile")
    split = [one for tile in fitting for one in _split(flash, tile)]
    return [*split, *fitting] if flash.lengths["m"] <= _FEW_QUERIES else [*fitting, *split]


def _split(flash: Flash, tile: AttentionTile) -> Iterator[AttentionTile]:
    """Yields the tile with 32 to 2 splits of the keys, most splits first.

    There are at most two programs a processor, and a split has at least two blocks of keys.
    """
    batches = prod(flash.out.shape[:-2])
    blocks = ceil(flash.lengths["m"] / tile.queries) * ceil(flash.lengths["v"] / tile.values)
    for splits in (32, 16, 8, 4, 2):
        is_long = flash.lengths["n"] >= 2 * splits * tile.keys
        if is_long and batches * blocks * splits <= 2 * NUM_SMS:
            yield replace(tile, splits=splits)


def _tile(flash: Flash, sides: Sides, mode: str) -> AttentionTile | None:
    """The tile of these sides; None if it is unsuitable for the program.

    A tile is unsuitable if it takes too much shared memory. Nor may half of its rows be padding,
    or fp32 values spill registers.
    """
    queries, keys, warps, stages = sides
    # A tile's length is a power of two, and `tl.dot` needs at least 16.
    width, values = (max(16, min(power_of_two(flash.lengths[axis]), _MAX_WIDTH)) for axis in "ev")
    if width < flash.lengths["e"]:
        width = 64  # in chunks, read again for every block of keys
    streamed = keys * (width * flash.num_loads["k"] + values * flash.num_loads["v"])
    # Queries are loaded once; keys and values have a copy in each stage.
    taken = (queries * width + stages * streamed) * DTYPE_BYTES[flash.dtype]
    is_idle = queries > max(16, power_of_two(flash.lengths["m"]))
    # In fp32 values pass through registers, with their parts where they are split, beside the sums.
    is_single = flash.dtype == "float32"
    spills = is_single and max(queries, 2 * keys) * values > _REGISTERS * 32 * warps
    if taken > _SHARED_BYTES or is_idle or spills:
        return None
    return AttentionTile(
        queries=queries,
        keys=keys,
        values=values,
        width=width,
        num_warps=warps,
        num_stages=stages,
        precision=mode,
    )
