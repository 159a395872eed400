"""Variants of a program at other sizes: small ones for the CPU, odd ones to judge candidates at."""

import math
import random
from collections.abc import Iterable, Mapping

from kernelwright.core.seed import derive
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.resize import free_sizes, resize

CAPS = (512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4)
ODD_SIZES = (1, 3, 5, 7, 11, 13, 17, 19, 31, 33, 37, 45, 63, 65, 67, 97, 100, 127, 129)
"""Primes, and neighbours of powers of two: a mask that is missing shows at these."""

MAX_BEYOND = 256
"""Up to this size a larger size lies beyond the next power of two; above it, few elements are
added."""
MAX_GROWTH = 1.1
"""The factor by which a large program may grow: a GPU may have room for little more."""

_SMALL = 16
"""Sizes below this one are not made smaller."""

_TRIES = 24
"""Draws of sizes for each variant wanted, before it is given up."""


def largest(program: Program) -> int:
    """Elements of the program's largest value."""
    return max((tensor_type.numel for tensor_type in _types(program)), default=0)


def scaled_down(
    program: Program,
    max_elements: int = 1 << 16,
    *,
    max_flops: float = math.inf,
    fixed_attributes: bool = False,
) -> Program:
    """The program at smaller sizes: no value has more than `max_elements` elements, and all calls
    together take at most `max_flops`.

    The structure stays: the same calls, and equal sizes stay equal. New sizes are divisors of the
    old sizes where possible. If operators refuse such sizes, the result has the smallest sizes
    found. A program that is small enough is returned as it is.

    Args:
        fixed_attributes: keep sizes that attributes spell out (see `resize`).
    """
    return _shrunk(program, max_elements, max_flops, fixed_attributes)[0]


