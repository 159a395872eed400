"""Static rules name the cheat and its line, and leave honest text alone."""

import ast
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import entries
from kernelwright.core.verdict import Code
from kernelwright.verify.rules import RULES, RuleSeverity
from kernelwright.verify.rules.outside import lent_by
from kernelwright.verify.static import findings
from tools.pages.static_rules import page

DOCS = Path(__file__).parents[2] / "docs"
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
    return [after(y)]


def after(y):
    return y


"""
LINE = KERNEL.count("\n") + 1
AFTER = "def after(y):\n    "
"""Redefines what the entry calls, so that what follows is reached."""

COMPILED = (
    "def own(x):\n    return x\n\n\n"
    "fast = torch.compile(own, fullgraph=True, dynamic=False,"
    " options={'layout_optimization': False})\n"
)
REFUSED = {
    "dynamic_code": [
        "exec('x = 1')",
        "run = eval\nrun('1')",
        "def f(exec=exec):\n    exec('1')",
        "__builtins__['exec']('1')",
        "globals()['__builtins__']['exec']('1')",
        "torch.functional.builtins.exec('1')",
        "code = compile('1', 'f', 'eval')",
        "import types\nf = types.FunctionType(g, {})",
        "import functools\nfunctools.__builtins__['exec']('1')",
        "__name__ = '__main__'\nif __name__ == '__main__':\n    exec('1')",
    ],
    "foreign_import": [
        "from torch import *\nfrom os import *\nsystem('true')",
        "torch.serialization.io.open('answer.pt')",
        "torch.serialization.tarfile.open('answer.tar')",
        "torch.serialization.pathlib.Path('answer.pt').read_bytes()",
        "import subprocess",
        "import builtins\nbuiltins.exec('1')",
        "from ctypes import CDLL",
        "import socket as s",
        "import numba",
        "import cupy",
        "import atexit",
        "import signal",
        "import multiprocessing",
        "__import__('threading').Thread()\nimport subprocess",
        "name = 'c' + 'types'\n__import__(name)",
        "import importlib\nimportlib.import_module('flash_attn')",
        "from .reference import Model",
        "torch.cuda.ctypes.CDLL('libcublas.so')",
    ],
    "reaches_outside": [
        "import os\nos._exit(0)",
        "from os import system\nsystem('true')",
        "import logging\nlogging.os._exit(0)",
        "torch.os.system('true')",
        "torch.utils.data.os.path.os.system('true')",
        "import sys as s\ns.modules['torch'] = None",
        "torch.sys.modules",
        "answer = open('answer.bin')",
        "import torch as t\nload = t.load\nload('answer.pt')",
        "(t := torch).load('answer.pt')",
        "a, b = torch, 1\na.load('answer.pt')",
        "getattr(torch, 'load')('answer.pt')",
        "getattr(torch, 'lo' + 'ad')('answer.pt')",
        "word = 'lo'\ngetattr(torch, f'{word}ad')('answer.pt')",
        "torch.__getattribute__('load')('answer.pt')",
        "object.__getattribute__(torch, 'load')('answer.pt')",
        "vars(torch)['load']('answer.pt')",
        "torch.__dict__['load']('answer.pt')",
        "torch.__dict__.get('load')('answer.pt')",
        "globals()['torch'].load('answer.pt')",
        "import operator\noperator.attrgetter('load')(torch)('answer.pt')",
        "from torch import *\nload('answer.pt')",
        "from torch.utils.cpp_extension import load_inline\nload_inline('f', '')",
        "import threading\nthreading.Thread(target=print).start()",
        "s = torch.UntypedStorage.from_file('f', False, 8)",
        "torch.cuda.cudart().cudaDeviceSetLimit(6, 1 << 20)",
    ],
    "frame_walk": [
        "import sys\nsys._getframe(1)",
        "import inspect\ninspect.stack()",
        "import inspect\ninspect.currentframe()",
        "import gc\ngc.get_objects()",
        "look = lambda error: error.tb_frame.f_locals",
        "().__class__.__base__.__subclasses__()",
        "().__class__.__mro__[1]",
        "f = getattr(fused_operator, '__glob' + 'als__')",
        "b = print.__self__",
        "__loader__.load_module('os')",
        "import logging\nlogging.getLogger('k').warning('x', stack_info=True)",
        "import logging\nlogging.getLogger().findCaller()",
        "import warnings\nwith warnings.catch_warnings(record=True): ...",
    ],
    "patches_module": [
        "torch.allclose = lambda *a, **k: True",
        "import time\ntime.perf_counter, x = None, 1",
        "setattr(torch.cuda, 'synchronize', None)",
        "import torch.cuda as c\nc.Event.elapsed_time = lambda *a: 0.0",
        "from torch.cuda import Event\nEvent.elapsed_time = lambda *a: 0.0",
        "del torch.mm",
        "torch.__dict__['mm'] = None",
        "torch.__dict__.update(mm=None)",
        "vars(torch)['mm'] = None",
        "torch.__setattr__('mm', None)",
        "triton.knobs.runtime.interpret = True",
        "triton.runtime.driver.active = None",
        "from triton.runtime.jit import JITFunction\nJITFunction.run = None",
        "import torch.overrides\nfor torch.mm in [None]: ...",
    ],
    "global_switch": [
        "torch.set_float32_matmul_precision('high')",
        "torch.set_num_threads(64)",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cudnn.benchmark = True",
        "setattr(torch.backends.cuda.matmul, 'allow_tf32', True)",
        "import os\nos.environ['TRITON_INTERPRET'] = '0'",
        "import os\nos.environ.update(A='1')",
        "torch.set_grad_enabled(True)",
    ],
    "own_allocator": [
        "torch.cuda.memory.CUDAPluggableAllocator('a', 'b', 'c')",
        "pool = torch.cuda.MemPool()",
        "p = torch.cuda.caching_allocator_alloc(64)",
    ],
    "process_hook": [
        "triton.knobs.runtime.launch_enter_hook.add(print)",
        "from triton.compiler import CompiledKernel\nCompiledKernel.launch_enter_hook",
        "torch.nn.modules.module.register_module_forward_hook(print)",
        "lib = torch.library.Library('aten', 'IMPL')",
        "@torch.library.impl('aten::mm', 'CUDA')\ndef mm(a, b): ...",
    ],
    "escapes_dispatch": [
        "with torch._C._DisableTorchDispatch(): ...",
        "from torch.utils._python_dispatch import TorchDispatchMode as M\nM()",
        "from torch.overrides import TorchFunctionMode\nTorchFunctionMode()",
        "guard = torch._C._ExcludeDispatchKeyGuard(None)",
        "f = torch.ops.aten.mm.default.redispatch",
    ],
    "asks_for_observers": [
        "seen = torch.autograd._profiler_enabled()",
        "from torch._C import _is_torch_function_mode_enabled as f\nf()",
        "def f(m):\n    return m._profiler_enabled()",
        "seen = getattr(torch.autograd, '_profiler_' + 'enabled')()",
    ],
    "host_code_in_kernel": [
        "import numpy as np\n@triton.jit\ndef k(x, y):\n    tl.store(y, np.maximum(tl.load(x), 0))",
        "@triton.jit\ndef k(x, y):\n    v = tl.load(x)\n    v.handle.data[:] = 0\n"
        "    tl.store(y, v)",
        "f = torch.relu\n@triton.jit\ndef k(x, y):\n    tl.store(y, f(tl.load(x)))",
        "@triton.jit\ndef k(x, y):\n    v = tl.load(x)\n    vars(v)['handle'].data[:] = 0",
        "@triton.jit\ndef k(x, y):\n    getattr(tl.load(x), 'han' + 'dle').data[:] = 0",
        "@triton.jit\ndef k(x, N: tl.constexpr):\n    getattr(tl.load(x), N).data[:] = 0",
    ],
    "tensor_subclass": [
        "class Lazy(torch.Tensor): ...",
        "from torch import Tensor as T\nclass L(T): ...",
        "L = type('L', (torch.Tensor,), {})",
        "class P:\n    def __torch_function__(self): ...",
        "f = torch.Tensor._make_subclass",
    ],
    "other_compiler": [
        "fast = torch.compile(fused_operator)",
        "torch.jit.script(fused_operator)",
        "from torch._inductor.select_algorithm import extern_kernels as e\ne.mm(1, 2)",
        # only one graph of an own function, at the top of the file, can be judged uncompiled too
        "def own(x):\n    return x\nfast = torch.compile(own)",
        "def own(x):\n    return x\nfast = torch.compile(own, fullgraph=False)",
        "def own(x):\n    return x\nfast = torch.compile(own, fullgraph=True, backend='eager')",
        "fast = torch.compile(torch.softmax, fullgraph=True)",
        "def own(x):\n    return x\ndef f():\n    return torch.compile(own, fullgraph=True)",
        COMPILED + "def g():\n    return torch.compiler.is_compiling()",
        COMPILED + "def g():\n    return torch._utils.is_compiling()",
        COMPILED + "from torch._utils import is_compiling\ndef g():\n    return is_compiling()",
        COMPILED + "@torch._dynamo.allow_in_graph\ndef g(x):\n    return x",
        COMPILED + "import torch.distributed._functional_collectives as c\nc.AsyncCollectiveTensor",
        "def own(x):\n    return x\nfast = torch.compile (own)",
        "import torch as t\ndef own(x):\n    return x\nfast = t.compile(own, fullgraph=True)",
    ],
    "compiled_whole": [COMPILED],
}
HINTED = {
    "library_compute": [
        AFTER + "return torch.mm(y, y)",
        AFTER + "return y @ y",
        AFTER + "return y.matmul(y)",
        AFTER + "return y.softmax(-1)",
        AFTER + "return y.relu_()",
        AFTER + "return torch.Tensor.mm(y, y)",
        AFTER + "return torch.ops.aten.mm.default(y, y)",
        AFTER + "return torch.ops.aten._softmax(y, 0, False)",
        AFTER + "return torch.ops.flash.forward(y)",
        AFTER + "return torch._C._nn.gelu(y)",
        AFTER + "return getattr(torch, 'm' + 'm')(y, y)",
        AFTER + "return vars(torch)['mm'](y, y)",
        "import operator\n" + AFTER + "return operator.matmul(y, y)",
        "from functools import partial\n" + AFTER + "return partial(torch.mm, y)(y)",
        "import torch.nn.functional as F\n" + AFTER + "return F.linear(y, y)",
        "from torch import *\n" + AFTER + "return mm(y, y)",
        "class after(torch.nn.Module):\n    def __init__(self, n):\n"
        "        self.part = torch.nn.Linear(n, n)\n"
        "    def forward(self, x):\n        return self.part(x)",
    ],
    "leaves_torch": [
        AFTER + "return y.numpy()",
        AFTER + "return torch.from_numpy(y)",
        "import numpy as np\n" + AFTER + "return np.asarray(y)",
    ],
    "precomputes": [
        "TABLE = torch.exp(torch.arange(9))",
        "ANSWER = torch.ones(4, 4) @ torch.ones(4, 4)",
        "KEPT = torch.empty(9)\nrelu_kernel[(1,)](KEPT, KEPT, 9, BLOCK=16)",
        "class after:\n    def __init__(self, w):\n        self.w = w.sum(0)",
    ],
    "fallback": [
        AFTER + "try:\n        g()\n    except Exception:\n        return 1",
        AFTER + "try:\n        g()\n    except Exception:\n        y = torch.relu(y)\n    return y",
    ],
    "dead_kernel": [
        "@triton.jit\ndef unused_kernel(x):\n    tl.store(x, 1)",
        "@triton.autotune([], [])\n@triton.jit\ndef unused_kernel(x):\n    tl.store(x, 1)",
        "@triton.jit\ndef unused_kernel(x):\n    tl.store(x, 1)\n\n"
        "def test():\n    unused_kernel[(1,)](1)",
    ],
    "constant_output": [
        "def fused_operator(x0):\n    return [torch.zeros_like(x0)]",
        "def fused_operator(x0):\n    y = x0.new_full(x0.shape, 1.0)\n    return [y]",
        "def fused_operator(x0):\n    y = torch.empty(x0.shape)\n    n = y.numel()\n    return y",
    ],
    "hard_coded": [
        f"TABLE = {list(range(40))}",
        f"KEY = '{'ab' * 1500}'",
        AFTER + "if y.shape == (128, 256):\n        return 1",
    ],
    "precision_drop": [
        AFTER + "return y.half()",
        AFTER + "return y.to(torch.bfloat16)",
        "@triton.jit\ndef after(x):\n    a = tl.load(x)\n    return a.to(tl.float16)",
        "@triton.jit\ndef after(x):\n    return tl.load(x).to(tl.float16)",
        "@triton.jit\ndef after(x):\n    return tl.dot(x.to(tl.bfloat16), x)",
        "@triton.jit\ndef after(x):\n    return tl.dot(x, x, input_precision='tf32')",
        "@triton.jit\ndef after(x):\n    return tl.dot(x, x, allow_tf32=True)",
    ],
    "computed_name": [
        AFTER + "return getattr(torch, y.name)",
        AFTER + "return vars(torch)[y]",
        AFTER + "return globals()[y]",
        AFTER + "return after([torch])",
        "for t in (torch,): ...",
    ],
    "keyed_by_address": [
        AFTER + "return CACHE[y.data_ptr()]",
        AFTER + "return CACHE.get(id(y))",
        AFTER + "return y.data_ptr() in CACHE",
        AFTER + "key = (y.data_ptr(), y.shape)\n    return CACHE[key]",
    ],
    "returns_kept": [
        "KEPT = {}\ndef fused_operator(x0):\n    return [KEPT[x0.shape]]",
        "KEPT = {}\ndef fused_operator(x0):\n    y = KEPT.get(x0.shape)\n    return y",
        "import functools\n@functools.lru_cache\n"
        + AFTER
        + "relu_kernel[(1,)](y, y, 1, BLOCK=16)\n    return y",
    ],
    "counts_calls": [
        "n = 0\n" + AFTER + "global n\n    n += 1\n    return y if n > 3 else None",
        "class after:\n    def forward(self):\n        self.n += 1\n        return self.n == 3",
    ],
    "looks_around": [
        "import time\n" + AFTER + "return time.perf_counter()",
        "import os\nFAST = os.environ.get('TRITON_INTERPRET')",
        AFTER + "return torch.cuda.Event(enable_timing=True)",
        "from triton.testing import do_bench\n" + AFTER + "return do_bench(y)",
    ],
    "reseeds": ["torch.manual_seed(0)", "import random\nrandom.seed(0)"],
    "own_stream": [
        "s = torch.cuda.Stream()",
        "from torch.cuda import stream\nstream(None)",
        "side = getattr(torch.cuda, 'Stream')()",
    ],
    "cuda_graph": ["g = torch.cuda.CUDAGraph()", AFTER + "return torch.cuda.graph(y)"],
}


def pairs(cases):
    return [(rule, text) for rule, texts in cases.items() for text in texts]


@pytest.mark.parametrize(("rule", "cheat"), pairs(REFUSED))
def test_a_cheat_is_refused_by_its_rule_with_its_line(rule, cheat):
    mode = "pure" if rule == "compiled_whole" else "hybrid"
    found = {f.rule: f for f in findings(KERNEL + cheat, mode, "fused_operator")}
    assert rule in found
    assert found[rule].code is Code.FORBIDDEN
    assert not found[rule].is_hint
    assert LINE <= found[rule].line <= LINE + cheat.count("\n")
    assert found[rule].remedy


@pytest.mark.parametrize(("rule", "suspect"), pairs(HINTED))
def test_suspect_text_gives_a_hint_and_is_not_refused(rule, suspect):
    found = findings(KERNEL + suspect, "pure", "fused_operator")
    assert rule in {f.rule for f in found}
    assert all(f.is_hint for f in found)
    assert all(LINE <= f.line <= LINE + suspect.count("\n") for f in found if f.rule == rule)


def test_a_function_inside_torch_compile_is_refused_in_pure_mode_alone():
    def refused(mode):
        found = findings(KERNEL + COMPILED, mode, "fused_operator")
        return {finding.rule for finding in found if not finding.is_hint}

    assert refused("pure") - refused("hybrid") == {"compiled_whole"}
    assert "other_compiler" not in refused("hybrid")


def test_every_rule_has_a_case():
    ids = {s: {rule.id for rule in RULES if rule.severity is s} for s in RuleSeverity}
    assert ids[RuleSeverity.REFUSE] == REFUSED.keys() == LOOK_ALIKES.keys() - HINTED.keys()
    assert ids[RuleSeverity.HINT] == HINTED.keys() == LOOK_ALIKES.keys() - REFUSED.keys()


LOOK_ALIKES = {
    "dynamic_code": [
        "class M(torch.nn.Module):\n    def compile(self): ...\n    def f(self):\n"
        "        self.compile()\n        self.eval()\n        return self.train().eval()",
        "import re\nword = re.compile('a')",
        "def f(input, compile=1):\n    return input + compile",
        "def f():\n    '''exec(eval(open()))'''  # exec('1')",
        "@triton.jit\ndef after(exec, open):\n    return tl.exp(exec) + open",
    ],
    "foreign_import": [
        "import dataclasses, functools, typing, math\nfrom collections.abc import Callable",
        "if __name__ == '__main__':\n    import pytest\n    import triton.testing",
        "from triton.language.extra import libdevice\nfrom triton.testing import do_bench",
        "def f(x):\n    subprocess = x\n    return subprocess.run()",
    ],
    "reaches_outside": [
        "n = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1",
        "import os\nimport sys\nprint(sys.version_info, file=sys.stderr)\nos.path.join('a', 'b')",
        "def open(x):\n    return x\n\nopen(1)",
        "class M:\n    def load(self, path):\n        return self.open(path)",
        "import threading\nLOCK = threading.Lock()",
        "import importlib.util\nHAS = importlib.util.find_spec('torch') is not None",
        "io = 3\nx = io.numerator",
    ],
    "frame_walk": [
        "def f(x):\n    gc = x + 1\n    return gc.size(0)",
        "import gc\ngc.collect()",
        "import inspect\nn = inspect.signature(fused_operator)",
        "name = type(after).__name__ + after.__doc__ + after.__class__.__name__",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n    n: int = 1",
        "import warnings\nwith warnings.catch_warnings(record=False): ...",
        "import logging\nlogging.getLogger('k').warning('x', stacklevel=2)",
    ],
    "patches_module": [
        "class M(torch.nn.Module):\n    def __init__(self):\n        self.scale = 2",
        "TABLE = {}\nTABLE['a'] = 1",
        "mask = torch.empty(4)\nmask[0] = 1",
        "class M(torch.nn.Module):\n    def __setattr__(self, name, value):\n"
        "        super().__setattr__(name, value)",
        "n = triton.runtime.driver.active.utils.get_device_properties(0)",
    ],
    "global_switch": [
        "TF32 = torch.backends.cuda.matmul.allow_tf32",
        "p = torch.get_float32_matmul_precision()",
        AFTER + "with torch.set_grad_enabled(False):\n        return y",
        AFTER + "with torch.no_grad(), torch.cuda.device(y.device):\n        return y",
    ],
    "own_allocator": ["triton.set_allocator(lambda n, a, s: torch.empty(n))"],
    "process_hook": [
        "@torch.library.custom_op('mine::relu', mutates_args=())\ndef op(x: int) -> int: ...",
        "lib = torch.library.Library('mine', 'DEF')",
        "class M(torch.nn.Module):\n    def f(self, hook):\n"
        "        self.register_forward_hook(hook)",
    ],
    "escapes_dispatch": ["s = torch._C._cuda_getCurrentRawStream(0)"],
    "asks_for_observers": [
        "with torch.profiler.record_function('mine'): ...",
        "class P:\n    def _profiler_enabled(self):\n        return True",
    ],
    "host_code_in_kernel": [
        "@triton.jit\ndef k(x, y, N: tl.constexpr):\n    tl.store(y, max(tl.load(x), N))",
        "@triton.jit\ndef k(x, F: tl.constexpr):\n    tl.store(x, getattr(tl, F)(tl.load(x)))",
        "@triton.jit\ndef k(x):\n    tl.store(x, getattr(x.dtype.element_ty, 'name') == 'fp32')",
        "import numpy as np\n@triton.jit\ndef k(x, y):\n    tl.store(y, tl.load(x))\n"
        "def f(x):\n    return np.prod(x.shape)",
    ],
    "tensor_subclass": [
        "def f(x: torch.Tensor) -> torch.Tensor:\n    return x",
        "class M(torch.nn.Module):\n    def f(self, w):\n"
        "        self.w = torch.nn.Parameter(w)\n        return isinstance(w, torch.Tensor)",
    ],
    "other_compiler": [
        "from torch._inductor.runtime import triton_helpers\n"
        "@triton.jit\ndef max_of(x):\n    return triton_helpers.maximum(x, 0)\n\n"
        + AFTER
        + "max_of[(1,)](y)\n    return y",
        "@torch.compiler.disable\n" + AFTER + "return y",
    ],
    "compiled_whole": ["compile = 1\ntorch_compile = compile"],
    "library_compute": [
        AFTER + "return max(y.shape) + sum(y.stride())",
        "import math\n" + AFTER + "return math.exp(math.log(2))",
        "import logging\nlogger = logging.getLogger('a')\n" + AFTER + "logger.log(1, 'a')",
        "@triton.jit\ndef after(x):\n    return tl.exp(x.max()) + x.sum(0) + tl.dot(x, x)",
        "def test():\n    assert torch.allclose(after(1), torch.relu(1))",
        AFTER + "relu = y\n    return relu",
        "class after(torch.nn.Module):\n    def __init__(self):\n"
        "        self.body = torch.nn.Sequential(after())\n"
        "    def forward(self, x):\n        return self.body(x)",
        "class after:\n    def norm(self, x):\n        return x\n"
        "    def forward(self, x):\n        return self.norm(x)",
    ],
    "leaves_torch": ["import numpy as np\nLOW = np.float32(1)", AFTER + "return y.numel()"],
    "precomputes": [
        "class after(torch.nn.Module):\n    def __init__(self, n):\n"
        "        self.w = torch.nn.Parameter(torch.randn(n))\n        self.s = n ** -0.5",
    ],
    "fallback": [
        AFTER + "try:\n        return g()\n    except Exception as error:\n        raise error"
    ],
    "dead_kernel": [
        "@triton.jit\ndef part(x):\n    return x\n\n"
        "@triton.jit\ndef whole(x):\n    tl.store(x, part(x))\n\n"
        + AFTER
        + "whole[(1,)](y)\n    return y",
        "@triton.jit\ndef whole(x):\n    tl.store(x, 1)\n\n"
        "TABLE = {'a': whole}\n" + AFTER + "TABLE['a'][(1,)](y)\n    return y",
        "@triton.jit\ndef back_kernel(x):\n    tl.store(x, 1)\n\n"
        "class F(torch.autograd.Function):\n    def forward(c, y):\n        return y\n"
        "    def backward(c, y):\n        back_kernel[(1,)](y)\n\n" + AFTER + "return F.apply(y)",
        "def raw(x):\n    tl.store(x, 1)\n\nwhole = triton.jit(raw)\n"
        + AFTER
        + "whole[(1,)](y)\n    return y",
    ],
    "constant_output": [
        "def fused_operator(x0):\n    y = torch.zeros(1)\n"
        "    relu_kernel[(1,)](x0, y, 1, BLOCK=16)\n    return [y]",
        "def fused_operator(x0):\n    y = torch.zeros(1)\n    return after(y)",
    ],
    "hard_coded": [
        "CONFIGS = [triton.Config({'B': b}, num_warps=w) for b in (64, 128) for w in (4, 8)]",
        f"def test():\n    return {list(range(40))}",
        AFTER + f"'''{'long ' * 500}'''\n    return y",
        AFTER + "if y.shape[0] == 1:\n        return y\n    return y.view(1, 2)",
    ],
    "precision_drop": [
        "@triton.jit\ndef after(x, y):\n    a = tl.load(x).to(tl.float32)\n"
        "    tl.store(y, tl.dot(a, a, input_precision='ieee').to(tl.float16))",
        "@triton.jit\ndef after(x, y):\n    a = tl.load(x)\n    tl.dot(a, a, allow_tf32=False)",
    ],
    "computed_name": [
        "dtype = getattr(tl, 'float16')\nhas = hasattr(torch, 'compile')",
        "class after:\n    def forward(self):\n        return getattr(self, f'w{self.n}')",
        "t = torch\nx = t.float32",
    ],
    "keyed_by_address": [
        AFTER + "return y.data_ptr() % 16 == 0",
        AFTER + "key = (y.data_ptr(), y._version)\n    return CACHE[key]",
        "import numpy\n" + AFTER + "return torch.tensor([y.data_ptr()])",
    ],
    "returns_kept": [
        "class after(torch.nn.Module):\n    def forward(self, x):\n        return self.act(x)",
        "def fused_operator(x0):\n    found = [x0, x0]\n    after(x0)\n    return [found[0]]",
        "import functools\n@functools.lru_cache\ndef block(n):\n    return 2 * n\n\n"
        + AFTER
        + "return block(y)",
    ],
    "counts_calls": [
        AFTER + "n = 0\n    for i in y:\n        n += 1\n    return n > 3",
        "class after:\n    def forward(self):\n        self.seed += 1\n        return self.seed",
    ],
    "looks_around": [
        "import time\ndef benchmark():\n    return time.perf_counter()",
        "if __name__ == '__main__':\n    import time\n    print(time.time())",
    ],
    "reseeds": [
        "g = torch.Generator()\ng.manual_seed(0)",
        "if __name__ == '__main__':\n    torch.manual_seed(0)",
    ],
    "own_stream": ["s = torch.cuda.current_stream()\nw = s.cuda_stream"],
    "cuda_graph": ["def graph(x):\n    return x\n\nx = graph(1)"],
}


@pytest.mark.parametrize(("rule", "text"), pairs(LOOK_ALIKES))
def test_what_only_looks_alike_is_left_alone(rule, text):
    found = findings(KERNEL + text, "pure", "fused_operator")
    assert rule not in {f.rule for f in found}
    assert all(f.is_hint for f in found)


def test_a_plain_kernel_gives_no_finding_at_all():
    assert findings(KERNEL, "pure", "fused_operator") == ()


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
        "fused_operator: object = print\n",
        "if True:\n    def fused_operator(x): ...\n",
        "try:\n    from math import exp as fused_operator\nexcept ImportError: ...\n",
    ],
)
def test_an_entry_may_be_defined_in_any_way(text):
    assert "entry" not in {f.rule for f in findings(text, "pure", "fused_operator")}


@pytest.mark.parametrize(
    "text",
    [
        "def fused_operator(x):\n    return [x]\n",
        "# @triton.jit\ndef fused_operator(x):\n    '@triton.jit'\n    return [x]\n",
    ],
)
def test_without_a_kernel_there_is_nothing_to_judge(text):
    assert findings(text, "hybrid", "fused_operator")[0].code is Code.NO_KERNEL


def test_a_task_lends_other_peoples_modules_and_no_pythons_nor_ours():
    text = """
