"""Three hand-made programs in a file, as `kernelwright synth` writes them."""

from kernelwright.core import record
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.record import program_record

SPACE = {
    "operators": {"relu": "pointwise", "add": "pointwise", "sum": "reduction", "mm": "matrix"},
    "attributes": {
        "sum": {"keepdim": {"default": False, "values": [False, True]}},
        "add": {"alpha": {"default": 1, "values": [1, 2]}},
    },
    "kinds": ["float32/1", "float32/2"],
    "makes": {"relu": [0, 1], "add": [0, 1], "sum": [0], "mm": [1]},
    "reads": {"relu": [0, 1], "add": [0, 1], "sum": [1], "mm": [1]},
}


def chain():
    """sum(relu(x)) of 64 x 32: 2048 + 2048 FLOPs and 8192 + 256 bytes."""
    builder = Builder()
    x = builder.input(TensorType((64, 32)))
    (a,) = builder.call("relu", input=x)
    return builder.program(builder.call("sum", input=a, dim=(1,)))


def residual():
    """relu(add(relu(x), x)): x waits beside what relu makes of it."""
    builder = Builder()
    x = builder.input(TensorType((5,), "float16"))
    (a,) = builder.call("relu", input=x)
    (b,) = builder.call("add", input=a, other=x)
    return builder.program(builder.call("relu", input=b))


def shift():
    """add(x, y, alpha=2) of one element: a scalar."""
    builder = Builder()
    x, y = builder.input(TensorType(())), builder.input(TensorType(()))
    return builder.program(builder.call("add", input=x, other=y, alpha=2))


def drawn(group, index, **more):
    found = {
        "group": group,
        "index": index,
        "attempt": 0,
        "drafts": 2,
        "proposals": 4,
        "accepted": 1,
    }
    return found | {"refused": {}, "uniform": True} | more


def line(program, group, index, **more):
    return {"record": "program", "drawn": drawn(group, index, **more), **program_record(program)}


def records():
    header = {"record": "synth", "seed": 0, "space": SPACE}
    lost = {"record": "given_up", "drawn": drawn("mm", 0, refused={"domain": 5}, proposals=0)}
    lost["drawn"]["accepted"] = 0
    return [
        header,
        line(chain(), "level 2", 0, attempt=3, refused={"duplicate": 1, "domain": 2}),
        line(residual(), "level 3", 0, uniform=False),
        line(shift(), "level 1", 0),
        lost,
    ]


def write(path):
    record.append(path, records())
    return path
