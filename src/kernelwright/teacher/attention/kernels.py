"""The kernels of an attention at one tile: the walk over keys, and what merges its splits."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.attention.flash import Flash
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.source import Buffer, Kernel
from kernelwright.teacher.tile.index import factor, times
from kernelwright.teacher.tile.program import TileChoice, out_buffers

_START = (
    'row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)',
    "row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)",
    "acc = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)",
)
"""The state of a row without keys so far."""
_ONLINE = (
    "highest = tl.maximum(row_max, tl.max(scores, 1))",
    "# A row without a key so far has no largest score: nothing is subtracted there.",
    'base = tl.where(highest == float("-inf"), 0.0, highest)',
    "weights = tl.exp(scores - base[:, None])",
    "shrink = tl.exp(row_max - base)",
    "row_sum = row_sum * shrink + tl.sum(weights, 1)",
    "row_max = highest",
)
"""Scores to weights, with what was summed before brought to the same base."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionTile:
    """The tile of queries and values that a program owns, and the blocks of keys that it walks."""

    queries: int
    keys: int
    values: int
    """Columns of the result."""
    width: int
    """The width of queries and keys that are loaded at a time; the whole width where BLOCK_E is as
    long."""
    num_warps: int
    num_stages: int
    precision: str = "ieee"
    splits: int = 1
    """Programs that share the keys of a row; a second kernel merges what they found."""


def flash_candidate(flash: Flash, tile: AttentionTile) -> Candidate:
    """The candidate: one kernel, or for split keys a kernel of partial results and a merge.

    Raises:
        NotWritable: a factor or the mask has no kernel text.
    """
    kernels, buffers = _Kernels(flash, tile).made()
    buffers += out_buffers(flash.epilogue, flash.outputs)
    return flash.assembled(kernels, buffers)


