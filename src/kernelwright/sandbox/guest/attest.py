"""Guest side: what the process is like, in three parts, for the host to compare with its birth.

`settings`: process-wide switches. `running`: what would outlive a call. `Objects`: functions,
classes, modules and hooks, by identity and code. All of it only reports, beside code that may lie:
it finds what a candidate left behind, not a candidate that forges reports. What honest code makes
late (a submodule's first import, a driver's threads) is left out; what existed at birth must still
be the same object with the same code.
"""

import builtins
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter, is_
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
import triton
from triton import knobs
from triton.runtime._allocation import NullAllocator
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from kernelwright.sandbox.guest.disguise import stock_of
from kernelwright.sandbox.guest.persisting import persisting_l2_bytes
from kernelwright.sandbox.guest.surroundings import left_settings
from kernelwright.timing.waiting import sleeps_while_waiting

_SETTLE_S = 0.02
"""Threads that a call has just ended get this long to be gone."""

_MAX_NAMES = 20
"""Changed objects that are named; the digests tell that there are more."""

_DRIVER_THREADS = ("cuda", "pt_")
"""Native threads by these names are the driver's and PyTorch's, which start them late."""


# -- settings

_C = torch._C
_SETTINGS: dict[str, Callable[[], object]] = {
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_default_device()": torch.get_default_device,
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled,
    "torch.is_anomaly_enabled()": torch.is_anomaly_enabled,
    "autocast (cpu)": lambda is_on=torch.is_autocast_enabled: is_on("cpu"),  # type: ignore[misc]
    "autocast (cuda)": lambda is_on=torch.is_autocast_enabled: is_on("cuda"),  # type: ignore[misc]
    "torch.get_num_threads()": torch.get_num_threads,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision,
    "torch.backends.cuda.matmul.allow_tf32": _C._get_cublas_allow_tf32,
    "torch.backends.cudnn.allow_tf32": _C._get_cudnn_allow_tf32,
    "torch.backends.cudnn.enabled": _C._get_cudnn_enabled,
    "torch.backends.cudnn.benchmark": _C._get_cudnn_benchmark,
    "torch.backends.cudnn.deterministic": _C._get_cudnn_deterministic,
    "reduced precision in fp16 matmul": _C._get_cublas_allow_fp16_reduced_precision_reduction,
    "reduced precision in bf16 matmul": _C._get_cublas_allow_bf16_reduced_precision_reduction,
    "flash attention": _C._get_flash_sdp_enabled,
    "memory-efficient attention": _C._get_mem_efficient_sdp_enabled,
    "math attention": _C._get_math_sdp_enabled,
    "torch function modes": _C._len_torch_function_stack,
    "torch dispatch modes": _C._len_torch_dispatch_stack,
    "working folder": os.getcwd,
    "recursion limit": sys.getrecursionlimit,
}
"""Name -> getter, bound when the server starts: a patched attribute later answers for none."""

_CUDA_SETTINGS: dict[str, Callable[[], object]] = {
    "torch.cuda.current_device()": torch.cuda.current_device,
    "torch.cuda.current_stream()": lambda current=torch.cuda.current_stream: (  # type: ignore[misc]
        current().cuda_stream
    ),
    "persisting L2 cache": persisting_l2_bytes,
    "waits for the GPU asleep": sleeps_while_waiting,
}


_KNOBS = [
    "autotuning", "build", "cache", "compilation", "language", "nvidia", "runtime",
]  # fmt: skip
"""Groups of Triton's own switches; what was assigned shows among a group's variables."""

_LATE_VARIABLES = ("TORCHINDUCTOR_",)
"""Variables that PyTorch sets for itself when a submodule is first imported."""


def settings(*, on_gpu: bool) -> dict[str, str]:
    """Returns process-wide switches of PyTorch, Triton and Python, and environment variables, as
    text."""
    getters = _SETTINGS | _CUDA_SETTINGS if on_gpu else _SETTINGS
    torch_settings = {name: _text(getter) for name, getter in getters.items()}
    knob_values = {
        f"triton.knobs.{group}.{name}": f"{value!s:.100}"
        for group in _KNOBS
        for name, value in vars(getattr(knobs, group)).items()
    }
    variables = {
        f"environment {name}": value
        for name, value in os.environ.items()
        if not name.startswith(_LATE_VARIABLES)
    }
    return torch_settings | knob_values | variables | left_settings()


def _text(getter: Callable[[], object]) -> str:
    try:
        return str(getter())
    except RuntimeError as error:  # PyTorch refuses to read what was set in two ways
        return type(error).__name__


# -- running


