"""Draws of inputs: parameters by slot, operands of products scaled once, sizes kept near 1."""

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program
from kernelwright.programs.reference import make_inputs, run
from kernelwright.synth.inputs import with_inits


def inits(builder: Builder, outputs) -> list[Init]:
    return [value.init for value in with_inits(builder.program(outputs)).inputs]


def size(program: Program) -> float:
    return float(run(program, make_inputs(program, 0))[0].square().mean().sqrt())


def test_of_two_inputs_the_right_one_is_scaled():
    builder = Builder()
    x, y = builder.input(TensorType((64, 256))), builder.input(TensorType((256, 32)))
    made = builder.call("matmul", input=x, other=y)
    assert inits(builder, made) == [Init("randn"), Init("randn", 0.0, 0.0625)]


def test_the_left_one_where_the_right_one_is_a_result():
    builder = Builder()
    x, y = builder.input(TensorType((64, 256))), builder.input(TensorType((256, 32)))
    (t,) = builder.call("tanh", input=y)
    made = builder.call("matmul", input=x, other=t)
    assert inits(builder, made) == [Init("randn", 0.0, 0.0625), Init("randn")]


def test_one_that_is_transposed_first_is_an_input_still():
    builder = Builder()
    x, y = builder.input(TensorType((64, 256))), builder.input(TensorType((32, 256)))
    (t,) = builder.call("transpose", input=y, dim0=0, dim1=1)
    made = builder.call("matmul", input=x, other=t)
    assert inits(builder, made) == [Init("randn"), Init("randn", 0.0, 0.0625)]


def test_one_that_something_else_reads_too_keeps_its_size():
    builder = Builder()
    x, y = builder.input(TensorType((64, 64))), builder.input(TensorType((64, 64)))
    (t,) = builder.call("matmul", input=x, other=y)
    made = builder.call("add", input=t, other=y)
    assert inits(builder, made) == [Init("randn"), Init("randn")]


def test_parameters_of_layers_are_drawn_as_a_models_are():
    builder = Builder()
    x, w, b = (builder.input(TensorType(s)) for s in ((8, 64), (32, 64), (32,)))
    (t,) = builder.call("linear", input=x, weight=w, bias=b)
    mean, var, scale = (builder.input(TensorType((32,))) for _ in range(3))
    made = builder.call("batch_norm", input=t, running_mean=mean, running_var=var, weight=scale)
    assert inits(builder, made) == [
        Init("randn"),
        Init("randn", 0.0, 0.125),
        Init("randn", 0.0, 0.1),
        Init("randn", 0.0, 0.1),
        Init("rand", 0.5, 2.0),
        Init("rand", 0.5, 1.5),
    ]


def test_domains_come_before_everything():
    builder = Builder()
    x, y = builder.input(TensorType((8, 8))), builder.input(TensorType((8, 8)))
    (t,) = builder.call("div", input=x, other=y)
    made = builder.call("matmul", input=t, other=y)
    assert inits(builder, made)[1] == Init("rand", 0.5, 2.0)


@pytest.mark.parametrize("count", [4, 64, 4096])
@pytest.mark.parametrize("op", ["prod", "cumprod"])
def test_products_over_a_dimension_stay_near_one(op, count):
    builder = Builder()
    x = builder.input(TensorType((64, count)))
    made = builder.call(op, input=x, dim=1)
    assert 0.5 < size(with_inits(builder.program(made))) < 2


def test_a_chain_of_products_and_convolutions_keeps_its_size():
    builder = Builder()
    value = builder.input(TensorType((2, 16, 12, 12)))
    for _ in range(5):
        w = builder.input(TensorType((16, 16, 3, 3)))
        (value,) = builder.call("conv2d", input=value, weight=w, padding=(1, 1))
        y = builder.input(TensorType((2, 16, 12, 12)))
        (value,) = builder.call("matmul", input=value, other=y)
    program = with_inits(builder.program([value]))
    assert 0.1 < size(program) < 3
    plain = builder.program([value])
    assert size(plain) > 1e4
