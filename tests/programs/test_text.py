"""Canonical text: what it looks like, that it reads back, that it runs, what else is read."""

import pytest
import torch
from drawing import programs
from hypothesis import given, settings

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init
from kernelwright.programs.reference import run
from kernelwright.programs.text import parse, to_text

CANONICAL = """\
import torch
import torch.nn.functional as F


def get_inputs():
    x0 = torch.randn((16, 32), dtype=torch.float32)
    x1 = 0.5 * torch.randn((8, 32), dtype=torch.float32) + 1.0
    x2 = torch.randint(0, 10, (16,), dtype=torch.int64)
    x3 = (1.5 - 0.5) * torch.rand((2, 3, 4, 5), dtype=torch.float32) + 0.5
    return [x0, x1, x2, x3]


def fused_operator(x0, x1, x2, x3):
    t0 = F.linear(x0, x1)
    t1, t2 = torch.max(t0, dim=1, keepdim=True)
    t3 = torch.Tensor.to(t1, dtype=torch.float16)
    t4, t5 = torch.ops.aten.sort.default(t0, 1)
    [t6] = torch.chunk(x3, chunks=1)
    return [t3, t4, x2, t6]
"""


def test_canonical_text_is_a_fixed_point():
    assert to_text(parse(CANONICAL)) == CANONICAL


@settings(max_examples=60, deadline=None)
@given(programs())
def test_a_program_reads_back_from_its_text_identical(program):
    text = to_text(program)
    assert parse(text) == program
    assert to_text(parse(text)) == text


@settings(max_examples=25, deadline=None)
@given(programs())
def test_the_text_runs_and_computes_what_the_program_computes(program):
    module: dict = {}
    exec(to_text(program), module)
    torch.manual_seed(0)
    inputs = module["get_inputs"]()
    for value, tensor in zip(program.inputs, inputs, strict=True):
        assert (tuple(tensor.shape), str(tensor.dtype)) == (
            value.type.shape,
            f"torch.{value.type.dtype}",
        )
    results = module["fused_operator"](*inputs)
    for ours, theirs, name in zip(run(program, inputs), results, program.outputs, strict=True):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
        assert tuple(theirs.shape) == program.type_of(name).shape
        assert str(theirs.dtype) == f"torch.{program.type_of(name).dtype}"


