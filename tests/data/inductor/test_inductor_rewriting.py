"""Rewriting, on modules in Inductor's form that are written here."""

import ast

import pytest

from kernelwright.data.inductor.harvest import Harvest
from kernelwright.data.inductor.reading import NotRewritten
from kernelwright.data.inductor.rewriting import rewrite
from kernelwright.data.inductor.wrapper import is_contiguous
from kernelwright.programs.text import parse

PROGRAM = parse(
    "import torch\nimport torch.nn.functional as F\n\n\ndef get_inputs():\n"
    "    x0 = torch.randn((8, 16), dtype=torch.float32)\n    return [x0]\n\n\n"
    "def fused_operator(x0):\n    t0 = torch.relu(x0)\n    t1 = torch.exp(t0)\n    return [t1]\n"
)
BODY = """\
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    x9 = xindex // ks0
    tmp0 = tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_last')
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = tl.full([1], 0.0, tl.float32)
    tmp4 = triton_helpers.maximum(tmp3, tmp2)
    tl.device_assert(xindex < ks0, "out of bounds")
    tl.store(out_ptr0 + (x0), tl_math.exp(tmp4), xmask)
"""
CALL = """\
        buf0 = empty_strided_cpu((s1, s2), (s2, 1), torch.float32)
        # Topologically Sorted Source Nodes: [t0, t1], Original ATen: [aten.relu, aten.exp]
        poi_0_xnumel = s1*s2
        raw_streamNone = get_raw_stream(None)
        poi_0.run(arg2_1, buf0, s1, poi_0_xnumel, stream=raw_streamNone)
        del arg2_1
        return (buf0, )
"""
ARGUMENTS = (None, None, "x0")


def module(body=BODY, call=CALL, grid="Grid1D", hints="{'x': 128}", combine=""):
    kernel = f"""
import triton
import triton.language as tl

{combine}@triton_heuristics.pointwise(
    size_hints={hints},
    filename=__file__,
    inductor_meta={{'grid_type': '{grid}', 'things': set()}},
)
@triton.jit
def poi_0(in_ptr0, out_ptr0, ks0, xnumel, XBLOCK : tl.constexpr):
{body}"""
    return f"""
import torch
poi_0 = async_compile.triton('poi_0', '''{kernel}''', device_str='cpu')

class Runner:
    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        args.clear()
        s1 = arg0_1
        s2 = arg1_1
        assert_size_stride(arg2_1, (s1, s2), (s2, 1), 'input')
{call}"""


def rewritten(mode="pure", **parts):
    return rewrite(Harvest(module(**parts), ARGUMENTS), PROGRAM, 0, mode)


def test_what_is_of_inductor_s_runtime_is_gone():
    candidate = rewritten()
    kernel, operator = ast.parse(candidate.source).body[-2:]
    text = ast.unparse(kernel)
    assert kernel.name == "relu_exp_kernel"
    assert [a.arg for a in kernel.args.args] == ["x0_ptr", "buf0_ptr", "xnumel", "XBLOCK"]
    assert "tmp2 = tmp0 * 0.5" in text
    assert "tl.maximum(0.0, tmp2, propagate_nan=tl.PropagateNan.ALL)" in text
    assert "tl.exp(tmp4)" in text
    for gone in ("x9", "device_assert", "eviction_policy", "[:]", "triton_h", "tl_math"):
        assert gone not in text
    block = candidate.plan[0].tiles["XBLOCK"]
    assert ast.unparse(operator).splitlines()[1:5] == [
        "    X0D0, X0D1 = (x0.shape[0], x0.shape[1])",
        "    x0 = x0.contiguous()",
        "    buf0 = torch.empty((X0D0, X0D1), device=x0.device, dtype=torch.float32)",
        "    xnumel = X0D0 * X0D1",
    ]
    assert (
        f"[triton.cdiv(xnumel, {block}),](x0, buf0, xnumel, XBLOCK={block}" in candidate.source
        or (
            f"[(triton.cdiv(xnumel, {block}),)](x0, buf0, xnumel, XBLOCK={block}"
            in candidate.source
        )
    )


def test_a_helper_comes_with_what_it_calls():
    body = BODY.replace("triton_helpers.maximum(tmp3, tmp2)", "triton_helpers.max2(tmp2, 0)")
    functions = [n.name for n in ast.parse(rewritten(body=body).source).body if hasattr(n, "name")]
    assert functions.index("maximum") < functions.index("max2") < len(functions) - 2


def test_what_a_scan_combines_by_is_made_plain_too():
    combine = "@triton.jit\ndef larger(a, b):\n    return triton_helpers.maximum(a, b)\n\n"
    body = BODY.replace("tl_math.exp(tmp4)", "tl.associative_scan((tmp4,), 0, larger)")
    candidate = rewritten(body=body, combine=combine)
    assert "return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)" in candidate.source
    assert candidate.plan[0].loop == "scan"


def test_a_number_that_is_asked_for_its_shape_stays_a_tensor():
    body = BODY.replace("tmp0 * tmp1", "tmp0 * tmp1 + tl.zeros(tmp1.shape, tl.float32)")
    assert "tmp1 = tl.full([1], 0.5, tl.float32)" in rewritten(body=body).source


def test_views_and_reused_buffers_keep_their_meaning():
    call = CALL.replace(
        "return (buf0, )",
        "buf1 = buf0; del buf0  # reuse\n"
        "        return (reinterpret_tensor(buf1, (s2, s1), (1, s2), 0), arg2_1)",
    )
    source = rewritten(call=call).source
    assert "return [torch.as_strided(buf0, (X0D1, X0D0), (1, X0D1), 0), x0]" in source


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"call": CALL.replace("del arg2_1", "extern_kernels.mm(a, b, out=buf0)")}, "a size"),
        ({"call": CALL.replace("del arg2_1", "aten.sort.default(buf0)")}, "call aten.sort"),
        ({"call": CALL.replace("del arg2_1", "while buf0: pass")}, "statement While"),
        ({"call": CALL.replace("s1*s2", "u0*s2")}, "a size that no tensor has"),
        ({"grid": "SplitScanGrid"}, "grid SplitScanGrid"),
        ({"hints": "{'r0_': 4, 'r1_': 8}"}, "several axes"),
        (
            {"body": BODY.replace("tl_math.exp(tmp4)", "triton_helpers.no_such(tmp4)")},
            "helper no_such",
        ),
        ({"body": BODY.replace("tl.store(", "tl.device_print(")}, "no kernel"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(parts, why):
    with pytest.raises(NotRewritten, match=why):
        rewritten(**parts)


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ("(s1, s2)", "(s2, 1)", True),
        ("(s1, s2)", "(1, s1)", False),
        ("(s1, 1, s2)", "(s2, s1, 1)", True),
        ("(s1 + s2, 3)", "(3, 1)", True),
        ("(s1, 3)", "(s2, 1)", False),
        ("()", "()", True),
        ("(2, max(1, s1))", "(max(1, s1), 1)", True),
    ],
)
def test_contiguous_whatever_the_sizes(shape, stride, expected):
    parsed = (ast.parse(text, mode="eval").body for text in (shape, stride))
    assert is_contiguous(*parsed) is expected
