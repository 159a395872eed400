"""A rewrite for tensor cores: factors of products lie along the dimension that is summed over.

In TF32 the tensor cores of sm_90 take both factors in that order alone. Where one lies otherwise, a
kernel turns every tile on its way, over and over; one copy in memory is read by all of them. On an
H200 a product of two (4096, 4096) matrices in tf32x3 takes 1.5 ms so, 3.2 ms otherwise.
"""

from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.build import Builder
from kernelwright.programs.dataflow import permutation
from kernelwright.programs.fragments.fragment import PERMUTING
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.rewrites.rewrite import rewritten

MIN_REUSE = 64
"""Operations for each byte of a factor from which a copy pays: it takes less than a picosecond a
byte, and the operations some 12 fs each."""


def k_major(program: Program) -> Program:
    """The program with those factors of its float32 products copied that do not lie so, if the
    product is large enough."""
    copies: dict[tuple[str, int], Ref] = {}

    def rule(builder: Builder, call: Call, values: dict[str, Any]) -> tuple[Ref, ...] | None:
        if not call.has(Trait.MATRIX_PRODUCT) or call.types[0].dtype != "float32":
            return None
        for parameter, dim in call.operator.factors:
            name = call.arg(parameter).name
            result_type = program.type_of(name)
            is_reused = program.flops_of(call) >= MIN_REUSE * result_type.num_bytes
            if result_type.rank >= 2 and is_reused and _innermost(program, name) != dim:
                if (name, dim) not in copies:
                    copies[name, dim] = _copied(builder, values[parameter], dim)
                values[parameter] = copies[name, dim]
        return builder.call(call.op, **values)

    return rewritten(program, rule)


def _innermost(program: Program, name: str) -> int:
    """The dimension, from the end, along which a value lies in memory: views only rename it."""
    call = next((call for call in program.calls if name in call.outputs), None)
    if call is None or call.op not in PERMUTING:
        return -1
    source = next(call.refs())
    rank, below = call.types[0].rank, _innermost(program, source)
    return permutation(call, rank).index(below % rank) - rank


def _copied(builder: Builder, factor: Ref, dim: int) -> Ref:
    """The same values, lying along `dim`."""
    turned = _turned(builder, factor, dim)
    (copy,) = builder.call("to_layout", input=turned, memory_format="contiguous")
    return _turned(builder, copy, dim)


def _turned(builder: Builder, ref: Ref, dim: int) -> Ref:
    if dim == -1:
        return ref
    (turned,) = builder.call("transpose", input=ref, dim0=dim, dim1=-1)
    return turned