def running(usual: dict[str, int] | None = None, unfinished_streams: int = 0) -> dict[str, int]:
    """Counts work that would outlive a call: threads, processes, open files, GPU work.

    Args:
        usual: the counts at birth. A larger count is given a moment to fall.
        unfinished_streams: streams with work that nobody waits for (watch.Launches).
    """
    counts = _count()
    if usual is not None and any(count > usual[name] for name, count in counts.items()):
        threading.Event().wait(_SETTLE_S)  # a pool that was shut down is on its way out
        counts = _count()
    return counts | {"streams with work": unfinished_streams}


def _count() -> dict[str, int]:
    tasks = Path("/proc/self/task")
    native, children = 0, 0
    for task in os.listdir(tasks):
        try:
            native += not (tasks / task / "comm").read_text().startswith(_DRIVER_THREADS)
            children += len((tasks / task / "children").read_text().split())
        except OSError:
            continue  # it has just ended, or this kernel does not list children
    return {
        "threads": threading.active_count(),
        "native threads": native,
        "processes": children,
        "open files": sum(map(_is_file, os.listdir("/proc/self/fd"))),
    }


def _is_file(descriptor: str) -> bool:
    """Whether a descriptor is a file of the file system. The driver opens others: devices, pipes,
    sockets, memory by name. Guests cannot connect sockets."""
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
    return target.startswith("/") and not target.startswith(("/dev/", "/proc/", "/memfd:"))


# -- objects

_MODULES = [
    "builtins", "time", "sys", "os", "gc", "inspect", "io", "json", "socket", "struct",
    "threading", "importlib", "subprocess", "random", "math", "ctypes", "ast", "functools",
    "contextlib", "weakref", "torch", "torch._C", "torch._C._nn", "torch.nn",
    "torch.nn.functional", "torch.nn.modules.module", "torch.autograd", "torch.cuda",
    "torch.cuda.streams", "torch.cuda.memory", "torch.random", "torch.linalg", "torch.special",
    "torch.utils._python_dispatch", "torch.testing", "torch.library", "torch._ops", "triton",
    "triton.knobs", "triton.language", "triton.language.core", "triton.language.math",
    "triton.language.semantic", "triton.language.standard", "triton.runtime.jit",
    "triton.runtime.cache", "triton.runtime.driver", "triton.runtime.autotuner",
    "triton.runtime.build", "triton.runtime.interpreter", "triton.compiler.compiler",
    "triton.compiler.code_generator", "triton.testing", "triton.backends.nvidia.compiler",
    "triton.backends.nvidia.driver", "kernelwright.sandbox.guest.attest",
    "kernelwright.sandbox.guest.called", "kernelwright.sandbox.guest.candidate",
    "kernelwright.sandbox.guest.compiling", "kernelwright.sandbox.guest.crossings",
    "kernelwright.sandbox.guest.disguise",
    "kernelwright.sandbox.guest.inside", "kernelwright.sandbox.guest.instances",
    "kernelwright.sandbox.guest.interpreter.patches",
    "kernelwright.sandbox.guest.interpreter.arguments",
    "kernelwright.sandbox.guest.interpreter.bounds",
    "kernelwright.sandbox.guest.interpreter.memory",
    "kernelwright.sandbox.guest.interpreter.order",
    "kernelwright.sandbox.guest.interpreter.races",
    "kernelwright.sandbox.guest.interpreter.scopes",
    "kernelwright.sandbox.guest.interpreter.trees", "kernelwright.sandbox.guest.kernel_cache",
    "kernelwright.sandbox.shared.manner", "kernelwright.sandbox.shared.modes",
    "kernelwright.sandbox.guest.red_zones", "kernelwright.sandbox.shared.seeding",
    "kernelwright.sandbox.guest.surroundings", "kernelwright.sandbox.shared.tensors",
    "kernelwright.sandbox.guest.timed", "kernelwright.sandbox.guest.tuned",
    "kernelwright.sandbox.guest.watch", "kernelwright.sandbox.shared.wire",
    "kernelwright.sandbox.guest.witness",
]  # fmt: skip

_LATE = {("torch", "manual_seed")}
"""Objects that PyTorch itself replaces when a submodule of its own is first imported
(torch._dynamo)."""

_MADE_MODULES = ("cython_runtime", "_cython_", "_remote_module_non_scriptable")
"""Modules that compiled packages and PyTorch make as they are imported, without a file."""

_BUILT_MODULES = {"cuda_utils", "__triton_launcher"}
"""Modules that Triton's driver compiles into its cache at the first launch."""

_LATE_NAMES = {"__slotnames__"}
"""Attributes by which `copy` and `pickle` remember a class, in the class."""

_GROWING = ("CudaUtils", "CudaDriver")
"""Classes of Triton's driver that keep their one instance as an attribute, made at first use."""


