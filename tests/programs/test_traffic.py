"""The estimate of what a candidate moves: by the parts of its plan, and never better than these."""

from dataclasses import replace

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.traffic import (
    BYTES_PER_S,
    LAUNCH_S,
    eager_bytes,
    eager_seconds,
    modelled_speedup,
    moved_bytes,
    planned_seconds,
)

BYTES = 64 * 64 * 4


def chain():
    """exp, a view, tanh, sin: t0 .. t3."""
    builder = Builder()
    x = builder.input(TensorType((64, 64)))
    (x,) = builder.call("exp", input=x)
    (x,) = builder.call("transpose", input=x, dim0=0, dim1=1)
    for op in ("tanh", "sin"):
        (x,) = builder.call(op, input=x)
    return builder.program([x])


def planned(*parts):
    plan = tuple(
        KernelPlan(kernel=f"k{i}_kernel", fuses=("exp",), part=part, loop="pointwise")
        for i, part in enumerate(parts)
    )
    return Candidate(source="", plan=plan)


def test_each_part_reads_and_writes_once():
    program = chain()
    whole = ("t0", "t1", "t2", "t3")
    assert moved_bytes(program, planned(whole)) == program.bytes_fused() == 2 * BYTES
    assert moved_bytes(program, planned(whole, whole)) == 2 * BYTES, "two kernels of one part"
    assert moved_bytes(program, planned(("t0",), ("t1", "t2", "t3"))) == 4 * BYTES
    assert moved_bytes(program, planned(("t0",), ("t2",), ("t3",))) == 6 * BYTES


def test_a_plan_without_parts_is_one():
    assert moved_bytes(chain(), planned(())) == 2 * BYTES
    assert moved_bytes(chain(), replace(planned(()), plan=())) == 2 * BYTES


def test_a_plan_that_does_not_add_up_saves_nothing():
    program = chain()
    for parts in ((("t0",),), (("t0", "t3"), ("t2",)), (("y",),)):
        assert (
            moved_bytes(program, planned(*parts))
            == eager_bytes(program, program.calls)
            == 6 * BYTES
        )


def seconds(num_bytes, launches):
    return num_bytes / BYTES_PER_S + launches * LAUNCH_S


def test_estimates_are_bytes_and_launches():
    program = chain()
    whole = planned(("t0", "t1", "t2", "t3"))
    assert eager_seconds(program) == seconds(6 * BYTES, 3)
    assert planned_seconds(program, whole) == seconds(2 * BYTES, 1)
    assert modelled_speedup(program, whole, {"k0_kernel": 1}) == (
        seconds(6 * BYTES, 3) / seconds(2 * BYTES, 1)
    )


def test_a_plan_that_names_fewer_kernels_than_were_launched_saves_nothing():
    """The plan is the model's word; the launches are counted by the judge."""
    program = chain()
    whole = planned(("t0", "t1", "t2", "t3"))
    assert modelled_speedup(program, whole, {"k0_kernel": 1, "other": 2}) == 1.0
    assert modelled_speedup(program, whole, {"k0_kernel": 3}) == 1.0
    assert modelled_speedup(program, replace(whole, plan=()), {"k0_kernel": 1}) < 3
