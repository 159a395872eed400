"""The wholes that take part in a contest: each form of the program in each way to call it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.programs.compose import compose
from kernelwright.search import emit
from kernelwright.search.target import Target
from kernelwright.search.variant import Served, Variant

MAX_VARIANTS = 2
"""Forms of the program that take part. Each has a guest of its own for each way to call it."""
FASTER_WITHOUT = "stays PyTorch: the whole is faster without it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A whole of ours, not judged yet."""

    variant: Variant
    source: str
    """Text of optimized.py."""
    exact: str | None = None
    """The text in which Inductor may not choose memory layouts, of a whole inside torch.compile."""
    served: Served
    is_graph: bool = False

    @property
    def name(self) -> str:
        """For example "channels_last, 3 fragments, compiled_kernels"."""
        how = "graph" if self.is_graph else self.served.value
        return f"{self.variant.name}, {len(self.variant.chosen)} fragments, {how}"


def entries(variants: Sequence[Variant], target: Target) -> list[Entry]:
    """The most promising first: each variant inside torch.compile and with eager calls around, then
    as a CUDA graph. The first variant takes part with half of its fragments too: Inductor may
    compute faster what the other half saves least on."""
    won = [variant for variant in variants if variant.chosen][:MAX_VARIANTS]
    fewer = [_with_half(variant) for variant in won[:1] if len(variant.chosen) > 1]
    found: list[Entry] = []
    for variant in won:
        if not _is_one_fragment(variant):
            found.append(_compiled(variant, target))
        source = target.write(_composed(variant))
        found.append(Entry(variant=variant, source=source, served=Served.KERNELS))
    found += [_compiled(variant, target) for variant in fewer]
    if target.write_graphed is not None:
        found += [_graphed(variant, target) for variant in won]
    return found


def _composed(variant: Variant) -> str:
    return compose(variant.program, variant.replacements()).source


def _compiled(variant: Variant, target: Target) -> Entry:
    composed = _composed(variant)
    return Entry(
        variant=variant,
        source=target.write(emit.compiled(composed)),
        exact=target.write(emit.compiled(composed, moves_layouts=False)),
        served=Served.COMPILED_KERNELS,
    )


def _graphed(variant: Variant, target: Target) -> Entry:
    assert target.write_graphed is not None
    source = target.write_graphed(_composed(variant))
    return Entry(variant=variant, source=source, served=Served.KERNELS, is_graph=True)


def _with_half(variant: Variant) -> Variant:
    return variant.giving_back(len(variant.chosen) // 2, FASTER_WITHOUT)


def _is_one_fragment(variant: Variant) -> bool:
    """One fragment holds all calls of the program: Inductor has nothing to compile."""
    kept = [variant.tuned[i].fragment.calls for i in variant.chosen]
    return len(kept) == 1 and len(kept[0]) == len(variant.program.calls)
