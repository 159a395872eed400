"""Static rules name the cheat and its line, and leave honest text alone."""

import pytest

from kernelwright.core.verdict import Code
from kernelwright.verify.static import HINTS, REFUSED, findings

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]


"""
LINE = KERNEL.count("\n") + 1

CHEATS = {
    "dynamic_code": [
        "exec('x = 1')",
        "run = eval\nrun('1')",
        "__builtins__['exec']('1')",
        "import builtins\nbuiltins.exec('1')",
        "code = compile('1', 'f', 'eval')",
    ],
    "foreign_import": [
        "import subprocess",
        "from ctypes import CDLL",
        "import socket as s",
        "__import__('threading').Thread()",
        "name = 'c' + 'types'\n__import__(name)",
        "import importlib\nimportlib.import_module('flash_attn')",
        "from .reference import Model",
    ],
    "reaches_outside": [
        "import os\nos._exit(0)",
        "from os import system\nsystem('true')",
        "import sys as s\ns.modules['torch'] = None",
        "answer = open('answer.bin')",
        "import torch as t\nload = t.load\nload('answer.pt')",
        "getattr(torch, 'load')('answer.pt')",
        "torch.utils.cpp_extension.load_inline('f', '')",
    ],
    "frame_walk": [
        "import sys\nsys._getframe(1)",
        "import inspect\ninspect.stack()",
        "import gc\ngc.get_objects()",
        "look = lambda error: error.tb_frame.f_locals",
        "().__class__.__base__.__subclasses__()",
    ],
    "patches_module": [
        "torch.allclose = lambda *a, **k: True",
        "import time\ntime.perf_counter, x = None, 1",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "setattr(torch.cuda, 'synchronize', None)",
        "import torch.cuda as c\nc.Event.elapsed_time = lambda *a: 0.0",
        "del torch.mm",
        "torch.__dict__['mm'] = None",
    ],
    "global_switch": [
        "torch.set_float32_matmul_precision('high')",
        "torch.manual_seed(0)",
        "torch.set_num_threads(64)",
    ],
    "own_stream": [
        "s = torch.cuda.Stream()",
        "from torch.cuda import stream\nstream(None)",
        "side = getattr(torch.cuda, 'Stream')()",
    ],
    "tensor_subclass": [
        "class Lazy(torch.Tensor): ...",
        "from torch import Tensor as T\nclass L(T): ...",
    ],
    "other_compiler": ["fast = torch.compile(fused_operator)", "torch.jit.script(fused_operator)"],
}
SUSPECT = {
    "except_returns": "def f():\n    try:\n        g()\n    except Exception:\n        return 1",
    "library_compute": "def f(a, b):\n    return torch.mm(a, b)",
    "computed_attribute": "op = getattr(torch, 'm' + 'm')",
    "keyed_by_address": "def f(x, cache):\n    return cache[x.data_ptr()]",
}


@pytest.mark.parametrize(
    ("rule", "cheat"), [(rule, text) for rule, texts in CHEATS.items() for text in texts]
)
def test_a_cheat_is_refused_by_its_rule_with_its_line(rule, cheat):
    found = {f.rule: f for f in findings(KERNEL + cheat, "hybrid", "fused_operator")}
    assert rule in found
    assert found[rule].code is Code.FORBIDDEN
    assert not found[rule].is_hint
    assert LINE <= found[rule].line <= LINE + 2
    assert found[rule].remedy


@pytest.mark.parametrize("rule", SUSPECT)
def test_suspect_text_gives_a_hint_only(rule):
    found = findings(KERNEL + SUSPECT[rule], "pure", "fused_operator")
    assert [f.rule for f in found] == [rule]
    assert found[0].is_hint


def test_every_rule_has_a_case():
    assert {rule.__name__ for rule in REFUSED} == CHEATS.keys()
    assert {rule.__name__ for rule in HINTS} == SUSPECT.keys()


HONEST = {
    "nothing_more": "",
    "an_argument_called_like_a_builtin": "def f(input, compile=1):\n    return input + compile",
    "a_local_called_like_a_module": "def f(x):\n    gc = x + 1\n    return gc.size(0)",
    "a_test_block": "if __name__ == '__main__':\n    torch.manual_seed(0)",
    "an_unused_import": "import os\nimport sys\nprint(sys.version_info)",
    "own_attributes": "class M(torch.nn.Module):\n    def __init__(self):\n        self.scale = 2",
    "own_tables": "TABLE = {}\nTABLE['a'] = 1",
    "re_exported_names": "from triton import cdiv as div\nblock = div(3, 2)",
    "a_function_called_open": "def open(x):\n    return x\n\nopen(1)",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_honest_text_gives_no_finding(text):
    assert findings(KERNEL + text, "pure", "fused_operator") == ()


BROKEN = {
    "no_python": "def fused_operator(:\n",
    "null_byte": "x = 1\0",
    "nested_too_deeply": "(" * 5000 + ")" * 5000,
    "long_chain": "x = " + "-" * 100_000 + "1",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_no_python_is_a_syntax_error(text):
    (found,) = findings(text, "pure", "fused_operator")
    assert found.code is Code.SYNTAX_ERROR


def test_a_missing_entry_names_the_other_one():
    found = findings(KERNEL, "pure", "ModelNew")[0]
    assert found.code is Code.MISSING_ENTRY
    assert "fused_operator is" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "def fused_operator(x):\n    return [x]\n",
        "# @triton.jit\ndef fused_operator(x):\n    '@triton.jit'\n    return [x]\n",
    ],
)
def test_without_a_kernel_there_is_nothing_to_judge(text):
    assert findings(text, "hybrid", "fused_operator")[0].code is Code.NO_KERNEL


def test_library_calls_are_no_news_in_hybrid_mode():
    assert findings(KERNEL + SUSPECT["library_compute"], "hybrid", "fused_operator") == ()
