"""Attention of few queries to many keys: programs share a row's keys, a kernel merges their parts.

Each split of the keys stores the largest score, the sum of exponentials and the weighted values of
its rows. The merge scales two splits to one base, as the loop over blocks does with two blocks.
"""

from collections.abc import Mapping

from kernelwright.teacher.attention.tile import START
from kernelwright.teacher.source import Buffer
from kernelwright.teacher.tile.index import times


def split_bounds(keys: str, end: str) -> list[str]:
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


def split_buffers(splits: int, batches: str, symbols: Mapping[str, str]) -> list[Buffer]:
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


def split_stores(row: str, symbols: Mapping[str, str]) -> list[str]:
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


def merged(row: str, symbols: Mapping[str, str]) -> list[str]:
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
        *START,
        "for split in range(SPLIT_N):",
        *(f"    {line}" for line in loop),
    ]
