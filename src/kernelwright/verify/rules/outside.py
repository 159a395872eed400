"""Rules that refuse: code and data from elsewhere than the file and the arguments."""

import ast
import sys
from collections.abc import Iterator
from functools import lru_cache

from kernelwright.verify.rules.rule import refuse, uses
from kernelwright.verify.rules.scopes import IMPORTERS
from kernelwright.verify.rules.source import CandidateSource, parse, starts

PLAIN = {
    "torch", "triton", "numpy", "__future__", "abc", "bisect", "cmath", "collections",
    "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools",
    "hashlib", "heapq", "itertools", "json", "logging", "math", "numbers", "operator", "packaging",
    "random", "re", "statistics", "string", "textwrap", "time", "types", "typing",
    "typing_extensions", "warnings", "weakref",
}  # fmt: skip
"""Top-level modules a kernel file may import and use."""
PARTLY = {
    "os": {"path", "environ", "getenv", "putenv", "unsetenv", "cpu_count"},
    "sys": {
        "maxsize", "version", "version_info", "float_info", "byteorder", "platform", "stdout",
        "stderr",
    },
    "threading": {"Lock", "RLock", "local"},
    "importlib": {"util.find_spec", "metadata.version", "import_module"},
    "gc": {"collect"},
    "inspect": {"signature", "Parameter", "Signature", "isfunction", "isclass", "ismethod"},
    "traceback": {"print_exc", "format_exc"},
}  # fmt: skip
"""Modules that may be imported -> all that may be used of them."""
HIDDEN = {
    "ctypes", "subprocess", "multiprocessing", "socket", "atexit", "mmap", "shutil", "tempfile",
    "pathlib", "io", "tarfile", "zipfile", "glob",
}  # fmt: skip
"""Modules that PyTorch's own modules import, and that one can get hold of there."""
WATCHERS = {"gc", "inspect", "traceback"}
"""Those of them that look at other code's objects."""
FRAMES = {"sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile", "sys.exc_info"}
REACHES_OUT = {
    "open", "input", "breakpoint", "torch.load", "torch.save", "torch.hub", "torch.classes",
    "torch.ops.load_library", "torch.utils.cpp_extension", "torch.from_file", "torch.package",
    "torch.multiprocessing", "torch.cuda.cudart", "torch.cuda.nccl",
    "torch.distributed.init_process_group", "torch.distributed.rpc", "torch.distributed.TCPStore",
    "torch.distributed.FileStore", "torch.distributed.launcher", "torch.distributed.elastic",
    "torch.utils.model_zoo", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.memmap",
    "numpy.fromfile", "numpy.save", "numpy.savez", "numpy.savetxt", "numpy.ctypeslib",
    "logging.FileHandler", "logging.handlers", "logging.config", "triton.runtime.cache",
    "triton.runtime.build",
}  # fmt: skip
OUTSIDE_ATTRIBUTES = {"from_file", "tofile", "ctypes"}
DYNAMIC_CODE = {
    "exec", "eval", "compile", "__builtins__", "builtins", "marshal", "pickle",
    "runpy", "types.FunctionType", "types.CodeType", "types.LambdaType",
}  # fmt: skip
FRAME_ATTRIBUTES = {
    "tb_frame", "tb_next", "f_back", "f_locals", "f_globals", "f_builtins", "f_code", "gi_frame",
    "cr_frame", "ag_frame", "__traceback__", "__closure__", "__subclasses__", "__globals__",
    "findCaller", "__code__", "__defaults__", "__kwdefaults__", "__wrapped__", "__builtins__",
    "__mro__", "__base__", "__bases__", "__self__", "__loader__", "__spec__",
}  # fmt: skip

FRAME_KEYWORDS = {"stack_info": "logging", "record": "warnings.catch_warnings"}
"""Keywords by which logs and warnings tell who calls, and the functions that take them."""


@refuse("write the code out", "E23 E37 E61")
def dynamic_code(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Code that is made at run time hides what runs from every reader, people included."""
    return uses(source, DYNAMIC_CODE)


@refuse(
    "use torch, triton, Python's pure modules, or in hybrid mode others that the task imports",
    "E03 E07 E23 E32 E37 E52 E59 E60 E62",
)
def foreign_import(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Other modules bring processes, files, threads, or kernels of other people."""
    for line, module in _imported(source):
        if module.split(".")[0] not in PLAIN | PARTLY.keys() | source.lent:
            yield line, f"imports {module}"
    for node in source.all(ast.ImportFrom):
        if node.module in PARTLY and any(alias.name == "*" for alias in node.names):
            yield node.lineno, f"imports all of {node.module}"
    yield from uses(source, HIDDEN)


@lru_cache(16)
def lent_by(text: str) -> frozenset[str]:
    """Modules of other people that a task's file is written with: a candidate for it may keep what
    of the file it does not compute with."""
    modules = {module.split(".")[0] for _, module in _imported(parse(text, ""))}
    return frozenset(modules - sys.stdlib_module_names - {"", "kernelwright"})


def _imported(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """(line, module)."""
    for plain in source.all(ast.Import):
        for alias in plain.names:
            yield plain.lineno, alias.name
    for node in source.all(ast.ImportFrom):
        yield node.lineno, "." * node.level + (node.module or "")
    for call in source.all(ast.Call):
        if source.dotted(call.func) in IMPORTERS:
            yield call.lineno, source.dotted(call) or "a computed name"


@refuse("take everything from the arguments", "E30 E38 E47 E52 E54 E55 E59 E60 E62")
def reaches_outside(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Files, processes, the driver: a kernel's inputs are its arguments."""
    yield from uses(source, REACHES_OUT)
    yield from _beyond(source, PARTLY.keys() - WATCHERS)
    for node in source.all(ast.Attribute):
        if node.attr in OUTSIDE_ATTRIBUTES:
            yield node.lineno, f"uses .{node.attr}"


@refuse("take everything from the arguments", "E44 E45 E46 E50 E61")
def frame_walk(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Looking into other frames and objects is looking for the judge."""
    yield from uses(source, FRAMES | {"__loader__", "__spec__"})
    yield from _beyond(source, WATCHERS)
    for node in source.all(ast.Attribute):
        if node.attr in FRAME_ATTRIBUTES:
            yield node.lineno, f"reads .{node.attr}"
    for call in source.all(ast.Call):
        called = source.dotted(call.func)
        if called in {"getattr", "hasattr"} and len(call.args) > 1:
            name = source.names.text(call.args[1])
            if name in FRAME_ATTRIBUTES:
                yield call.lineno, f"reads .{name}"
        for keyword in call.keywords:
            asked = FRAME_KEYWORDS.get(keyword.arg or "")
            is_off = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if asked is not None and called.startswith(asked) and not is_off:
                yield call.lineno, f"asks for the callers: {keyword.arg} of {called}"


def _beyond(source: CandidateSource, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Uses of what `PARTLY` does not list."""
    for use in source.named(modules):
        name = use.name.replace("()", "")
        module, _, rest = name.partition(".")
        if not rest or starts(name, FRAMES):
            continue
        allowed = PARTLY[module]
        is_step = any(name.startswith(f"{rest}.") for name in allowed)  # importlib.util
        if not (is_step or starts(rest, allowed)):
            yield use.line, f"uses {use.name}"
