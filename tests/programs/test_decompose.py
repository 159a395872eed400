"""Answers taken apart: each step of a right answer is right alone, and a broken kernel is found."""

import ast
import re
from functools import partial

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.decompose import steps_of
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.whole import write_best, write_whole
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

LINES = [line for line in benchmark_programs() if line["drawn"]["group"] == "level 5"][::25]


def calls_of_entry(source):
    (entry,) = [n for n in ast.parse(source).body if getattr(n, "name", "") == "fused_operator"]
    return [n for n in ast.walk(entry) if isinstance(n, ast.Call) and "fused_" in ast.unparse(n)]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
@pytest.mark.parametrize("write", [partial(write_whole, seed=2), write_best], ids=["drawn", "best"])
def test_every_call_of_the_entry_is_a_step_and_steps_make_up_the_program(line, write):
    program = parse(line["text"])
    candidate, *_ = write(program, limit=1)
    steps = steps_of(candidate.source, program)
    if not (called := calls_of_entry(candidate.source)):
        assert not steps, "one kernel for all of the program: there is nothing to take apart"
        return
    assert [step.number for step in steps] == list(range(len(called)))
    ops = [call.op for step in steps for call in step.program.calls]
    assert len(ops) >= len(program.calls) - candidate.source.count(" = torch.")
    for step in steps:
        assert parse(to_text(step.program)) == step.program
        defined = {n.name for n in ast.parse(step.source).body if isinstance(n, ast.FunctionDef)}
        assert defined == {*step.functions, "fused_operator"}


def chain():
    """softmax(exp(x) @ w) and its sum, in kernels of their own."""
    builder = Builder()
    x, w = builder.input(TensorType((12, 16))), builder.input(TensorType((16, 20)))
    (a,) = builder.call("exp", input=x)
    (b,) = builder.call("matmul", input=a, other=w)
    (c,) = builder.call("softmax", input=b, dim=-1)
    (d,) = builder.call("sum", input=c)
    return builder.program([c, d])


def in_kernels_of_their_own(program):
    for seed in range(40):
        for candidate in write_whole(program, limit=1, seed=seed):
            if len(steps_of(candidate.source, program)) == len(program.calls):
                return candidate
    raise AssertionError("no cut into single calls was drawn")


@pytest.mark.slow
def test_a_broken_kernel_is_the_step_that_is_wrong():
    program = chain()
    source = in_kernels_of_their_own(program).source
    broken, times = re.subn(r"(tl\.store\(t0_ptr.*), t0,", r"\1, t0 * 1.5,", source)
    assert times == 1
    with Judge(JudgeOptions(device="cpu", precision="strict", mode="pure")) as judge:

        def is_right(program, source):
            candidate = Candidate(source=source, origin="test")
            return judge.verify(program_task(program), candidate).accepted

        assert not is_right(program, broken)
        verdicts = {s.makes: is_right(s.program, s.source) for s in steps_of(broken, program)}
    assert verdicts == {("t0",): False, ("t1",): True, ("t2",): True, ("t3",): True}


WRAPPER = """
@triton.jit
def kernel(p):
    pass


def helper(x):
    return x


def fused_all(*given):
    kernel[(1,)](helper(given[0]))
    return list(given)


"""


def steps(body, program=None):
    text = f"import triton\n\nSCALE = 2\n{WRAPPER}def fused_operator(a, b):\n{body}"
    return steps_of(text, program or chain())


def test_parameters_go_by_their_place_and_an_input_that_is_left_out_is_given_all_the_same():
    (step,) = steps("    [t1] = fused_all(a)\n    return [t1]\n")
    assert [call.op for call in step.program.calls] == ["exp", "matmul"]
    assert len(step.program.inputs) == 2, "the answer does not read the second: its step is wrong"
    assert "def fused_operator(x0, x1):\n    return list(fused_all(x0))" in step.source
    assert step.functions == {"fused_all", "helper", "kernel"}
    assert "SCALE = 2" in step.source


@pytest.mark.parametrize(
    "body",
    [
        "    [t9] = fused_all(a)\n",
        "    [t1] = fused_all(a, other)\n",
        "    [t1] = fused_all(a, c=b)\n",
        "    [t0] = fused_all(a, b)\n",
        "    [t1] = unknown(a, b)\n",
        "    [t1] = fused_all(a)[:1]\n",
        "    a = b\n    [t0] = fused_all(a)\n",
    ],
    ids=["no such value", "no such name", "by keyword", "reads what cannot matter", "no function",
         "a part of a result", "a name that is bound anew"],
)  # fmt: skip
def test_steps_whose_names_say_nothing_are_left_out(body):
    assert steps(body) == []


def test_lines_of_pytorch_are_trusted():
    (step,) = steps("    t0 = torch.exp(a)\n    [t1] = fused_all(t0, b)\n    del t0\n")
    assert [call.op for call in step.program.calls] == ["matmul"]


def test_one_tensor_and_several_are_returned_as_lists():
    (first, second) = steps("    t2 = fused_all(a, b)\n    [t3] = fused_all(t2)\n")
    assert "return list([fused_all(x0, x1)])" in first.source
    assert "return list(fused_all(t2))" in second.source


@pytest.mark.parametrize("text", ["def fused_operator(a", "x = 1", "def fused_operator(a): pass"])
def test_an_answer_that_cannot_be_read_has_no_steps(text):
    assert steps_of(text, chain()) == []
