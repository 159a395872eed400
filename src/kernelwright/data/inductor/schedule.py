"""Draws blocks and warps for Inductor's kernels by chance, among sizes that fit. Inductor itself
would tune them on a GPU."""

import random

from kernelwright.data.inductor.reading import InductorKernel, NotRewritten

_FLAT = (128, 256, 512, 1024)
_TILE = {2: (16, 32, 64), 3: (8, 16)}
_REDUCED = (256, 512, 1024, 2048)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_LEAST_ELEMENTS, _MOST_ELEMENTS = 1024, 4096
"""The elements of a tile of rows."""
_ELEMENTS_A_WARP = 256


def draw_blocks(kernel: InductorKernel, rng: random.Random) -> dict[str, int]:
    """Draw the sizes of a kernel's blocks.

    Returns:
        Name of each block parameter -> its elements, and "num_warps".

    Raises:
        NotRewritten: the kernel reduces over several axes.
    """
    wanted = [a.arg for a in kernel.function.args.args if a.annotation is not None]
    kept = {axis: hint for axis, hint in kernel.hints.items() if not axis.startswith("r")}
    reduced = [hint for axis, hint in kernel.hints.items() if axis.startswith("r")]
    if len(reduced) > 1:
        raise NotRewritten("several axes reduced")
    if not reduced:
        sizes = _FLAT if len(kept) == 1 else _TILE[len(kept)]
        blocks = {
            f"{axis.upper()}BLOCK": min(rng.choice(sizes), hint) for axis, hint in kept.items()
        }
        return _with_warps(blocks, 1)
    # A kernel without a loop holds the whole reduced axis in one tile, whose length is given.
    is_looped = "R0_BLOCK" in wanted
    along = min(rng.choice(_REDUCED), reduced[0]) if is_looped else reduced[0]
    rows = [n for n in _ROWS if _LEAST_ELEMENTS <= n * along <= _MOST_ELEMENTS]
    blocks = {"XBLOCK": min(rng.choice(rows or [1]), kept["x"])}
    if is_looped:
        return _with_warps(blocks | {"R0_BLOCK": along}, 1)
    return _with_warps(blocks, along)


def _with_warps(blocks: dict[str, int], more: int) -> dict[str, int]:
    """The blocks with "num_warps", a power of two that fits their elements.

    Args:
        more: elements along an axis that has no block parameter.
    """
    elements = more
    for size in blocks.values():
        elements *= size
    warps = max(1, min(16, elements // _ELEMENTS_A_WARP))
    return blocks | {"num_warps": 1 << (warps.bit_length() - 1)}
