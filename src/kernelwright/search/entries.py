"""The wholes that take part in a contest: each form of the program in each way to call it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.programs.compose import compose
from kernelwright.programs.extern import RECURRENT
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
    texts = [_composed(variant) for variant in won]
    wholes: list[Entry] = []
    for variant, text in zip(won, texts, strict=True):
        if not (_is_one_fragment(variant) or _unrolls(variant)):
            wholes.append(_compiled(variant, text, target))
        source = target.write(text)
        wholes.append(Entry(variant=variant, source=source, served=Served.KERNELS))
    for variant in map(_with_half, won[:1]):
        if variant.chosen and not _unrolls(variant):
            wholes.append(_compiled(variant, _composed(variant), target))
    if target.write_graphed is not None:
        for variant, text in zip(won, texts, strict=True):
            source = target.write_graphed(text)
            wholes.append(
                Entry(variant=variant, source=source, served=Served.KERNELS, is_graph=True)
            )
    return wholes


def _composed(variant: Variant) -> str:
    return compose(variant.program, variant.replacements()).source


def _compiled(variant: Variant, text: str, target: Target) -> Entry:
    return Entry(
        variant=variant,
        source=target.write(emit.compiled(text)),
        exact=target.write(emit.compiled(text, moves_layouts=False)),
        served=Served.COMPILED_KERNELS,
    )


def _with_half(variant: Variant) -> Variant:
    """The variant with half of its fragments; with none where there is one alone."""
    num_kept = len(variant.chosen) // 2
    return variant.giving_back(len(variant.chosen) - num_kept, FASTER_WITHOUT)


def _is_one_fragment(variant: Variant) -> bool:
    """One fragment holds all calls of the program: Inductor has nothing to compile."""
    kept = [variant.tuned[i].fragment.calls for i in variant.chosen]
    return len(kept) == 1 and len(kept[0]) == len(variant.program.calls)


def _unrolls(variant: Variant) -> bool:
    """A recurrent layer is in no chosen fragment. Inductor would compile a copy of each step."""
    kept = frozenset[int]().union(*(variant.tuned[i].fragment.calls for i in variant.chosen))
    calls = variant.program.calls
    return any(calls[i].op in RECURRENT for i in range(len(calls)) if i not in kept)