class _Kernels:
    """The kernels of one attention at one tile."""

    def __init__(self, flash: Flash, tile: AttentionTile) -> None:
        self._flash, self._tile = flash, tile
        self._symbols = flash.symbols
        self._is_held = tile.width >= flash.lengths["e"]
        """Queries stay in registers; else they come again in chunks for each block of keys."""
        is_single = flash.dtype == "float32"
        self._mode = f', input_precision="{tile.precision}"' if is_single else ""

    def made(self) -> tuple[list[Kernel], list[Buffer]]:
        """The kernels in launch order, and the buffers between them."""
        flash, splits = self._flash, self._tile.splits
        loop = "flash" if self._is_held else "flash_chunked"
        # All of the width at any size: the wrapper knows how long it is.
        # `tl.dot` needs factors of at least 16 along each axis.
        whole = {"BLOCK_E": f"max(16, triton.next_power_of_2({self._symbols['e']}))"}
        program, kept = flash.program, whole if self._is_held else {}
        finished = self._finished()  # first: it asks for slices of axes
        if splits == 1:
            lines = [*self._weighted("0", self._end), *finished]
            why = "scores stay on chip: keys and values are read once a block of queries"
            grid, choice = f"({self._grid},)", self._choice(why)
            return [flash.kernel(choice, loop, program.calls, lines, grid, computed=kept)], []
        choice = self._choice("few blocks of queries: programs share the keys of each")
        calls = behind(program, flash.call.outputs)
        lines = [
            *self._weighted("begin", "end"),
            *_split_stores(self._row("split"), self._symbols),
        ]
        parts = flash.kernel(
            choice, f"{loop}_split", calls, lines, f"({self._grid}, SPLIT_N)",
            suffix="split", computed=kept,
        )  # fmt: skip
        choice = self._choice("what the splits of a row found")
        calls = behind(program, program.outputs, until=flash.call)
        lines = [*self._place(), *_merged(self._row("split"), self._symbols), *finished]
        grid = f"({self._grid},)"
        merge = flash.kernel(choice, "flash_merge", calls, lines, grid, suffix="merge")
        return [parts, merge], _split_buffers(splits, flash.batches, self._symbols)

    def _choice(self, why: str) -> TileChoice:
        tile = self._tile
        tiles = {"BLOCK_M": tile.queries, "BLOCK_N": tile.keys, "BLOCK_V": tile.values}
        tiles |= {} if self._is_held else {"BLOCK_E": tile.width}
        tiles |= {"SPLIT_N": tile.splits} if tile.splits > 1 else {}
        tiles |= {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
        return TileChoice(tiles=tiles, why=why, precision=tile.precision)

    @property
    def _grid(self) -> str:
        """Text of the number of tiles: batches x blocks of queries x blocks of values."""
        rows, columns = self._symbols["m"], self._symbols["v"]
        batches = f"{self._flash.batches} * " if any(self._flash.batch) else ""
        return f"{batches}triton.cdiv({rows}, BLOCK_M) * triton.cdiv({columns}, BLOCK_V)"

    @property
    def _end(self) -> str:
        """Text of where the keys of a block of queries end."""
        # Under a causal mask, keys after the last query of the block weigh nothing.
        keys = self._symbols["n"]
        is_causal = self._flash.call.arg("is_causal")
        return f"tl.minimum({keys}, (pid_m + 1) * BLOCK_M)" if is_causal else keys

    def _row(self, split: str) -> str:
        """Text of the row number in the buffers (splits, batches, queries) of partial results."""
        rows = self._symbols["m"]
        if not any(self._flash.batch):
            return f"{split} * {rows} + offs_m"
        return f"({split} * {factor(self._flash.batches)} + pid_b) * {rows} + offs_m"

    def _weighted(self, begin: str, end: str) -> list[str]:
        """Lines that walk keys and values from `begin` to `end`.

        They leave the weighted values in `acc`, (BLOCK_M, BLOCK_V), with `row_max` and `row_sum`.
        """
        flash, keys = self._flash, self._symbols["n"]
        # Loads come first: they ask for the slices whose lines `flash.slices` returns below.
        query = flash.load("q")
        scores = self._scores([] if self._is_held else query)
        value = flash.load("v")
        # `tl.dot` needs both factors in one dtype; weights are computed in fp32.
        weights = "weights" if flash.dtype == "float32" else f"weights.to(tl.{flash.dtype})"
        loop = [
            *scores,
            *flash.masked(),
            *_ONLINE,
            *value,
            f"acc = tl.dot({weights}, v, acc * shrink[:, None]{self._mode})",
        ]
        preloaded = ["offs_e = tl.arange(0, BLOCK_E)", *flash.slices("e"), *query]
        return [
            *self._place(),
            *(_split_bounds(keys, self._end) if self._tile.splits > 1 else []),
            *(preloaded if self._is_held else []),
            *_START,
            f"for start in range({begin}, {end}, BLOCK_N):",
            "    offs_n = start + tl.arange(0, BLOCK_N)",
            *(f"    {line}" for line in [*flash.slices("n"), *loop]),
        ]

    def _finished(self) -> list[str]:
        """Lines that divide the sums, compute the calls that follow, and store the outputs."""
        epilogue = self._flash.epilogue
        stores = [epilogue.store(f"{name}_ptr", name) for name in self._flash.outputs]
        return [
            "# Rows without any key are zero.",
            "result = acc / tl.where(row_sum == 0, 1.0, row_sum)[:, None]",
            *epilogue.lines,
            *stores,
        ]

    def _scores(self, query: list[str]) -> list[str]:
        """Lines that compute a block of scores, (BLOCK_M, BLOCK_N).

        Args:
            query: lines that load queries, if the width is walked in chunks; else empty.
        """
        key, scale = self._flash.load("k"), self._flash.scale
        if not query:
            return [*key, f"scores = tl.dot(q, k{self._mode}) * {scale}"]
        chunk = [
            "offs_e = chunk + tl.arange(0, BLOCK_E)",
            *self._flash.slices("e"),
            *query,
            *key,
            f"scores = tl.dot(q, k, scores{self._mode})",
        ]
        return [
            "scores = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for chunk in range(0, {self._symbols['e']}, BLOCK_E):",
            *(f"    {line}" for line in chunk),
            f"scores = scores * {scale}",
        ]

    def _place(self) -> list[str]:
        """Lines that compute the program's tile: pid_m, pid_v, pid_b, offs_m and offs_v."""
        flash, rows, columns = self._flash, self._symbols["m"], self._symbols["v"]
        batch = "pid // (num_m * num_v)"
        if flash.is_wide:
            batch = f"({batch}).to(tl.int64)"
        return [
            "pid = tl.program_id(0)",
            f"num_m, num_v = tl.cdiv({rows}, BLOCK_M), tl.cdiv({columns}, BLOCK_V)",
            # Neighbouring programs differ in columns of values, so they share queries and keys in
            # L2.
            "pid_m, pid_v = pid // num_v % num_m, pid % num_v",
            *([f"pid_b = {batch}"] if any(flash.batch) else []),
            "offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)",
            "offs_v = pid_v * BLOCK_V + tl.arange(0, BLOCK_V)",
            *(line for axis in "bmv" for line in flash.slices(axis)),
        ]


# Keys shared by several programs. Each split of the keys stores the largest score, the sum of
# exponentials and the weighted values of its rows. The merge scales two splits to one base, as the
# loop over blocks does with two blocks.


def _split_bounds(keys: str, end: str) -> list[str]:
    """Lines that compute the first key of a program's split and the end of its keys.

    Args:
        keys: size symbol of all keys.
        end: text of where the keys of a block of queries end.
    """
    # Shares are whole blocks, so that no block of keys belongs to two splits.
    return [
        "split = tl.program_id(1)",
        f"share = tl.cdiv(tl.cdiv({keys}, BLOCK_N), SPLIT_N) * BLOCK_N",
        "begin = split * share",
        f"end = tl.minimum({end}, begin + share)",
    ]


def _split_buffers(splits: int, batches: str, symbols: Mapping[str, str]) -> list[Buffer]:
    """The buffers of the splits' results, in fp32.

    They are `peak` and `mass`, (splits, rows), and `part`, (splits, rows, v): the largest score,
    the sum of exponentials and the weighted values of each row.
    """
    rows = times(batches, symbols["m"])
    return [
        Buffer(name="peak", sizes=(str(splits), rows)),
        Buffer(name="mass", sizes=(str(splits), rows)),
        Buffer(name="part", sizes=(str(splits), rows, symbols["v"])),
    ]


def _split_stores(row: str, symbols: Mapping[str, str]) -> list[str]:
    """Lines that store the results of a split; `row` is the text of the rows' numbers."""
    return [
        f"row = {row}",
        "# Every block of values finds the same peaks and masses.",
        f"first = (offs_m < {symbols['m']}) & (pid_v == 0)",
        "tl.store(peak_ptr + row, row_max, mask=first)",
        "tl.store(mass_ptr + row, row_sum, mask=first)",
        f"inside = (offs_m[:, None] < {symbols['m']}) & (offs_v[None, :] < {symbols['v']})",
        f"place = row[:, None] * {symbols['v']} + offs_v[None, :]",
        "tl.store(part_ptr + place, acc, mask=inside)",
    ]


def _merged(row: str, symbols: Mapping[str, str]) -> list[str]:
    """Lines that merge the results of all splits, one split after the other.

    Args:
        row: text of the rows' numbers, over the variable `split`.
        symbols: axis -> size symbol.
    """
    # A split without any key for a row has the peak -inf. `base` keeps exp(-inf - -inf) from NaN.
    loop = [
        f"row = {row}",
        f'peak = tl.load(peak_ptr + row, mask=offs_m < {symbols["m"]}, other=float("-inf"))',
        f"mass = tl.load(mass_ptr + row, mask=offs_m < {symbols['m']}, other=0)",
        f"place = row[:, None] * {symbols['v']} + offs_v[None, :]",
        "part = tl.load(part_ptr + place, mask=inside, other=0)",
        "highest = tl.maximum(row_max, peak)",
        'base = tl.where(highest == float("-inf"), 0.0, highest)',
        "shrink, grow = tl.exp(row_max - base), tl.exp(peak - base)",
        "row_sum = row_sum * shrink + mass * grow",
        "acc = acc * shrink[:, None] + part * grow[:, None]",
        "row_max = highest",
    ]
    return [
        f"inside = (offs_m[:, None] < {symbols['m']}) & (offs_v[None, :] < {symbols['v']})",
        *_START,
        "for split in range(SPLIT_N):",
        *(f"    {line}" for line in loop),
    ]
