"""The wholes that take part in a contest: each form of the program in each way to call it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernelwright.programs.extern import RECURRENT
from kernelwright.search.module import emit
from kernelwright.search.target import Target
from kernelwright.search.variant import ServedForm, Variant

MAX_VARIANTS = 2
"""Forms of the program that take part. Each has a guest of its own for each way to call it."""
FASTER_WITHOUT = "stays PyTorch: the whole is faster without it"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContestEntry:
    """A whole of ours, not judged yet."""

    variant: Variant
    source: str
    """Text of optimized.py."""
    exact: str | None = None
    """The text in which Inductor may not choose memory layouts, of a whole inside torch.compile."""
    served: ServedForm
    is_graph: bool = False

    @property
    def name(self) -> str:
        """For example "channels_last, 3 fragments, compiled_kernels"."""
        return f"{self.launched_name}, graph" if self.is_graph else self.launched_name

    @property
    def launched_name(self) -> str:
        """The name of the entry with the same source, launched call by call."""
        return f"{self.variant.name}, {len(self.variant.chosen)} fragments, {self.served.value}"


def entries(variants: Sequence[Variant], target: Target) -> list[ContestEntry]:
    """The most promising first: each variant inside torch.compile and with eager calls around. The
    first variant takes part with half of its fragments too: Inductor may compute faster what the
    other half saves least on. CUDA graphs come last: of the first variant inside torch.compile,
    and of each variant with eager calls around."""
    won = [variant for variant in variants if variant.chosen][:MAX_VARIANTS]
    texts = [variant.composed().source for variant in won]
    wholes: list[ContestEntry] = []
    for variant, text in zip(won, texts, strict=True):
        if _leaves_work(variant):
            wholes.append(_compiled(variant, text, target.write))
        wholes.append(_launched(variant, text, target.write))
    for variant in map(_with_half, won[:1]):
        if variant.chosen and not _unrolls(variant):
            wholes.append(_compiled(variant, variant.composed().source, target.write))
    if target.write_graphed is not None:
        write = target.write_graphed
        graphs = [_compiled(won[0], texts[0], write)] if won and _leaves_work(won[0]) else []
        graphs += [_launched(*whole, write) for whole in zip(won, texts, strict=True)]
        wholes += [replace(entry, is_graph=True) for entry in graphs]
    return wholes


def _launched(variant: Variant, text: str, write: Callable[[str], str]) -> ContestEntry:
    return ContestEntry(variant=variant, source=write(text), served=ServedForm.KERNELS)


def _compiled(variant: Variant, text: str, write: Callable[[str], str]) -> ContestEntry:
    is_sized = variant.spelled is not None
    return ContestEntry(
        variant=variant,
        source=write(emit.compiled(text, is_sized=is_sized)),
        exact=write(emit.compiled(text, moves_layouts=False, is_sized=is_sized)),
        served=ServedForm.COMPILED_KERNELS,
    )


def _leaves_work(variant: Variant) -> bool:
    """Whether Inductor has calls to compile, and none of them is a recurrent layer."""
    return not (_is_one_fragment(variant) or _unrolls(variant))


def _with_half(variant: Variant) -> Variant:
    """The variant with half of its fragments; with none where there is one alone."""
    num_kept = len(variant.chosen) // 2
    return variant.giving_back(len(variant.chosen) - num_kept, FASTER_WITHOUT)


def _is_one_fragment(variant: Variant) -> bool:
    """Whether one fragment holds all calls of the program, so that Inductor has nothing to do."""
    kept = [variant.tuned[i].fragment.calls for i in variant.chosen]
    return len(kept) == 1 and len(kept[0]) == len(variant.program.calls)


def _unrolls(variant: Variant) -> bool:
    """Whether a recurrent layer is in no chosen fragment: Inductor would compile each step anew."""
    kept = frozenset[int]().union(*(variant.tuned[i].fragment.calls for i in variant.chosen))
    calls = variant.program.calls
    return any(calls[i].op in RECURRENT for i in range(len(calls)) if i not in kept)