class _Group:
    """Functions, classes and modules in one namespace (a module or class), as they were."""

    def __init__(self, name: str, space: Any) -> None:
        self.name = name
        self.space = space
        self.is_class = isinstance(space, type)
        self.is_fixed = self.is_class and not name.endswith(_GROWING)
        named = {
            key: value
            for key, value in vars(space).items()
            if self._is_tracked(value) and (name, key) not in _LATE
        }
        self.keys, self.values = tuple(named), tuple(named.values())
        """Values are held, so that no identity is used again."""
        self.owners, self.functions = _functions(named)
        self.kernels = [(name, value) for name, value in named.items() if _is_kernel(value)]
        self.before = self._now()
        self.digest = f"{hash(tuple(map(id, self.before))):x}"

    def _is_tracked(self, value: object) -> bool:
        if self.is_class:
            return callable(value) or hasattr(value, "__get__")
        return callable(value) or isinstance(value, ModuleType)

    def _now(self) -> list[object]:
        values = map(vars(self.space).get, self.keys)
        codes = map(attrgetter("__code__"), self.functions)
        defaults = map(attrgetter("__defaults__"), self.functions)
        bodies = (vars(kernel).get(name) for _, kernel in self.kernels for name in _BODY)
        # A new attribute of a class may hide an inherited method, so the names count too.
        names = tuple(sorted(vars(self.space).keys() - _LATE_NAMES)) if self.is_fixed else ()
        return [*values, *codes, *defaults, *bodies, *names]

    def report(self) -> tuple[str, list[str]]:
        """Returns a digest, and the names of objects that have changed."""
        now = self._now()
        # Identity, because a candidate's object may define `==` to be equal to anything.
        if len(now) == len(self.before) and all(map(is_, now, self.before)):
            return self.digest, []
        kernels = [name for name, _ in self.kernels for _ in _BODY]
        names = (*self.keys, *self.owners, *self.owners, *kernels)
        changed = [
            name for name, old, new in zip(names, self.before, now, strict=False) if old is not new
        ]
        attributes = len(names)
        changed += sorted(set(map(str, now[attributes:])) ^ set(map(str, self.before[attributes:])))
        digest = f"{hash(tuple(map(id, now))):x}"
        return digest, [f"{self.name}.{name}" for name in changed]


_BODY = ("fn", "_src", "run", "src")


def _is_kernel(value: object) -> bool:
    return isinstance(value, JITFunction | InterpretedFunction)


def _functions(named: dict[str, Any]) -> tuple[list[str], list[FunctionType]]:
    """Returns the Python functions under the values (methods, wrapped functions, bodies of
    kernels), and a name for each."""
    names, functions = [], []
    for name, value in named.items():
        for attribute in ("", "__func__", "fget", "fn", "__wrapped__"):
            inner = getattr(value, attribute, None) if attribute else value
            while isinstance(inner, FunctionType):
                names.append(name)
                functions.append(inner)
                inner = stock_of(inner)
    return names, functions


