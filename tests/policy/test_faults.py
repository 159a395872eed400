"""Faults that a text shows: found where they are, and nowhere else."""

import random

import pytest
import torch

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


HELPERS = """class Missing(Exception):
    pass


def last(*, a=None, b):
    a0, a1, a2 = b.shape
    return b


def second(a, b):
    b0, b1 = b.shape
    return b


def only(a, /, b, *rest):
    a0, a1 = a.shape
    b0, b1, b2 = b.shape
    return b


def early(a):
    if a.numel():
        return a.sum()
    return a


def inside(a):
    if a.dim() < 3:
        return a
    a0, a1, a2 = a.shape
    return unknown


def slowly(a):
    a0, a1, a2, a3 = a.shape
    yield unknown


def several(a, b):
    return a, (a, b), b


def unused(a):
    return unknown


def rows(a):
    return a


def install():
    global CACHE, LIMIT
    LIMIT += 1
    CACHE = LIMIT


def twice(a):
    a0, a1, a2 = a.shape
    return a


def twice(a):
    a0, a1 = a.shape
    return a


def replaced(a):
    a0, a1, a2 = a.shape
    return unknown


if True:
    def replaced(a):
        return a


@(lambda function: lambda a: a)
def dropped(a):
    a0, a1, a2 = a.shape
    return unknown


def with_defaults(a, b=None, *, c=(1, 2)):
    c0, c1 = c
    return a


"""
RIGHT = [
    # parameters and arguments
    "y = second(*[x1], x0)",
    "y = second(*x0[:1], x0)",
    "y = second(b=x0, a=x1)",
    "y = last(b=x1, a=x0)",
    "y = only(x0, x1)",
    "y = only(x0, x1, x0, x0)",
    "y = with_defaults(x1)",
    "y = early(x0)\nassert y.shape == ()\nz = x0.unsqueeze(0)\n() = y.shape",
    "y = inside(x0)",
    "y = slowly(x0)",
    "y = replaced(x0)",
    "y = dropped(x0)",
    "y = twice(x0)",
    "second = lambda a, b: a\ny = second(x0, x1)",
    "def second(a, b):\n    return a\ny = second(x0, x1)",
    # results
    "a, (b, c), d = several(x0, x1)\nc0, c1, c2 = c.shape",
    "a, *b = several(x0, x1)\na0, a1 = a.shape",
    "*a, b = several(x0, x1)\nb0, b1, b2 = b.shape",
    "y = x0[:1]\n(a,) = rows(y)\n(a0,) = a.shape",
    "y = x0[:1]\n(a,) = y\n(a0,) = a.shape",
    "y = x0\n(a, y), z = (x0, x1), x0\na, b, c = y.shape",
    "y = x0\na, *y = x0, 1, 2\ny = x1\na, b, c = y.shape",
    # views
    "y = x0.view(dtype=torch.int32)\na, b = y.shape",
    "y = x0.view(size=(4, 4, 8))\na, b, c = y.shape",
    "y = x0.reshape(shape=(2, 64))\na, b = y.shape",
    "y = x0.expand(size=(3, 8, 16))\na, b, c = y.shape",
    "y = x0.view(torch.int32)\na, b = y.shape",
    "y = x0.view([4, 4, 8])\na, b, c = y.shape",
    "y = torch.Tensor.view(x0, 4, 32)\na, b = y.shape",
    "y = torch.reshape(x0, (4, 32))\na, b = y.shape",
    "import numpy\ny = numpy.reshape(x0.numpy(), (4, 4, 8))\na, b, c = y.shape",
    "y = torch.zeros(())\n() = y.shape",
    # tensors that take another rank
    "y = x0.clone()\ny.unsqueeze_(0)\na, b, c = y.shape",
    "y = x0.clone()\nz = y\nz.resize_(2, 3, 4)\na, b, c = y.shape",
    "y = x0.clone()\ny.data = x1\na, b, c = y.shape",
    "y = torch.empty((0,))\ntorch.add(x0, x1, out=y)\na, b, c = y.shape",
    "y = x0.clone()\ngetattr(y, 'unsqueeze_')(0)\na, b, c = y.shape",
    "y = x0.clone()\ntorch.Tensor.unsqueeze_(y, 0)\na, b, c = y.shape",
    "def change():\n    nonlocal y\n    y = x1\ny = x0\nchange()\na, b, c = y.shape",
    "y = x0\nz = len([y := x1])\na, b, c = y.shape",
    "y = x0\nz = [y := x1 for _ in range(1)]\na, b, c = y.shape",
    "y = x0\nfor y in [x1]:\n    pass\na, b, c = y.shape",
    "y = x0\ntry:\n    y = x1\nfinally:\n    pass\na, b, c = y.shape",
    "y = x0\nmatch {'y': x1}:\n    case {**y}:\n        y = y['y']\na, b, c = y.shape",
    "try:\n    a, b, c = x0.shape\nexcept ValueError:\n    pass",
    # names
    "z = [(y := n) for n in x0.shape]\nz = y",
    "n: Unknown = 3\nz = n",
    "match {'a': 1}:\n    case {**rest}:\n        z = rest",
    "try:\n    z = unknown\nexcept NameError:\n    z = x0",
    "try:\n    raise Missing\nexcept* Missing as group:\n    z = group",
    "try:\n    raise Missing\nexcept Missing as error:\n    z = error",
    "try:\n    raise Missing\nexcept Missing:\n    z = 1\nfinally:\n    z = z",
    "from contextlib import suppress\nwith suppress(NameError):\n    z = unknown",
    "from contextlib import suppress\nwith suppress(ValueError):\n    a, b, c = x0.shape",
    "install()\nz = CACHE",
    "global LIMIT\nLIMIT += 1",
    "globals()['word'] = 3\nz = word",
    "z = x0 if x0.numel() else unknown",
    "z = x0.numel() or unknown",
    "z = 3 < 2 < unknown",
    "assert x0.numel(), unknown",
    "if x0.dim() == 3:\n    z = unknown",
    "if x0.dim() == 3:\n    z = unused(x0)",
    "while x0.dim() == 3:\n    z = unknown",
    "for n in range(x0.dim() - 2):\n    z = unknown",
    "for n in range(2):\n    if n < 2:\n        continue\n    z = unknown",
    "z = lambda: unknown",
    "def inner():\n    return unknown",
    "class Local:\n    size = 3\n    def get(self):\n        return __class__\nz = Local().get()",
    "import os.path as place\nz = place",
    "import os.path\nz = os",
    "z = 1\ndel z\nz = 2\nw = z",
    "z = [a + b for a in range(2) for b in range(a)]",
    "z = f'{x0.dim():>{LIMIT}} {x0.dim()=}'",
    "z = __name__, __builtins__",
    "async def later():\n    return unknown\nlater().close()",
    "return [x0]\nz = unknown\na, b, c = x0.shape",
    "if x0.numel():\n    return [x0]\nz = unknown\na, b, c = x0.shape",
    "for n in range(3):\n    if n:\n        return [x0]\na, b, c = x0.shape",
    "with torch.no_grad():\n    return [x0]\na, b, c = x0.shape",
]


