"""The forms in which a program is searched: with and without algebra, in suitable layouts.

Algebraic rewrites (`programs.algebra`) drop work that the original does. The other rewrites
(`programs.rewrites.rewrite`) do the same work in another layout, or in several calls. Records name
the two kinds separately.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from kernelwright.ops.operator import TensorType
from kernelwright.programs.algebra.simplify import Simplified, simplified
from kernelwright.programs.build import canonical, rename
from kernelwright.programs.program import Program
from kernelwright.programs.resizing.variants import largest, scaled_down
from kernelwright.programs.rewrites.join_attention import join_attention
from kernelwright.programs.rewrites.k_major import k_major
from kernelwright.programs.rewrites.rewrite import (
    channels_last,
    spell_out_attention,
    split_conv_bias,
)
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.verify.tasks.program_task import INTERPRETER_FLOPS

CONTIGUOUS, CHANNELS_LAST, K_MAJOR = "contiguous", "channels_last", "k_major"

CPU_LIMIT_BYTES = 64 << 20
"""Traffic of a program above which it is judged scaled down where there is no GPU."""
CPU_ELEMENTS = 1 << 16
"""Elements of the largest tensor of a scaled-down program."""
MOST_EXCESS = 4.0
"""How many times as much work the interpreter does for a program whose attributes stay."""

_REWRITES = {CHANNELS_LAST: channels_last, K_MAJOR: k_major}
"""Layout -> what brings a program there; where it changes nothing, there is no such form."""
_LIGHT = ("pointwise", "shape", "random", "creation")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramForm:
    """A program that computes what the original does."""

    original: Program
    program: Program
    layout: str
    """`CONTIGUOUS`; `CHANNELS_LAST`, for convolutions; or `K_MAJOR`, for products."""
    algebra: tuple[str, ...] = ()
    """The rules of `programs.algebra` that made this form out of the original."""
    rewrites: tuple[str, ...] = ()
    """The rewrites of `programs.rewrites.rewrite` that this form has."""
    spelled: Program | None = None
    """The program with expressions for attributes that depend on sizes, where sizes vary."""
    elsewhere: tuple[Program, ...] = ()
    """The program at other sizes, where sizes vary."""

    @property
    def name(self) -> str:
        is_joined = join_attention.__name__ in self.rewrites
        words = [self.layout, "rewritten" if self.algebra else "", "one attention" * is_joined]
        return ", ".join(filter(None, words))

    @property
    def written(self) -> Program:
        """The program as the text of the whole spells it."""
        return self.spelled or self.program


def sized_forms(sized: SizedProgram, *, on_gpu: bool) -> list[ProgramForm]:
    """The forms of a program that compute at all of its sizes; the program itself where there is no
    other.

    Args:
        on_gpu: as of `forms`.
    """
    first, *others = (
        forms(program, on_gpu=on_gpu, at_other_sizes=True) for program in sized.programs
    )
    tables = [{_kind(form): form.program for form in elsewhere} for elsewhere in others]
    kept = []
    for form in first:
        programs = [table[_kind(form)] for table in tables if _kind(form) in table]
        # A form that is missing at some size cannot serve all sizes.
        if len(programs) < len(tables):
            continue
        with suppress(ValueError):  # the rewrite does other things at other sizes
            spelled = sized.spell([form.program, *programs])
            kept.append(replace(form, spelled=spelled, elsewhere=tuple(programs)))
    program, *rest = sized.programs
    plain = ProgramForm(original=program, program=program, layout=CONTIGUOUS)
    return kept or [replace(plain, spelled=sized.spelled, elsewhere=tuple(rest))]


def _kind(form: ProgramForm) -> tuple[object, ...]:
    return form.layout, form.algebra, form.rewrites


def forms(program: Program, *, on_gpu: bool, at_other_sizes: bool = False) -> list[ProgramForm]:
    """The forms of a program: rewritten forms first, the original in its own layout last.

    In all forms but the last, attention that is spelled out is one call, so no kernel stores the
    scores.

    - Algebra may drop only pointwise operators, which cost a fused kernel next to nothing. Then the
      program without algebra is left out.
    - Without a GPU, only the program's own layout is tried, because nothing is timed. Algebra is
      used only if the form can be judged at a small size (see `at_cpu_size`).

    Args:
        on_gpu: whether forms can be timed.
        at_other_sizes: the whole is judged at other sizes too, so rewrites must hold there.
    """
    simplified_program = simplified(program, at_other_sizes=at_other_sizes)
    in_layouts = _in_layouts(program, simplified_program, on_gpu=on_gpu)
    if simplified_program.rewrites:
        plain = _in_layouts(program, Simplified(program, ()), on_gpu=on_gpu)
        is_same_work = _heavy_calls(in_layouts[-1].program) == _heavy_calls(plain[-1].program)
        if not on_gpu and at_cpu_size(in_layouts[0]) is None:
            in_layouts = plain
        elif not is_same_work:
            in_layouts += plain
    if any(join_attention.__name__ in form.rewrites for form in in_layouts):
        in_layouts.append(_form(program, Simplified(program, ()), CONTIGUOUS, joins=False))
    return in_layouts


def _heavy_calls(program: Program) -> Counter[tuple[str, tuple[TensorType, ...]]]:
    """Calls that fusing does not make free, by operator and results."""
    return Counter(
        (call.op, call.types)
        for call in program.calls
        if call.is_extern or call.operator.family not in _LIGHT
    )


def at_cpu_size(form: ProgramForm) -> tuple[Program, Program] | None:
    """(original, program) of the form, scaled down to the same smaller sizes.

    None if the two would then compute different types.
    """
    # Both are scaled as one program, so that they get the same sizes.
    num_calls, num_outputs = len(form.original.calls), len(form.original.outputs)
    both = _side_by_side(form.original, form.program)
    small = _at_most(both, CPU_ELEMENTS, INTERPRETER_FLOPS)
    original, program = (
        canonical(Program(small.inputs, calls, outputs))
        for calls, outputs in (
            (small.calls[:num_calls], small.outputs[:num_outputs]),
            (small.calls[num_calls:], small.outputs[num_outputs:]),
        )
    )
    types = [[side.type_of(name) for name in side.outputs] for side in (original, program)]
    return (original, program) if types[0] == types[1] else None


def _at_most(program: Program, num_elements: int, num_flops: int) -> Program:
    """The program scaled down.

    Kernels spell out attributes, for example where a tensor is split. So sizes that attributes name
    stay, unless the program is too large then. If they shrink too, some kernels are wrong there.
    """
    scaled = partial(scaled_down, program, num_elements, max_flops=num_flops)
    small = scaled(fixed_attributes=True)
    excess = max(largest(small) / num_elements, small.flops() / num_flops)
    return small if excess <= MOST_EXCESS else scaled()


def _side_by_side(first: Program, second: Program) -> Program:
    """Both in one program, with the same inputs."""
    results = [name for call in second.calls for name in call.outputs]
    names = {value.name: value.name for value in second.inputs}
    names |= {name: f"{name}_of_form" for name in results}
    other = rename(second, names)
    return Program(first.inputs, first.calls + other.calls, first.outputs + other.outputs)


def _in_layouts(program: Program, base: Simplified, *, on_gpu: bool) -> list[ProgramForm]:
    plain = _form(program, base, CONTIGUOUS)
    if not on_gpu:
        return [plain]
    others = [_form(program, base, layout) for layout in _REWRITES]
    # A layout whose rewrite changed nothing would repeat the plain form.
    return [*(form for form in others if form.rewrites[-1:] == (form.layout,)), plain]


def _form(program: Program, base: Simplified, layout: str, *, joins: bool = True) -> ProgramForm:
    current, rewrites = base.program, []
    if joins and (joined := join_attention(current)) is not current:
        current = joined
        rewrites.append(join_attention.__name__)
    for rewrite in (split_conv_bias, spell_out_attention):
        longer = rewrite(current)
        # Both rewrites only split calls, so an equal number of calls means no change.
        if len(longer.calls) > len(current.calls):
            current = longer
            rewrites.append(rewrite.__name__)
    if layout in _REWRITES and (other := _REWRITES[layout](current)) != current:
        current = other
        rewrites.append(layout)
    return ProgramForm(
        original=program,
        program=current,
        layout=layout,
        algebra=base.rewrites,
        rewrites=tuple(rewrites),
    )
