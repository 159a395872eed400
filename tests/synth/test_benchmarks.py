"""Tasks of benchmarks are known again, whatever their sizes, and dropped; single calls are not."""

import json
from dataclasses import replace

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program
from kernelwright.synth.benchmarks import is_benchmark, is_vocabulary, known, task_fingerprint
from kernelwright.synth.quality import Reason, refusal
from kernelwright.synth.recipe import Quality


def convolution_relu_bias(channels=8, dtype="float32", reshaped=False, swapped=False) -> Program:
    """What many a benchmark asks for: a convolution, ReLU, one number a channel added."""
    builder = Builder()
    x = builder.input(TensorType((2, channels, 16, 16), dtype))
    w = builder.input(TensorType((2 * channels, channels, 3, 3), dtype))
    b = builder.input(TensorType((2 * channels,), dtype))
    shift = builder.input(TensorType((2 * channels, 1, 1), dtype))
    (t,) = builder.call("conv2d", input=x, weight=w, bias=b)
    (t,) = builder.call("relu", input=t)
    if reshaped:
        (shift,) = builder.call("unsqueeze", input=shift, dim=0)
    one, other = (shift, t) if swapped else (t, shift)
    return builder.program(builder.call("add", input=one, other=other))


def test_a_task_of_a_benchmark_is_dropped():
    found = refusal(convolution_relu_bias(), Quality())
    assert found is not None
    assert found.reason is Reason.BENCHMARK
    assert refusal(convolution_relu_bias(), Quality(avoid_benchmarks=False)) is None


@pytest.mark.parametrize(
    "other",
    [{"channels": 32}, {"dtype": "float16"}, {"reshaped": True}, {"swapped": True}],
    ids=str,
)
def test_sizes_dtypes_views_and_the_order_of_operands_hide_nothing(other):
    assert is_benchmark(convolution_relu_bias(**other))


def test_another_program_is_none():
    program = convolution_relu_bias()
    calls = (program.calls[0], replace(program.calls[1], op="selu"), program.calls[2])
    assert not is_benchmark(replace(program, calls=calls))


def test_single_calls_are_vocabulary():
    builder = Builder()
    x = builder.input(TensorType((4, 8)))
    (t,) = builder.call("abs", input=x)
    one = builder.program([t])
    assert is_vocabulary(one)
    assert not is_benchmark(one)
    disguised = builder.program(builder.call("unsqueeze", input=t, dim=0))
    assert len(disguised.calls) == 2
    assert is_vocabulary(disguised)
    assert not is_benchmark(disguised)


def test_idle_dropout_hides_nothing_and_live_dropout_is_a_call():
    def program(training: bool) -> Program:
        builder = Builder()
        (t,) = builder.call("tanh", input=builder.input(TensorType((4, 8))))
        (t,) = builder.call("dropout", input=t, training=training)
        return builder.program(builder.call("exp", input=t))

    assert task_fingerprint(program(False))[1] == 2
    assert task_fingerprint(program(True))[1] == 3


def test_files_of_other_suites_are_kept_clear_of_too(tmp_path):
    builder = Builder()
    (t,) = builder.call("sin", input=builder.input(TensorType((4, 8))))
    program = builder.program(builder.call("expm1", input=t))
    assert not is_benchmark(program)
    file = tmp_path / "suite.json"
    file.write_text(json.dumps({"fingerprints": [task_fingerprint(program)[0]]}))
    assert is_benchmark(program, (str(file),))
    found = refusal(program, Quality(avoid=(str(file),)))
    assert found is not None
    assert found.reason is Reason.BENCHMARK


@pytest.mark.parametrize("text", ["", "[]", '{"fingerprints": 3}'])
def test_a_file_that_holds_no_fingerprints_is_refused(tmp_path, text):
    file = tmp_path / "suite.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="data fingerprints"):
        known((str(file),))


def test_the_shipped_file_holds_fingerprints_and_counts_alone():
    names = known(())
    assert len(names) > 100
    assert all(len(name) == 16 and set(name) <= set("0123456789abcdef") for name in names)
