"""Proposals: what a writer can write as a whole, grown from every call."""

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.fragment import CallGraph, extract
from kernelwright.programs.fragments.partition import propose
from kernelwright.programs.program import Program
from kernelwright.teacher.writer import family


def mlp() -> Program:
    """linear -> gelu -> linear -> softmax -> sum."""
    b = Builder()
    x, w, v = (b.input(TensorType(shape)) for shape in ((8, 16), (32, 16), (4, 32)))
    [t] = b.call("linear", input=x, weight=w)
    [t] = b.call("gelu", input=t)
    [t] = b.call("linear", input=t, weight=v)
    [t] = b.call("softmax", input=t, dim=1)
    return b.program(b.call("sum", input=t, dim=(0,)))


def test_no_fragment_holds_two_products():
    program = mlp()
    for part in propose(program, family):
        assert sum(program.calls[i].op == "linear" for i in part) <= 1


def test_a_product_takes_its_epilogue():
    assert frozenset({0, 1}) in propose(mlp(), family)


def test_a_product_is_tried_without_the_calls_that_compute_its_factor():
    """Its kernel would compute them again for every tile of the result."""
    found = propose(mlp(), family)
    assert frozenset({1, 2}) in found, "gelu and linear"
    assert frozenset({2}) in found


def test_a_product_is_not_tried_without_a_view():
    b = Builder()
    x, w = b.input(TensorType((4, 4, 8))), b.input(TensorType((4, 8)))
    [t] = b.call("reshape", input=x, shape=(16, 8))
    [t] = b.call("linear", input=t, weight=w)
    program = b.program(b.call("relu", input=t))
    assert propose(program, family)[0] == frozenset({0, 1, 2})
    assert frozenset({1, 2}) not in propose(program, family)


def convolutions() -> Program:
    """conv -> relu -> conv -> add of the first convolution's result."""
    b = Builder()
    x, w = b.input(TensorType((2, 4, 6, 6))), b.input(TensorType((4, 4, 3, 3)))
    [t] = b.call("conv2d", input=x, weight=w, padding=(1, 1))
    [u] = b.call("relu", input=t)
    [u] = b.call("conv2d", input=u, weight=w, padding=(1, 1))
    return b.program(b.call("add", input=u, other=t))


def test_a_convolution_takes_neighbours_on_both_sides_and_none_holds_two():
    program = convolutions()
    found = propose(program, family)
    assert frozenset({1, 2, 3}) in found
    assert frozenset({0, 1}) in found
    for part in found:
        assert sum(program.calls[i].op == "conv2d" for i in part) <= 1


def views_between_products() -> Program:
    """linear -> transpose -> reshape -> linear: both products grow over the views."""
    b = Builder()
    x, w, v = (b.input(TensorType(shape)) for shape in ((8, 16), (32, 16), (4, 8)))
    [t] = b.call("linear", input=x, weight=w)
    [t] = b.call("t", input=t)
    [t] = b.call("reshape", input=t, shape=(4, 8, 8))
    return b.program(b.call("linear", input=t, weight=v))


def test_what_a_part_leaves_of_another_is_proposed():
    found = propose(views_between_products(), family)
    assert {frozenset({0, 1, 2}), frozenset({1, 2, 3}), frozenset({3})} <= set(found)
    assert frozenset({1}) not in propose(mlp(), family)
    assert frozenset({2}) in propose(mlp(), family, every=True)


def test_what_nobody_can_write_is_not_proposed():
    assert propose(mlp(), lambda _: None) == []


def only_pointwise(program: Program) -> str | None:
    return found if (found := family(program)) == "pointwise" else None


def test_views_are_not_worth_a_kernel_nor_are_lone_pointwise_calls_of_a_larger_program():
    b = Builder()
    x, w = b.input(TensorType((4, 6))), b.input(TensorType((24, 2)))
    [t] = b.call("sigmoid", input=x)
    [t] = b.call("reshape", input=t, shape=(1, 24))
    program = b.program(b.call("matmul", input=t, other=w))
    assert propose(program, only_pointwise) == []
    assert propose(program, only_pointwise, every=True) != []


def test_after_its_time_nothing_more_is_looked_for():
    assert propose(mlp(), family, for_s=0.0) == []


def test_a_pointwise_call_that_is_all_is_tried():
    b = Builder()
    x = b.input(TensorType((4, 6)))
    [t] = b.call("reshape", input=x, shape=(24,))
    assert propose(b.program([t]), family) == []
    assert propose(b.program(b.call("relu", input=t)), family)


def test_growth_closes_over_paths_that_leave_and_return():
    b = Builder()
    x = b.input(TensorType((4, 6)))
    [a] = b.call("exp", input=x)
    [c] = b.call("tanh", input=a)
    [d] = b.call("sigmoid", input=a)
    [e] = b.call("mul", input=c, other=d)
    program = b.program([e])
    assert propose(program, family)[0] == frozenset(range(4))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    b = Builder()
    values = [b.input(TensorType((3, 5))) for _ in range(2)]
    for _ in range(draw(st.integers(2, 7))):
        pick = st.sampled_from(values)
        op = draw(st.sampled_from(["relu", "tanh", "add", "mul", "softmax"]))
        if op in ("add", "mul"):
            made = b.call(op, input=draw(pick), other=draw(pick))
        elif op == "softmax":
            made = b.call(op, input=draw(pick), dim=1)
        else:
            made = b.call(op, input=draw(pick))
        values += made
    return b.program(values[-1:])


@given(programs())
def test_every_proposal_is_convex_connected_and_writable(program):
    found = propose(program, family)
    assert len(found) == len(set(found))
    for part in found:
        assert CallGraph(program).is_convex(part)
        assert CallGraph(program).is_connected(part)
        assert family(extract(program, part).program) is not None


def test_what_was_laid_out_for_a_product_is_a_boundary():
    """A kernel that read the factor as it lay before would gain nothing by the copy."""
    b = Builder()
    x, y = b.input(TensorType((64, 64))), b.input(TensorType((64, 64)))
    (t,) = b.call("transpose", input=y, dim0=0, dim1=1)
    (t,) = b.call("to_layout", input=t, memory_format="contiguous")
    (t,) = b.call("transpose", input=t, dim0=0, dim1=1)
    (t,) = b.call("matmul", input=x, other=t)
    program = b.program(b.call("relu", input=t))
    assert set(propose(program, family)) == {frozenset({0, 1}), frozenset({2, 3, 4})}
