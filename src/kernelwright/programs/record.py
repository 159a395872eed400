"""A program as a record: its text, its graph and its cost, as plain JSON."""

import math
from typing import Any

from kernelwright.core.record import Record
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import canonical
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.text import to_text


def program_record(program: Program) -> Record:
    """The record of a program in data sets, names canonical. `text` alone says it all; the rest is
    for those who select and count without parsing.

    Extern calls have no known FLOPs and count as none.
    """
    program = canonical(program)
    flops, bytes_fused = program.flops(), program.bytes_fused()
    return {
        "text": to_text(program),
        "inputs": [
            {
                "name": value.name,
                **_type(value.type),
                "layout": value.type.layout.value,
                "init": {"kind": value.init.kind, "low": value.init.low, "high": value.init.high},
            }
            for value in program.inputs
        ],
        "calls": [
            {
                "op": call.op,
                "args": {name: _argument(value) for name, value in call.args},
                "outputs": [
                    {"name": name, **_type(result_type)}
                    for name, result_type in zip(call.outputs, call.types, strict=True)
                ],
            }
            for call in program.calls
        ],
        "outputs": [{"name": name, **_type(program.type_of(name))} for name in program.outputs],
        "level": len(program.calls),
        "fingerprint": fingerprint(program),
        "flops": flops,
        "bytes_unfused": program.bytes_unfused(),
        "bytes_fused": bytes_fused,
        "intensity": flops / bytes_fused if bytes_fused else 0.0,
    }


def _type(made: TensorType) -> Record:
    return {"shape": list(made.shape), "dtype": made.dtype}


def _argument(value: Any) -> Any:
    """Uses of a value are {"ref": name}, tuples lists; infinities and NaN, which JSON lacks, are
    {"float": "inf"}."""
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, tuple):
        return [_argument(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value
