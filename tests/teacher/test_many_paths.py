"""Programs in which the number of paths between two values is exponential in the calls."""

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction import writer as matmul
from kernelwright.teacher.contraction.contraction import find
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile import views as tile_views
from kernelwright.teacher.tile.index import Index, Term
from kernelwright.teacher.tile.views import sources

NUM_CALLS = 40
ROWS: Index = ((Term("m", "M", 8),), ())


def doubled() -> Program:
    """Two inputs are added, then each sum is added to itself: 2 ** 40 paths to each input."""
    builder = Builder()
    first, second = (builder.input(TensorType((8, 1))) for _ in range(2))
    (value,) = builder.call("add", input=first, other=second)
    for _ in range(NUM_CALLS):
        (value,) = builder.call("add", input=value, other=value)
    return builder.program([value])


def test_each_source_of_a_value_is_given_once_however_many_paths_lead_there(monkeypatch):
    visits = []
    operands = tile_views.operands

    def counted(program, call, index):
        visits.append(call)
        return operands(program, call, index)

    monkeypatch.setattr(tile_views, "operands", counted)
    program = doubled()
    (value,) = program.outputs
    assert [name for name, _ in sources(program, value, ROWS)] == ["x0", "x1"]
    assert len(visits) == NUM_CALLS + 1


def test_a_product_beside_an_output_that_does_not_need_it_is_refused_before_any_schedule():
    builder = Builder()
    first, second = (builder.input(TensorType((8, 8))) for _ in range(2))
    (shifted,) = builder.call("exp", input=first)
    (product,) = builder.call("matmul", input=shifted, other=second)
    (result,) = builder.call("relu", input=product)
    with pytest.raises(NotWritable, match="does not come from the product"):
        find(builder.program([result, shifted]))
    assert find(builder.program([result])).lengths == {"m": 8, "n": 8, "k": 8}


def scaled_product() -> Program:
    builder = Builder()
    first, second = (builder.input(TensorType((64, 64))) for _ in range(2))
    (product,) = builder.call("matmul", input=first, other=second)
    return builder.program(builder.call("relu", input=product))


def summed_rows() -> Program:
    builder = Builder()
    first, second = (builder.input(TensorType((64, 64))) for _ in range(2))
    (product,) = builder.call("matmul", input=first, other=second)
    return builder.program(builder.call("sum", input=product, dim=(1,)))


def summed_columns() -> Program:
    builder = Builder()
    first, second = (builder.input(TensorType((64, 64))) for _ in range(2))
    (product,) = builder.call("matmul", input=first, other=second)
    return builder.program(builder.call("sum", input=product, dim=(0,)))


def enlarged_vector() -> Program:
    """The result has more columns than the product, whose only column is repeated."""
    builder = Builder()
    first, second = builder.input(TensorType((64, 64))), builder.input(TensorType((64, 1)))
    (product,) = builder.call("matmul", input=first, other=second)
    other = builder.input(TensorType((64, 64)))
    return builder.program(builder.call("mul", input=product, other=other))


@pytest.mark.parametrize(
    ("program", "is_writable"),
    [
        (scaled_product(), True),
        (summed_rows(), True),
        (summed_columns(), False),
        (enlarged_vector(), False),
    ],
    ids=["scaled product", "summed rows", "summed columns", "enlarged vector"],
)
def test_the_form_decides_whether_a_product_is_written_and_its_tiles_do_not(program, is_writable):
    answers: dict[object, set[bool]] = {}
    for way in matmul.ways(program, "strict"):
        form = way.kind[0]
        try:
            way.write()
            answers.setdefault(form, set()).add(True)
        except NotWritable:
            answers.setdefault(form, set()).add(False)
    assert answers
    assert all(len(of_form) == 1 for of_form in answers.values())
    assert matmul.classify(program) == is_writable == (True in set().union(*answers.values()))
