"""Faults that a text shows: found where they are, and nowhere else."""

import pytest

from kernelwright.policy.faults import first_fault
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.whole import write_whole

PROGRAM = parse(
    "import torch\nimport torch.nn.functional as F\n\n\ndef get_inputs():\n"
    "    x0 = torch.randn((8, 16), dtype=torch.float32)\n"
    "    x1 = torch.randn((4, 8, 16), dtype=torch.float32)\n    return [x0, x1]\n\n\n"
    "def fused_operator(x0, x1):\n    t0 = torch.add(x0, x1)\n    return [t0]\n"
)
HEAD = "import torch\nimport triton\nimport triton.language as tl\n\nLIMIT = 4\n\n"


def found(body, *, before=""):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return first_fault(f"{HEAD}{before}def fused_operator(x0, x1):\n{lines}", PROGRAM)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [t3]", "t3 is not defined"),
        ("t0 = t0 + 1\nreturn [t0]", "t0 is not defined"),
        ("t0 = x0\ntorch.add(t0, t1)\nt1 = x1\nreturn [t1]", "t1 is not defined"),
        ("def inner():\n    return x0\nreturn [inner(), missing]", "missing is not defined"),
        ("n += 1\nreturn [x0]", "n is not defined"),
        ("a, b, c = x0.shape\nreturn [x0]", "x0 has 2 dimensions, not 3"),
        ("a, b = x1.shape\nreturn [x0]", "x1 has 3 dimensions, not 2"),
        ("y = torch.empty((4, 4))\na, b, c = y.shape\nreturn [y]", "y has 2 dimensions, not 3"),
        ("y = x1.transpose(0, 1).unsqueeze(0)\na, b, c = y.shape\nreturn [y]", "y has 4"),
        ("y = x0.view(8, 4, 4)\na, b = y.shape\nreturn [y]", "y has 3 dimensions, not 2"),
    ],
)
def test_what_is_sure_to_fail_is_found(body, message):
    fault = found(body)
    assert fault is not None
    assert message in fault.message


@pytest.mark.parametrize(
    "body",
    [
        "return [x0 + LIMIT]",
        "if x0.numel() > 3:\n    y = x0\nelse:\n    y = x1\nreturn [y]",
        "for i in range(3):\n    if i:\n        y = z\n    z = x0\nreturn [y]",
        "def inner(a):\n    return a + later\nlater = x0\nreturn [inner(x1)]",
        "sizes = [n for n in x0.shape]\nreturn [torch.empty(sizes)]",
        "*rest, last = x1.shape\nreturn [x0]",
        "try:\n    y = x0\nexcept ValueError as error:\n    raise error\nreturn [y]",
        "with torch.no_grad() as scope:\n    y = x0, scope\nreturn [y[0]]",
        "y = x0\nif x0.numel():\n    y = x1\na, b, c = y.shape\nreturn [y]",
        "y = x1.reshape(*x0.shape)\na, b = y.shape\nreturn [y]",
        "y = x1.view(x0.shape)\na, b = y.shape\nreturn [y]",
        "a, b = (x0 if x0.numel() else x1).shape\nreturn [x0]",
        "global made\nmade = x0\nreturn [made]",
        "if (n := x0.numel()) and n > 3:\n    return [x0]\nreturn [x1]",
        "return [x0, __file__]",
    ],
)
def test_what_may_be_right_is_none(body):
    assert found(body) is None


def test_a_module_that_imports_everything_may_know_any_name():
    source = "from triton.language import *\n\n\ndef fused_operator(x0, x1):\n    return [cdiv]\n"
    assert first_fault(source, PROGRAM) is None


def test_ranks_are_followed_through_host_functions():
    before = (
        "def first(a):\n    a0, a1, a2 = a.shape\n    y = torch.empty((a0, a1))\n    return y\n\n\n"
        "def second(b):\n    b0, b1, b2 = b.shape\n    return b\n\n\n"
    )
    assert found("return [second(first(x1))]", before=before) is None, "returns are not followed"
    fault = found("t0 = first(x1)\nt1 = second(t0)\nreturn [t1]", before=before)
    assert fault.message == "b has 2 dimensions, not 3"
    assert found("t0 = first(x1)\nreturn [t0]", before=before) is None


def test_functions_that_call_themselves_end():
    before = "def again(a):\n    b = again(a)\n    return b\n\n\n"
    assert found("y = again(x0)\nreturn [y]", before=before) is None


def test_kernels_are_read_too():
    kernel = (
        "@triton.jit\ndef k(x, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n    tl.store(x + j, i)\n\n\n"
    )
    fault = found("k[(1,)](x0, BLOCK=16)\nreturn [x0]", before=kernel)
    assert fault.message == "j is not defined"
    assert f"{HEAD}{kernel}".splitlines()[fault.line - 1] == "    tl.store(x + j, i)"


def test_a_text_that_is_no_python_has_no_such_fault():
    assert first_fault("def fused_operator(:\n", PROGRAM) is None


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 5, 20])
def test_the_teachers_answers_have_none(level):
    lines = [line for line in benchmark_programs() if line["level"] == level][:12]
    for line in lines:
        program = parse(line["text"])
        for candidate in write_whole(program, limit=2, seed=0):
            assert first_fault(candidate.source, program) is None, candidate.source