@pytest.mark.parametrize(
    "init",
    [
        Init("randn", -1.5, 0.3), Init("rand", 0.1, 0.4), Init("rand", 0.0, 3.0), Init("sign"),
        Init("rand", -0.3, -0.1), Init("ones"), Init("zeros"), Init("randn", 0.0, -2.0),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("rank", [1, 4, 5])
def test_every_draw_reads_back_identical(init, rank):
    builder = Builder()
    layout = Layout.CHANNELS_LAST if rank > 1 else Layout.CONTIGUOUS
    x = builder.input(TensorType((2,) * rank, "float32", layout), init)
    program = builder.program([x])
    assert parse(to_text(program)) == program


def test_text_written_by_hand_is_read():
    program = parse("""
import torch
from torch.nn import functional as F
N = 4
def get_inputs():
    '''Sizes may be computed.'''
    scores = torch.randn(N, 2 * N, device="cuda") * 0.5
    return [scores, 2 * torch.rand(N) - 1]
def fused_operator(scores, r):
    '''Names, nesting, operators, methods and positions are free.'''
    y = torch.relu(scores * 2 + 1) ** 2
    y = y - scores.shape[1]
    z = torch.nn.functional.gelu(y, "tanh").clamp(0.0, 1.0)
    best = torch.max(z, 1, True)[0]
    return best, -r / (1 + r.exp()), z.reshape(2, 16) @ z.transpose(0, 1).reshape(16, 2)
""")
    assert to_text(program).splitlines()[4:] == [
        "def get_inputs():",
        "    x0 = 0.5 * torch.randn((4, 8), dtype=torch.float32)",
        "    x1 = (1.0 - -1.0) * torch.rand((4,), dtype=torch.float32) - 1.0",
        "    return [x0, x1]",
        "",
        "",
        "def fused_operator(x0, x1):",
        "    t0 = torch.mul(x0, 2)",
        "    t1 = torch.add(t0, 1)",
        "    t2 = torch.relu(t1)",
        "    t3 = torch.pow(t2, 2)",
        "    t4 = torch.sub(t3, 8)",
        '    t5 = F.gelu(t4, approximate="tanh")',
        "    t6 = torch.clamp(t5, min=0.0, max=1.0)",
        "    t7, t8 = torch.max(t6, dim=1, keepdim=True)",
        "    t9 = torch.neg(x1)",
        "    t10 = torch.exp(x1)",
        "    t11 = torch.add(1, t10)",
        "    t12 = torch.div(t9, t11)",
        "    t13 = torch.reshape(t6, shape=(2, 16))",
        "    t14 = torch.transpose(t6, dim0=0, dim1=1)",
        "    t15 = torch.reshape(t14, shape=(16, 2))",
        "    t16 = torch.matmul(t13, t15)",
        "    return [t7, t12, t16]",
    ]


@pytest.mark.parametrize(("method", "shape"), [("reshape(-1)", (6,)), ("flip(1)", (2, 3))])
def test_a_list_of_one_integer_may_be_written_without_brackets(method, shape):
    program = parse(f"{INPUTS}def fused_operator(a):\n    return [a.{method} * 2]\n")
    assert program.calls[-1].types[0].shape == shape


def test_a_number_may_be_counted_up():
    body = "n = 2\n    n += 3\n    return [a * n]"
    assert "torch.mul(x0, 5)" in to_text(parse(f"{INPUTS}def fused_operator(a):\n    {body}\n"))


def drawing(draw: str) -> str:
    return f"def get_inputs():\n    return [{draw}]\ndef fused_operator(a):\n    return [a]\n"


@pytest.mark.parametrize(
    ("draw", "low", "high"),
    [
        ("(3.0 - 1.0) * (2 * torch.rand(4)) + 1.0", 1.0, 5.0),
        ("torch.rand(4) / (3.0 - 1.0) + 1.0", 1.0, 1.5),
        ("2 * ((3.0 - 1.0) * torch.rand(4) + 1.0)", 2.0, 6.0),
        ("(0.4 - 0.1) * torch.rand(4) + 0.1", 0.1, 0.4),
    ],
)
def test_a_draw_that_is_scaled_twice_has_both_scales(draw, low, high):
    assert parse(drawing(draw)).inputs[0].init == Init("rand", low, high)


@pytest.mark.parametrize("size", ["a.size(1)", "a.size(dim=1)", "a.size(-1)", "a.size()[1]"])
def test_a_size_may_be_asked_for_by_position_or_name(size):
    program = parse(f"{INPUTS}def fused_operator(a):\n    return [a.reshape({size}, 2)]\n")
    assert program.calls[-1].types[0].shape == (3, 2)


INPUTS = "import torch\ndef get_inputs():\n    return [torch.randn(2, 3)]\n"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("return [b]", 5, "'b' is not defined"),
        ("return [torch.relo(a)]", 5, "torch.relu"),
        ("return [a @ a]", 5, "refuses these arguments"),
        ("if a: pass", 5, "if is not part of"),
        ("return [a[0]]", 5, "torch.select"),
        ("a[0] = 1", 5, "assignment into a tensor"),
        ("x, y = a.relu()", 5, "2 names for 1 values"),
        ("pass", 4, "returns nothing"),
        ("return open('f')", 5, "'open' is unknown"),
        ("return [torch.ops.aten.sort.default(a, a)]", 5, "sort"),
        ("return [torch.ops.aten.sort(a)]", 5, "is not an overload"),
        ("return torch.relu(*a)", 5, "write the arguments out"),
        ("return 3", 5, "not a tensor"),
        ("a += 1", 5, "a is written in place"),
        ("return [a.reshape(a.size(7), 2)]", 5, "no dimension 7 in a tensor of shape (2, 3)"),
        ("return [a.reshape(a.size('b'))]", 5, "no dimension 'b'"),
        ("return [a.reshape(a.size(1, dim=1))]", 5, "size takes at most one argument"),
        ("return [a.reshape(a.size(axis=1))]", 5, "size takes at most one argument"),
        ("return [(a,).indices]", 5, "attribute 'indices'"),
        ("return [().values]", 5, "attribute 'values'"),
        ("return [a * float('b')]", 5, "'float' is unknown"),
        ("return [a * float(a)]", 5, "'float' is unknown"),
        ("return [torch.sum(a, dim='b')]", 5, "of a wrong type"),
        ("return [a.repeat(2)]", 5, "of a wrong type"),
        ("return [a.permute(0)]", 5, "of a wrong type"),
        ("return [a * 10**10**10]", 5, "torch.pow refuses"),
        ("return [a * len('b' * 10**12)]", 5, "refuses"),
        ("b = '%1000000000d' % 1", 5, "not part of a flat program"),
        ("return [a + " + "-" * 5000 + "1]", None, "nested too deep"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_body_is_refused_with_file_line_and_remedy(body, line, words):
    with pytest.raises(UsageError) as caught:
        parse(f"{INPUTS}def fused_operator(a):\n    {body}\n", file="task.py")
    assert (caught.value.file, caught.value.line) == ("task.py", line)
    assert words in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("def f(:\n", 1, "not Python"),
        (INPUTS, None, "fused_operator is not defined"),
        (INPUTS + "def fused_operator(a, b):\n    return [a]\n", 4, "takes 2 inputs"),
        ("def get_inputs():\n    return [load()]\ndef fused_operator(a): ...\n", 2, "draw"),
        ("def get_inputs():\n    return f()\ndef fused_operator(a): ...\n", 2, "draw"),
        ("def get_inputs():\n  return [2 * torch.ones(1)]\ndef fused_operator(a): ...", 2, "draw"),
        (drawing("torch.randint(0, 5, (4,)) + 0.5"), 2, "not scaled or shifted"),
        (drawing("torch.randint(0, 5.5, (4,))"), 2, "low and high must be integers"),
        (drawing("torch.randint('b', (4,))"), 2, "low and high must be integers"),
        (drawing("torch.randn(-4)"), 2, "must not be negative"),
        (drawing("torch.randn(4, dtype=3)"), 2, "no such dtype: 3"),
        (drawing("torch.rand(4) * float('b')"), 2, "float('b')"),
    ],
)  # fmt: skip
def test_bad_text_is_refused_with_file_line_and_remedy(text, line, words):
    with pytest.raises(UsageError) as caught:
        parse(text, file="task.py")
    assert (caught.value.file, caught.value.line) == ("task.py", line)
    assert words in str(caught.value)
    assert caught.value.remedy


def test_a_tensor_in_place_of_a_list_of_tensors_is_refused():
    b = Builder()
    x, rows = b.input(TensorType((4, 3))), b.input(TensorType((2,), "int64"))
    with pytest.raises(ValueError, match="'indices' cannot be"):
        b.call("index", input=x, indices=rows)
