"""What a guest says about its own process: every thing that is attested, changed once."""

import subprocess
import sys
from contextlib import suppress

import pytest
import torch
from sample_candidates import ADD, HEADER

from kernelwright.sandbox.guest import attest
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault, Limits

ENTRY = """
kept = []

def keep(context):
    kept.append(context)
    context.__enter__()

def fused_operator():
    {}
    return []
"""

SETTINGS = {
    "default dtype": "torch.set_default_dtype(torch.float16)",
    "default device": "torch.set_default_device('meta')",
    "autocast": "torch.set_autocast_enabled('cpu', True)",
    "threads of PyTorch": "torch.set_num_threads(2)",
    "deterministic algorithms": "torch.use_deterministic_algorithms(True, warn_only=True)",
    "matmul precision": "torch.set_float32_matmul_precision('medium')",
    "TF32 in cuDNN": "torch.backends.cudnn.allow_tf32 = False",
    "TF32, the new way": "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "benchmark": "torch.backends.cudnn.benchmark = True",
    "attention": "torch.backends.cuda.enable_flash_sdp(False)",
    "anomaly mode": "torch.autograd.set_detect_anomaly(True)",
    "inference mode": "keep(torch.inference_mode())",
    "a function mode": "keep(torch.overrides.BaseTorchFunctionMode())",
    "a switch of Triton": "triton.knobs.compilation.always_compile = True",
    "a variable": "import os; os.environ['TRITON_DEBUG'] = '1'",
    "the folder": "import os; os.chdir(os.environ['HOME'])",
    "recursion": "import sys; sys.setrecursionlimit(4000)",
}

RUNNING = {
    "a thread": "import threading, time; threading.Thread(target=time.sleep, args=(30,)).start()",
    "a thread without a name": "import _thread, time; _thread.start_new_thread(time.sleep, (30,))",
    "a process": "import os, time; os.fork() or time.sleep(30)",
    "a file": "import os; os.open(os.environ['HOME'] + '/f', os.O_CREAT | os.O_WRONLY)",
}

CLASS = "next(c for c in object.__subclasses__() if c.__name__ == '{}')"
"""A class of ours, which `sys.modules` does not lead to."""

OBJECTS = {
    "a function of torch": "torch.empty = lambda *a, **k: None",
    "a builtin": "import builtins; builtins.abs = lambda x: 1",
    "the clock": "import time; time.perf_counter = lambda: 0.0",
    "a method of tensors": "torch.Tensor.numel = lambda self: 1",
    "a new method of tensors": "torch.Tensor.__float__ = lambda self: 1.0",
    "a method of modules": "torch.nn.Module.__call__ = lambda self: 1",
    "code": "torch.nn.functional.softmax.__code__ = (lambda *a: 0).__code__",
    "defaults": "torch.nn.functional.softmax.__defaults__ = (1, 2, 3)",
    "kernel launches": "triton.runtime.jit.JITFunction.run = lambda *a, **k: None",
    "a function of kernels": "tl.sum.fn = lambda x: x",
    "a builtin of kernels": "tl.load = lambda x: x",
    "the cache of kernels": "triton.runtime.cache.FileCacheManager.get_file = lambda *a: None",
    "the guest": CLASS.format("Inside") + ".run = lambda *a: None",
    "the report": CLASS.format("Launches") + ".reset = lambda *a: None",
    "a module removed": "import sys; del sys.modules['json.decoder']",
    "a module replaced": "import sys, types; sys.modules['bisect'] = types.ModuleType('bisect')",
    "a module added": "import sys, types; sys.modules['spare'] = types.ModuleType('spare')",
    "the path": "import sys; sys.path.insert(0, '.')",
    "an importer": "import sys; sys.meta_path.insert(0, sys.meta_path[0])",
    "a trace": "import sys; sys.settrace(lambda *a: None)",
    "a profile": "import sys; sys.setprofile(lambda *a: None)",
    "a hook on errors": "import sys; sys.excepthook = print",
    "the garbage collector": "import gc; gc.disable()",
    "a callback of it": "import gc; gc.callbacks.append(lambda *a: None)",
    "a signal": "import signal; signal.signal(signal.SIGUSR1, lambda *a: None)",
    "a hook on modules": "torch.nn.modules.module.register_module_forward_hook(lambda *a: None)",
    "a hook on launches": "triton.knobs.runtime.launch_enter_hook.add(lambda *a: None)",
    "an operator": (
        "k = torch.library.Library('aten', 'IMPL'); "
        "k.impl('relu', lambda x: x, 'CPU'); torch.kept = k"
    ),
}