def _shrunk(
    program: Program, max_elements: int, max_flops: float, fixed_attributes: bool
) -> tuple[Program, dict[int, int]]:
    """The scaled-down program and the map of sizes that made it."""

    def excess(made: Program) -> float:
        return max(largest(made) / max_elements, made.flops() / max_flops)

    # A common cap for all sizes needs few trials. Then single sizes are halved, the largest first:
    # an operator may refuse a smaller value of one size only.
    sizes = {size: size for size in free_sizes(program)}
    best = program
    for cap in CAPS:
        if excess(best) <= 1:
            break
        wanted = _apart(sizes, cap)
        if (smaller := _resized(program, wanted, fixed_attributes)) is not None:
            best, sizes = smaller, wanted
    stuck: set[int] = set()
    while excess(best) > 1 and len(stuck) < len(sizes):
        size = max(sizes.keys() - stuck, key=lambda s: (sizes[s], s))
        wanted = {**sizes, size: _divisor(size, sizes[size] // 2)}
        smaller = _resized(program, wanted, fixed_attributes) if wanted[size] > 1 else None
        if smaller is None or excess(smaller) >= excess(best):
            stuck.add(size)
        else:
            best, sizes = smaller, wanted
    return best, sizes


def _apart(sizes: Iterable[int], cap: int) -> dict[int, int]:
    """A map of each size to a size up to `cap`.

    Different sizes stay different where possible, because equal sizes hide a mixed-up stride.
    """
    distinct: dict[int, int] = {}
    for size in sorted(sizes):
        wanted = [_divisor(size, cap), *range(min(size, cap), 1, -1)]
        distinct[size] = next((n for n in wanted if n not in distinct.values()), wanted[0])
    return distinct


def _divisor(size: int, cap: int) -> int:
    """The largest divisor of `size` up to `cap`, or `cap` where that is much smaller."""
    if size <= cap:
        return size
    divisor = next((d for d in range(cap, 0, -1) if size % d == 0), 1)
    return divisor if 2 * divisor >= cap else cap


def _resized(program: Program, sizes: Mapping[int, int], fixed_attributes: bool) -> Program | None:
    """The program at these sizes; None if operators refuse them, or if a layout is lost.

    A channels-last image of one channel is contiguous too, and PyTorch may return either layout.
    """
    try:
        resized = resize(program, lambda n: sizes.get(n, n), fixed_attributes=fixed_attributes)
    except ValueError:
        return None
    is_lost = any(
        _has_both_layouts(new) and not _has_both_layouts(old)
        for old, new in zip(_types(program), _types(resized), strict=True)
    )
    return None if is_lost else resized


def _has_both_layouts(made: TensorType) -> bool:
    """Whether a channels-last tensor is contiguous too."""
    is_last = made.layout is Layout.CHANNELS_LAST
    return is_last and (made.shape[1] == 1 or math.prod(made.shape[2:]) == 1)


def _types(program: Program) -> list[TensorType]:
    """The types of all values."""
    input_types = [value.type for value in program.inputs]
    return [*input_types, *(result for call in program.calls for result in call.types)]


def enlarged(program: Program, min_elements: int) -> Program | None:
    """The program with one size so large that some value has at least `min_elements`.

    Of all such programs this is the one with the fewest bytes. None if attributes pin every size,
    or if the program is large enough already.
    """
    factor = math.ceil(min_elements / max(largest(program), 1))
    if factor == 1:
        return None
    larger = [
        resized
        for size in free_sizes(program)
        if (resized := _resized(program, {size: size * factor + 1}, fixed_attributes=True))
        and largest(resized) >= min_elements
    ]
    return min(larger, key=num_bytes, default=None)


def num_bytes(program: Program) -> int:
    """The bytes of all inputs and results."""
    return sum(tensor_type.num_bytes for tensor_type in _types(program))


def shape_variants(
    program: Program,
    count: int,
    seed: int,
    max_elements: int = 1 << 16,
    *,
    max_flops: float = math.inf,
    fixed_attributes: bool = True,
) -> list[Program]:
    """Up to `count` different small variants at odd sizes, as far as the structure permits.

    Fewer, or none, where attributes pin every size.

    Args:
        fixed_attributes: keep sizes that attributes spell out, so that a candidate written for
            `program` must run at the variants too.
    """
    rng = random.Random(derive(seed, "shape_variants"))
    _, small = _shrunk(program, max_elements, max_flops, fixed_attributes)
    variants: list[Program] = []
    for attempt in range(count * _TRIES):
        share = (1.0, 0.8, 0.5, 0.3)[attempt % 4]  # of sizes that become odd
        sizes = {
            size: rng.choice(ODD_SIZES) if rng.random() < share else base
            for size, base in small.items()
        }
        variant = _resized(program, sizes, fixed_attributes)
        if variant is None or variant == program or variant in variants:
            continue
        if largest(variant) > 4 * max_elements or variant.flops() > 4 * max_flops:
            continue
        variants.append(variant)
        if len(variants) == count:
            break
    return variants


def larger_size(size: int, rng: random.Random) -> int:
    """A size beyond the next power of two, where a kernel with one block of fixed size fails. Above
    `MAX_BEYOND`, the size grows by a few elements only."""
    beyond = 1 << (size - 1).bit_length()
    return (beyond if beyond <= MAX_BEYOND else size) + rng.randint(1, 3)


def larger_variant(
    program: Program, seed: int, max_elements: int = 1 << 16, *, max_flops: float = math.inf
) -> Program | None:
    """One variant whose sizes are larger than those of `program`, as far as the structure permits.

    All sizes become `larger_size`. If that is too large, all sizes get a few elements more, or one
    size does. None where attributes pin every size.

    Args:
        max_elements: the variant may have four times as many. Where `program` has more than these,
            the variant may be larger by `MAX_GROWTH`.
        max_flops: the same limits hold for these.
    """
    rng = random.Random(derive(seed, "larger_variant"))
    own = [size for size in free_sizes(program) if size > 1]
    few = {size: size + rng.randint(1, 3) for size in own}
    beyond = {size: larger_size(size, rng) for size in own}
    rng.shuffle(own)
    most_elements = max(4 * max_elements, MAX_GROWTH * largest(program))
    most_flops = max(4 * max_flops, MAX_GROWTH * program.flops())
    for sizes in (beyond, few, *({size: few[size]} for size in own)):
        variant = _resized(program, sizes, fixed_attributes=True)
        if variant is None or variant == program:
            continue
        if largest(variant) <= most_elements and variant.flops() <= most_flops:
            return variant
    return None


def aligned_variants(
    program: Program, count: int, seed: int, max_elements: int = 1 << 18
) -> list[Program]:
    """Up to `count` variants that should reuse the kernels compiled for `program`.

    Triton compiles a kernel again if the divisibility of a size by 16 changes. The same holds if
    the power of two changes to which a tile is rounded up. Both stay the same here, as far as
    `max_elements` allows. New sizes above 32 are not divisible by 32, so tiles still have tails.
    The result has fewer variants, or none, if attributes pin the sizes.
    """
    rng = random.Random(derive(seed, "aligned_variants"))
    brackets = _brackets(program, max_elements)
    variants: list[Program] = []
    for attempt in range(count * _TRIES):
        share = (1.0, 0.8, 0.5, 0.3)[attempt % 4]
        sizes = {
            size: rng.choice(_aligned(size, bracket))
            for size, bracket in brackets.items()
            if rng.random() < share or bracket < size
        }
        variant = _resized(program, sizes, fixed_attributes=True)
        if (
            variant is None
            or variant == program
            or variant in variants
            or largest(variant) > 2 * max_elements
        ):
            continue
        variants.append(variant)
        if len(variants) == count:
            break
    return variants


def _brackets(program: Program, max_elements: int) -> dict[int, int]:
    """Free size -> the power of two that the size's variants round up to.

    This is the size's own power of two, or a smaller power if the program is too large. Sizes that
    are never innermost shrink first.
    """
    brackets = {size: 1 << (size - 1).bit_length() for size in free_sizes(program)}
    inner = {value.type.shape[-1] for value in program.inputs if value.type.shape}
    stuck: set[int] = set()
    resized: Program | None = program
    while resized is not None and largest(resized) > max_elements and stuck != brackets.keys():
        size = max(brackets.keys() - stuck, key=lambda s: (s not in inner, brackets[s], s))
        if brackets[size] <= _SMALL:
            stuck.add(size)
            continue
        tried = {**brackets, size: brackets[size] // 2}
        sizes = {s: _aligned(s, b)[-1] for s, b in tried.items() if b < s}
        if (smaller := _resized(program, sizes, fixed_attributes=True)) is None:
            stuck.add(size)
            continue
        brackets, resized = tried, smaller
    return brackets


def _aligned(size: int, bracket: int) -> list[int]:
    """Sizes other than `size` that round up to `bracket` and have the same gcd with 16.

    Sizes from 32 on are not divisible by 32. Without such sizes the result is one size: `size`, or
    `bracket` if that is smaller.
    """
    common = math.gcd(size, 16)
    aligned = [
        n
        for n in range(bracket // 2 + 1, bracket + 1)
        if math.gcd(n, 16) == common and n != size and (n < 32 or n % 32)
    ]
    return aligned or [size if size <= bracket else bracket]


def same_attributes(one: Program, other: Program) -> bool:
    """Whether all calls of two programs of one structure have the same attributes.

    Then a candidate for one program, with attributes written out, must also compute the other.
    """
    return [call.args for call in one.calls] == [call.args for call in other.calls]