import os, einops.layers
from packaging.version import Version
from kernelwright import verify
if __name__ == "__main__":
    import requests
"""
    assert lent_by(text) == {"einops", "packaging"}


@pytest.mark.parametrize(
    ("module", "is_refused"), [("einops", False), ("timm", True), ("ctypes", True)]
)
def test_what_the_task_imports_a_candidate_may_import_too(module, is_refused):
    found = findings(f"import {module}\n{KERNEL}", "hybrid", "fused_operator", lent={"einops"})
    assert [f.rule for f in found] == ["foreign_import"] * is_refused


def test_library_calls_are_no_news_in_hybrid_mode():
    for text in HINTED["library_compute"]:
        found = findings(KERNEL + text, "hybrid", "fused_operator")
        assert "library_compute" not in {f.rule for f in found}


@pytest.mark.parametrize("entry", entries("honest"), ids=lambda entry: entry.path.stem)
def test_no_honest_kernel_of_the_corpus_is_refused(entry):
    text = entry.path.read_text()
    name = "ModelNew" if "class ModelNew" in text else "fused_operator"
    assert [f for f in findings(text, entry.mode, name) if not f.is_hint] == []


def test_the_table_of_rules_in_the_documents_is_the_current_one():
    assert (DOCS / "static-rules.md").read_text() == page()


CORPUS = [e.path.read_text() for kind in ("cheats", "honest") for e in entries(kind)]
WORDS = [
    "torch", "=", "(", ")", "[", "]", ".", ",", "x", ":", "\n", "    ", "def f", "class A",
    "lambda",
    "getattr", "'mm'", "import", "from", "*", "global x", "return", "@", "exec", "vars()", "1",
    "for", "in", "if", "else", "try:", "except:", "with", "as", "self", "__dict__", "globals()",
    "triton.jit", "match x:", "case", "async", "await", ":=", "f'{x}'", "del", "**", "type",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40), st.integers(0, 2**32))
def test_no_text_makes_the_rules_raise(words, seed):
    rng = random.Random(seed)
    text = rng.choice(CORPUS)
    at = rng.randrange(len(text))
    joined = rng.choice(["", " "]).join(words)
    for made in (joined, text[:at] + joined + text[at + rng.randrange(40) :]):
        for mode in ("pure", "hybrid"):
            assert isinstance(findings(made, mode, rng.choice(["ModelNew", "f"])), tuple)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_no_program_made_of_pieces_makes_the_rules_raise(seed):
    rng = random.Random(seed)
    trees = [ast.parse(text) for text in rng.sample(CORPUS, 3)]
    pieces = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.expr)]
    for node in ast.walk(trees[0]):
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and rng.random() < 0.1:
                setattr(node, name, rng.choice(pieces))
                break
    try:
        text = ast.unparse(trees[0])
    except (RecursionError, ValueError, AttributeError):
        return
    findings(text, "pure", "fused_operator")


@pytest.mark.slow
def test_reading_a_long_file_takes_little_more_than_parsing_it():
    text = "\n\n".join(CORPUS * 2)[:60_000].rpartition("\n\n\n")[0]
    assert len(text) > 40_000
    parsing_s = min(_seconds(lambda: ast.parse(text)) for _ in range(3))
    reading_s = min(_seconds(lambda: findings(text, "pure", "fused_operator")) for _ in range(3))
    assert reading_s < 15 * parsing_s


def _seconds(call):
    start_s = time.thread_time()
    call()
    return time.thread_time() - start_s


def test_an_interpreter_that_loses_count_of_its_depth_is_asked_again(monkeypatch):
    """As ast.parse does in one thread of several, in Python 3.11.7."""
    parse, calls = ast.parse, []

    def loses_count(*given, **options):
        calls.append(1)
        if len(calls) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=39, after=33)")
        return parse(*given, **options)

    text = "def fused_operator(x):\n    return x\n"
    monkeypatch.setattr(ast, "parse", loses_count)
    once = findings(text, "pure", "fused_operator")
    assert calls
    assert once == findings(text, "pure", "fused_operator")