class Objects:
    """All objects of the process that are attested by identity.

    The fork server makes and renews them: to read each object in each guest would copy 20 MB of
    pages. A guest on a GPU renews them once more, when its CUDA context is there.
    """

    def __init__(self) -> None:
        modules = [importlib.import_module(name) for name in _MODULES if _exists(name)]
        spaces: dict[str, Any] = {module.__name__: module for module in modules}
        spaces |= {
            f"{module.__name__}.{name}": value
            for module in modules
            if module.__name__.startswith(("triton", "kernelwright"))
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
        spaces |= {f"{kind.__module__}.{kind.__qualname__}": kind for kind in _classes()}
        self._groups = [_Group(name, space) for name, space in spaces.items()]
        self._roots = tuple(sorted({str(Path(root).resolve()) for root in sys.path if root}))
        self.renew()

    def renew(self) -> None:
        """Takes the present state as the expected state."""
        self._groups = [
            _Group(group.name, group.space) if group.report()[1] else group
            for group in self._groups
        ]
        self._modules = dict(sys.modules)
        self._aten = frozenset(torch.library._impls)
        self.renew_hooks()

    def renew_hooks(self) -> None:
        """Takes the present hooks as expected: each guest has hooks and streams of its own."""
        self._hooks = _hooks()

    def digests(self) -> dict[str, str]:
        """Returns the digests by group, as `report` gives them where nothing has changed."""
        unchanged = dict.fromkeys(("sys.modules", "hooks", "ATen implementations"), "")
        return {group.name: group.digest for group in self._groups} | unchanged

    def report(self, own: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Returns digests by group, and names that changed, for the message.

        Args:
            own: names of modules that the candidates put into `sys.modules`.
        """
        digests, changed = {}, []
        for group in self._groups:
            digests[group.name], names = group.report()
            changed += names
        parts = {
            "sys.modules": self._foreign_modules(set(own)),
            "hooks": _differing(self._hooks, _hooks()),
            "ATen implementations": sorted(filter(_is_aten, torch.library._impls - self._aten)),
        }
        for name, part_digests in parts.items():
            digests[name] = ",".join(part_digests)
            changed += [f"{name}: {digest}" for digest in part_digests]
        return digests, changed

    def _foreign_modules(self, own: set[str]) -> list[str]:
        """Returns names of modules that were replaced or removed, or that come from no known
        place."""
        now = sys.modules.copy()
        changed = [name for name, module in self._modules.items() if now.get(name) is not module]
        # An honest candidate may import more of an installed package: such modules are added.
        for name in now.keys() - self._modules.keys() - own - _BUILT_MODULES:
            if self._is_installed(now[name]):
                self._modules[name] = now[name]  # from now on it must stay
            else:
                changed.append(name)
        return sorted(changed)

    def _is_installed(self, module: Any) -> bool:
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        name = str(getattr(module, "__name__", ""))
        if origin in ("built-in", "frozen") or name.startswith(_MADE_MODULES):
            return True
        if isinstance(origin, str):
            return str(Path(origin).resolve()).startswith(self._roots)
        return name.partition(".")[0] in self._modules


def _exists(name: str) -> bool:
    """Whether the module can be imported. A version may lack a submodule; its package must be
    there."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        if "." not in name:
            raise
        return False
    return True


def _classes() -> Sequence[type]:
    return (
        torch.Tensor,
        torch.Tensor.__base__ or object,
        torch.nn.Module,
        torch.nn.Parameter,
        torch.Generator,
        torch.cuda.Event,
        torch.cuda.Stream,
        torch.cuda.CUDAGraph,
    )


def _is_aten(implementation: str) -> bool:
    """Whether an operator is PyTorch's own; honest libraries register operators of their own."""
    return implementation.startswith(("aten/", "prims/"))


def _hooks() -> dict[str, object]:
    """Returns an identity of each function that Python, PyTorch and Triton call by themselves."""
    modules = torch.nn.modules.module
    hooks: dict[str, object] = {
        "sys.path": tuple(sys.path),
        "sys.meta_path": tuple(map(id, sys.meta_path)),
        "sys.path_hooks": tuple(map(id, sys.path_hooks)),
        "sys.excepthook": id(sys.excepthook),
        "sys.unraisablehook": id(sys.unraisablehook),
        "sys.stdout": id(sys.stdout),
        "sys.settrace": id(sys.gettrace()),
        "sys.setprofile": id(sys.getprofile()),
        "threading.settrace": id(threading.gettrace()),
        "gc.callbacks": tuple(map(id, gc.callbacks)),
        "gc.isenabled": gc.isenabled(),
        "builtins.__import__": id(builtins.__import__),
        "torch.nn global hooks": sum(
            len(value)
            for name, value in vars(modules).items()
            if name.startswith("_global_") and hasattr(value, "__len__")
        ),
    }
    for number in signal.valid_signals():
        hooks[f"handler of signal {number}"] = id(signal.getsignal(number))
    for name in dir(knobs.runtime):
        if name.endswith("_hook"):
            hook = getattr(knobs.runtime, name)
            hooks[f"knobs.runtime.{name}"] = (id(hook), *map(id, getattr(hook, "calls", ())))
    return hooks


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return sorted(name for name in before if now.get(name) != before[name])


def reset_conveniences() -> None:
    """Resets state that honest candidates may set, and that the next candidate must not find."""
    triton.set_allocator(NullAllocator())


@cache
def objects() -> Objects:
    """Returns the objects of this process; guests inherit the server's."""
    return Objects()


class Attester:
    """Reports on a guest from its birth on. Make it when the process is as candidates will find
    it."""

    def __init__(self, *, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._usual: dict[str, int] = {}
        objects().renew()

    def begin(self) -> dict[str, Any]:
        """Returns the state at birth, after a guest's threads have started and before it loads
        anything."""
        self._usual = running()
        objects().renew_hooks()
        return {**self.brief(), "objects": objects().digests(), "changed": []}

    def brief(self, unfinished_streams: int = 0) -> dict[str, Any]:
        """Reports settings and running work after a call, in about 0.3 ms."""
        return {
            "settings": settings(on_gpu=self._on_gpu),
            "running": running(self._usual, unfinished_streams),
        }

    def full(self, own_modules: Iterable[str] = ()) -> dict[str, Any]:
        """Reports objects too, after a candidate, in about 3 ms."""
        digests, changed = objects().report(own_modules)
        return {**self.brief(), "objects": digests, "changed": changed[:_MAX_NAMES]}
