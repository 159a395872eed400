"""Fragments of the same calls at other sizes: what won for one is taken for the other, untried.

A network of hundreds of calls repeats a few kinds of fragments at many sizes, and there is time to
tune a few. Kernels read sizes from tensors, and what saves traffic at one size does so at others,
mostly; the whole is judged with all of them.
"""

from collections.abc import Hashable
from dataclasses import replace

from kernelwright.ops.operator import TensorType
from kernelwright.programs.fragments.fragment import Fragment
from kernelwright.programs.program import Program
from kernelwright.search.sources import Sources, Writing
from kernelwright.search.tune import Tuned
from kernelwright.verify.judging import Rules

_SIZES = frozenset({"shape", "size", "normalized_shape"})
"""Parameters that are sizes."""


def kind(program: Program) -> Hashable:
    """A key that is equal for programs of canonical names that differ in sizes alone.

    A writer has the same forms for such programs. A dimension of one element is another kind,
    because it broadcasts.
    """
    return (
        tuple(_pattern(value.type) for value in program.inputs),
        tuple(
            (
                call.op,
                repr([(name, value) for name, value in call.args if name not in _SIZES]),
                tuple(map(_pattern, call.types)),
            )
            for call in program.calls
        ),
        program.outputs,
    )


def _pattern(made: TensorType) -> Hashable:
    return made.dtype, made.layout, tuple(size == 1 for size in made.shape)


def taken_over(
    fragment: Fragment, like: Tuned, sources: Sources, rules: Rules, writing: Writing
) -> Tuned | None:
    """The fragment with the schedule that won for another fragment of its kind.

    None if the writers have no candidate, or if the fragment has a product: there the sizes decide
    which schedule is fast.
    """
    program, best = fragment.program, like.best
    if best is None or like.winner is None or any(call.is_product for call in program.calls):
        return None
    written, _ = sources.written(program, rules, writing)
    # Not every schedule exists at every size; then the teacher's first choice is taken.
    alike = [kernel for kernel in written if kernel.schedule == best.schedule] or written
    if not alike:
        return None
    verdict = like.verdicts[like.winner]
    share = program.bytes_unfused() / like.fragment.program.bytes_unfused()
    return Tuned(
        fragment=fragment,
        family=like.family,
        candidates=(alike[0],),
        # The times belong to the other sizes, so the verdict has none.
        verdicts=(replace(verdict, times={}, speedup_interval=None, noise=None),),
        winner=0,
        reason=f"not timed itself, like a fragment of the same calls: {like.reason}",
        saving=like.saving * share,
    )
