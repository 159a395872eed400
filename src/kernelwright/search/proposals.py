"""Which fragments of a form are tried, in which order."""

from collections import Counter
from collections.abc import Collection, Sequence

from kernelwright.programs.fragments.fragment import CallGraph, extract
from kernelwright.programs.fragments.partition import covering_first, propose
from kernelwright.programs.fragments.parts import without_outer_views
from kernelwright.programs.program import Call, Program
from kernelwright.programs.text import to_text
from kernelwright.teacher.writer import family
from kernelwright.verify.judge import Judge


def proposed(
    program: Program, judge: Judge, *, has_models: bool, for_s: float
) -> list[frozenset[int]]:
    """The fragments to try before any result is known.

    Args:
        has_models: they write too, and have the views at a fragment's rim left out. As they write
            several kernels at once, the program is one of the fragments.
        for_s: as of `propose`.
    """
    every = judge.rules.mode == "pure"
    proposals = propose(program, family, every=every, for_s=for_s)
    ordered = covering_first(proposals)
    if not every:
        ordered = _by_saving(program, ordered)
    if not has_models:
        return ordered
    whole = frozenset(range(len(program.calls)))
    if whole and not any(call.is_extern or call.is_random for call in program.calls):
        ordered.append(whole)
    return _without_outer_views(program, ordered)


def _without_outer_views(
    program: Program, fragments: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    graph = CallGraph(program)
    return [*dict.fromkeys(without_outer_views(program, fragment, graph) for fragment in fragments)]


def _by_saving(program: Program, ordered: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The fragments in the order of trial, because there is seldom time for all.

    Fragments that no other contains come first, and among these the fragments that save the most
    traffic over all their occurrences. Fragments with a dense convolution come last: few of them
    win, and each takes long.
    """
    parts = {calls: extract(program, calls).program for calls in ordered}
    texts = {calls: to_text(part) for calls, part in parts.items()}
    # Equal parts are tuned once, so the saving counts for each place where the part occurs.
    times = Counter(texts.values())

    def rank(calls: frozenset[int]) -> tuple[bool, bool, int]:
        part, is_dense = parts[calls], any(_is_dense(program.calls[i]) for i in calls)
        saved = part.bytes_unfused() - part.bytes_fused()
        return is_dense, any(calls < larger for larger in ordered), -saved * times[texts[calls]]

    return sorted(ordered, key=rank)


def _is_dense(call: Call) -> bool:
    """Whether a call is a convolution in one group, for which libraries have their best kernels."""
    is_convolution = not call.is_extern and call.operator.family == "convolution"
    return is_convolution and call.arg("groups") == 1


def gaps(
    program: Program,
    judge: Judge,
    tried: Collection[frozenset[int]],
    chosen: Collection[frozenset[int]],
    *,
    has_models: bool,
) -> list[frozenset[int]]:
    """Fragments of the calls that no chosen fragment holds, without those that were tried.

    In pure mode single calls are among them. Else only models get such fragments: parts of larger
    fragments that they failed to write.
    """
    every = judge.rules.mode == "pure"
    if not (every or has_models):
        return []
    left = frozenset(range(len(program.calls))) - frozenset().union(*chosen)
    parts = propose(program, family, every=every, within=left)
    if has_models:
        parts = _without_outer_views(program, parts)
    return [part for part in parts if part not in tried and (every or len(part) > 1)]