def run(source):
    values = {"__name__": "candidate", "__file__": ""}
    exec(source, values)
    values["fused_operator"](torch.zeros(8, 16), torch.zeros(4, 8, 16))


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
@pytest.mark.parametrize("body", RIGHT)
def test_host_functions_that_run_have_no_fault(body):
    lines = "".join(f"    {line}\n" for line in f"{body}\nreturn [x0]".splitlines())
    source = f"{HEAD}{HELPERS}def fused_operator(x0, x1):\n{lines}"
    run(source)
    assert first_fault(source, PROGRAM) is None


@pytest.mark.parametrize(
    "head",
    [
        "(x0, x1, /)",
        "(x0, /, x1)",
        "(x0, x1, x2=None)",
        "(x0, *rest)",
        "(*values)",
        "(x0, x1, **more)",
    ],
)
@pytest.mark.parametrize("decorator", ["", "@torch.no_grad()\n", "@swapped\n"])
def test_entries_that_run_have_no_fault(head, decorator):
    swapped = "def swapped(function):\n    return lambda a, b: function(a, b)\n\n\n"
    first = "values[0]" if "values" in head else "x0"
    body = f"    y = {first}\n    a, b = y.shape\n    return [y]\n"
    source = f"{HEAD}{swapped}{decorator}def fused_operator{head}:\n{body}"
    run(source)
    assert first_fault(source, PROGRAM) is None


