"""Variants of a program at other sizes: small ones for the CPU, odd ones to judge candidates at."""

import math
import random
from collections.abc import Iterable, Mapping

from kernelwright.core.seed import derive
from kernelwright.programs.program import Program
from kernelwright.programs.resize import free_sizes, resize

CAPS = (512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4)
ODD_SIZES = (1, 3, 5, 7, 11, 13, 17, 19, 31, 33, 37, 45, 63, 65, 67, 97, 100, 127, 129)
"""Primes, and neighbours of powers of two: a mask that is missing shows at these."""

_TRIES = 24
"""Draws of sizes for each variant wanted, before it is given up."""


def largest(program: Program) -> int:
    """Elements of the program's largest value."""
    made = [value.type for value in program.inputs]
    made += [each for call in program.calls for each in call.types]
    return max((each.numel for each in made), default=0)


def scaled_down(
    program: Program, max_elements: int = 1 << 16, *, fixed_attributes: bool = False
) -> Program:
    """The program with its sizes made smaller until no value has more than `max_elements`.

    Structure stays: the same calls, equal sizes equal, divisible ones divisible. Where operators
    refuse smaller sizes, the smallest that they accept; the program itself if it is small already.

    Args:
        fixed_attributes: keep sizes that attributes spell out (see `resize`).
    """
    return _shrunk(program, max_elements, fixed_attributes)[0]


def _shrunk(
    program: Program, max_elements: int, fixed_attributes: bool
) -> tuple[Program, dict[int, int]]:
    """The scaled-down program and the map of sizes that made it."""
    sizes = {size: size for size in free_sizes(program)}
    best = program
    for cap in CAPS:
        if largest(best) <= max_elements:
            break
        wanted = _apart(sizes, cap)
        if (smaller := _resized(program, wanted, fixed_attributes)) is not None:
            best, sizes = smaller, wanted
    stuck: set[int] = set()
    while largest(best) > max_elements and len(stuck) < len(sizes):
        size = max(sizes.keys() - stuck, key=lambda s: (sizes[s], s))
        wanted = {**sizes, size: _divisor(size, sizes[size] // 2)}
        smaller = _resized(program, wanted, fixed_attributes) if wanted[size] > 1 else None
        if smaller is None or largest(smaller) >= largest(best):
            stuck.add(size)
        else:
            best, sizes = smaller, wanted
    return best, sizes


def _apart(sizes: Iterable[int], cap: int) -> dict[int, int]:
    """Each size to one up to `cap`; different sizes to different ones as far as there are any,
    since equal sizes hide a mixed-up stride."""
    found: dict[int, int] = {}
    for size in sorted(sizes):
        wanted = [_divisor(size, cap), *range(min(size, cap), 1, -1)]
        found[size] = next((n for n in wanted if n not in found.values()), wanted[0])
    return found


def _divisor(size: int, cap: int) -> int:
    """The largest divisor of `size` up to `cap`, or `cap` where that is much smaller."""
    if size <= cap:
        return size
    found = next((d for d in range(cap, 0, -1) if size % d == 0), 1)
    return found if 2 * found >= cap else cap


def _resized(program: Program, sizes: Mapping[int, int], fixed_attributes: bool) -> Program | None:
    try:
        return resize(program, lambda n: sizes.get(n, n), fixed_attributes=fixed_attributes)
    except ValueError:
        return None


def enlarged(program: Program, min_elements: int) -> Program | None:
    """The program with one of its sizes made so large, and odd, that some value has at least
    `min_elements`; of the ways to do so the one with the fewest bytes in all. None where attributes
    pin every size, or it is that large already."""
    factor = math.ceil(min_elements / max(largest(program), 1))
    if factor == 1:
        return None
    found = [
        made
        for size in free_sizes(program)
        if (made := _resized(program, {size: size * factor + 1}, fixed_attributes=True))
        and largest(made) >= min_elements
    ]
    return min(found, key=num_bytes, default=None)


def num_bytes(program: Program) -> int:
    """Of all inputs and results."""
    made = [value.type for value in program.inputs]
    made += [each for call in program.calls for each in call.types]
    return sum(each.num_bytes for each in made)


def shape_variants(
    program: Program,
    count: int,
    seed: int,
    max_elements: int = 1 << 16,
    *,
    fixed_attributes: bool = True,
) -> list[Program]:
    """Up to `count` different small variants at odd sizes, as far as the structure permits.

    Fewer, or none, where attributes pin every size.

    Args:
        fixed_attributes: keep sizes that attributes spell out, so that a candidate written for
            `program` must run at the variants too.
    """
    rng = random.Random(derive(seed, "shape_variants"))
    _, small = _shrunk(program, max_elements, fixed_attributes)
    found: list[Program] = []
    for attempt in range(count * _TRIES):
        share = (1.0, 0.8, 0.5, 0.3)[attempt % 4]  # of sizes that become odd
        sizes = {
            size: rng.choice(ODD_SIZES) if rng.random() < share else base
            for size, base in small.items()
        }
        made = _resized(program, sizes, fixed_attributes)
        if made is None or made == program or made in found or largest(made) > 4 * max_elements:
            continue
        found.append(made)
        if len(found) == count:
            break
    return found
