"""Reference times of drawn programs, on a GPU."""

import json

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.record import program_record
from kernelwright.synth.times import EagerClock


def line_of(*shape):
    builder = Builder()
    x = builder.input(TensorType(shape))
    (made,) = builder.call("relu", input=x)
    program = builder.program(builder.call("softmax", input=made, dim=-1))
    return json.dumps({"record": "program", **program_record(program)})


def test_a_program_that_moves_more_takes_longer():
    clock = EagerClock()
    small, large = (
        json.loads(clock.timed(line_of(*shape)))["eager_s"] for shape in ((64, 64), (8192, 16384))
    )
    assert 1e-6 < small < large
    assert large > 4 * 4 * 8192 * 16384 / 10e12  # bytes of two calls, faster than any memory


def test_the_rest_of_the_record_stays_as_it_is():
    line = line_of(64, 64)
    assert json.loads(line).items() < json.loads(EagerClock().timed(line)).items()


def test_a_program_that_does_not_fit_has_no_time():
    assert json.loads(EagerClock().timed(line_of(1 << 20, 1 << 19)))["eager_s"] is None