def test_a_decorator_may_pass_other_arguments():
    before = "def turned(function):\n    return lambda a, b: function(b, a)\n\n\n@turned\n"
    source = f"{HEAD}{before}def fused_operator(x0, x1):\n    a, b, c = x0.shape\n    return [x1]\n"
    run(source)
    assert first_fault(source, PROGRAM) is None


PIECES = [
    "y = x0", "y = x1", "z = y", "z, y = y, z", "y = z.unsqueeze(0)", "y = y.select(0, 0)",
    "y = torch.empty((2, 3))", "z = torch.empty_like(y)", "y, z = several(z, y)[0::2]",
    "y, z, w = several(z, y)", "z = second(x1, y)", "z = second(*[y], z)", "z = only(y, z)",
    "y = inside(z)", "y = early(z)", "a, b = y.shape", "a, b, c = y.shape", "a, b, c = z.shape",
    "(a,) = y", "a, *y = x1, x0, x1", "z = w", "del y", "z = [y := x1][0]", "y = z.view(-1, 2)",
    "if w is None:\n    y = x1", "for y in (x0, x1):\n    w = y",
    "try:\n    y = w\nexcept NameError:\n    y = z",
    "with torch.no_grad():\n    z = y\n    w = None",
    "z = y if y.dim() == 2 else x0", "y = last(b=z)",
    "def change():\n    nonlocal y\n    y = x1\nchange()", "w: Unknown = y", "z += 0", "return [y]",
]  # fmt: skip


@pytest.mark.slow
def test_statements_by_chance_that_run_have_no_fault():
    rng, num_right, num_faults = random.Random(0), 0, 0
    for _ in range(1000):
        pieces = ["y = x0", "z = x1", *rng.choices(PIECES, k=rng.randint(1, 6)), "return [x0]"]
        lines = "".join(f"    {line}\n" for line in "\n".join(pieces).splitlines())
        source = f"{HEAD}{HELPERS}def fused_operator(x0, x1):\n{lines}"
        fault = first_fault(source, PROGRAM)
        try:
            run(source)
        except SyntaxError:
            continue
        except Exception:
            num_faults += fault is not None
            continue
        num_right += 1
        assert fault is None, f"{fault}\n{source}"
    assert min(num_right, num_faults) > 150, (num_right, num_faults)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = only(x0, x0)", "b has 2 dimensions, not 3"),
        ("y = second(x0, x1)", "b has 3 dimensions, not 2"),
        ("a, b, c = several(x0, x1)\nd, e, f = a.shape", "a has 2 dimensions, not 3"),
        ("with torch.no_grad():\n    z = unknown", "unknown is not defined"),
        ("for n in range(2):\n    z = unknown", "unknown is not defined"),
        ("z = unused(x0)", "unknown is not defined"),
        ("z = (unknown if x0.numel() else x0) if unknown else x0", "unknown is not defined"),
    ],
)
def test_what_every_run_comes_to_is_found(body, message):
    fault = found(f"{body}\nreturn [x0]", before=HELPERS)
    assert fault is not None
    assert fault.message == message


def test_functions_that_nothing_surely_calls_may_name_anything():
    kernel = "@triton.jit\ndef {}(x):\n    {}\n    tl.store(x, y)\n\n\n"
    unused = kernel.format("unused", "y = unknown")
    assert found("return [x0]", before=unused) is None
    for line in ("if x is None:\n        y = unknown", "return\n    y = unknown"):
        before = kernel.format("k", f"y = 1\n    {line}")
        assert found("k[(1,)](x0)\nreturn [x0]", before=before) is None
    loop = kernel.format("k", "y = 1\n    for n in range(0, 4, 2):\n        y += unknown")
    assert found("k[(1,)](x0)\nreturn [x0]", before=loop).message == "unknown is not defined"


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