HONEST = {
    "copies": HEADER
    + ENTRY.format("import copy, triton.language as tl; copy.copy(tl.core.constexpr(1))"),
    "a kernel": ADD.replace("fused_operator(x, y)", "add_up(x, y)")
    + "\ndef fused_operator():\n    return add_up(torch.ones(300), torch.ones(300))\n",
    "late imports": HEADER
    + ENTRY.format("import numpy.random, torch.fft, torch.distributions, statistics, decimal"),
    "late imports that patch": HEADER + ENTRY.format("import torch._dynamo"),
    "modes that are left": HEADER
    + ENTRY.format("with torch.autocast('cpu'), torch.inference_mode(): torch.ones(1) + 1"),
    "an allocator": HEADER
    + ENTRY.format("triton.set_allocator(lambda size, align, stream: torch.empty(size))"),
    "a pool that is shut down": HEADER
    + ENTRY.format(
        "from concurrent.futures import ThreadPoolExecutor as P\n"
        "    with P(4) as pool: list(pool.map(abs, range(64)))"
    ),
    "an operator of its own": HEADER
    + ENTRY.format("torch.library.custom_op('mine::add', lambda x: x + 1, mutates_args=(), "
                   "schema='(Tensor x) -> Tensor')"),
    "an error": HEADER + ENTRY.format("raise ValueError('no')"),
    "state of its own": HEADER + "seen = {}\n" + ENTRY.format("seen[len(seen)] = torch.ones(3)"),
}  # fmt: skip


def after(source):
    """(state at birth, after the call, after it is forgotten) of a guest that ran `source`."""
    with shared("cpu").guest(Limits(wall_s=60)) as guest:
        guest.load(source, "candidate")
        called = None
        with suppress(GuestFault):
            called = guest.run("candidate", GuestCall((), seed=1)).process
        guest.forget("candidate")
        return guest.born, called, guest.attest()


@pytest.mark.parametrize("change", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_that_is_changed_shows_after_the_call_and_later(change):
    born, called, forgotten = after(HEADER + ENTRY.format(change))
    assert called.settings != born.settings
    assert forgotten.settings != born.settings


@pytest.mark.parametrize("change", RUNNING.values(), ids=RUNNING)
def test_what_is_left_running_shows_after_the_call_and_later(change):
    born, called, forgotten = after(HEADER + ENTRY.format(change))
    for now in (called, forgotten):
        assert any(count > born.running[name] for name, count in now.running.items()), now.running


@pytest.mark.parametrize("change", OBJECTS.values(), ids=OBJECTS)
def test_an_object_that_is_changed_shows_once_the_candidate_is_forgotten(change):
    born, called, forgotten = after(HEADER + ENTRY.format(change))
    assert called.objects == {}
    assert forgotten.objects != born.objects
    assert forgotten.changed


@pytest.mark.slow
@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST)
def test_what_honest_code_does_changes_nothing(source):
    born, called, forgotten = after(source)
    assert ("raise" in source) == (called is None)
    assert called is None or called.settings == born.settings
    assert forgotten.settings == born.settings
    assert forgotten.running == born.running
    assert forgotten.objects == born.objects, forgotten.changed
    assert not forgotten.changed


def test_a_forgotten_candidate_is_gone(guest):
    first = HEADER + "MARK_OF_THE_FIRST = 1\ndef fused_operator():\n    return torch.ones(1)\n"
    guest.load(first, "first")
    guest.run("first", GuestCall((), seed=1))
    guest.forget("first")
    names = "[n for n, m in sys.modules.items() if 'MARK_OF_THE_FIRST' in vars(m)]"
    source = f"import sys\ndef fused_operator():\n    assert not {names}\n    return []\n"
    guest.load(HEADER + source, "second")
    assert guest.run("second", GuestCall((), seed=1)).structure == "[]"


def test_a_candidate_that_did_not_load_leaves_no_module(guest):
    with pytest.raises(Exception, match="no"):
        guest.load(HEADER + "raise ValueError('no')\n", "first")
    guest.forget("first")
    assert guest.attest().objects == guest.born.objects


def test_inputs_that_cannot_be_taken_are_the_fault_of_who_broke_that(guest):
    guest.load(HEADER + "torch.frombuffer = None\ndef fused_operator(x):\n    return x\n")
    with pytest.raises(GuestFault) as caught:
        guest.run("candidate", GuestCall([torch.ones(3)], seed=1))
    assert caught.value.kind == "malformed"


NOT_BESIDE_CANDIDATES = {
    "candidate_files", "compile_hook", "cuda_memory", "forkloop", "guards", "kernel", "landlock",
    "namespaces", "orphaned", "own_code", "own_folders", "persisting", "removal", "seccomp",
    "starting", "stub_gpu", "window",
}  # fmt: skip
"""Modules that set a guest up, compile, move the host's memory, or clear up: they watch no judged
call."""
IMPORTED = """
import sys
import kernelwright.sandbox.guest.inside, kernelwright.sandbox.guest.interpreter.patches
import kernelwright.sandbox.guest.interpreter.scopes, kernelwright.sandbox.guest.interpreter.trees
ours = {name: sys.modules[name] for name in sys.modules if name.startswith("kernelwright.sandbox.")}
print(*(name for name, module in ours.items() if not hasattr(module, "__path__")))
"""


@pytest.mark.slow
def test_every_module_of_ours_that_watches_a_call_is_attested():
    command = [sys.executable, "-c", IMPORTED]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {name.rpartition(".")[2] for name in text.split()}
    attested = {name.rpartition(".")[2] for name in attest._MODULES if "sandbox" in name}
    assert names - NOT_BESIDE_CANDIDATES == attested
