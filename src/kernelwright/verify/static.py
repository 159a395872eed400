"""Rules over a candidate's source text: what is refused before anything runs, and hints.

A rule sees the syntax tree with import aliases, plain assignments and constant `getattr` resolved:
`import torch.cuda as c; s = c.Stream` and `getattr(torch.cuda, "Stream")` are the same to it. Text
can always be made to say less than it does: the rules only make cheap cheats cheap to stop and name
their line; what decides is the dynamic probes. What honest code also does (a `try` around a launch,
a `torch.mm` in a shape helper) is a hint: it goes to the verdict's advice.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelwright.core.verdict import Code
from kernelwright.verify.source import IMPORTERS, Source, parse


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    code: Code
    line: int
    message: str
    remedy: str
    is_hint: bool = False


Rule = Callable[[Source], Iterator[tuple[int, str]]]
"""Yields (line, what is wrong there)."""

ALLOWED_IMPORTS = {
    "torch", "triton", "math", "typing", "functools", "itertools", "operator", "dataclasses",
    "collections", "enum", "abc", "contextlib", "copy", "warnings", "types", "numbers", "numpy",
    "random", "time", "logging", "os", "sys", "__future__",
}  # fmt: skip
"""Top-level modules a kernel file may import; of `os` and `sys`, next to nothing may be used."""
HARMLESS = {"os.path", "sys.maxsize", "sys.version_info", "sys.float_info"}
REACHES_OUT = {
    "open", "input", "torch.load", "torch.save", "torch.hub", "torch.ops.load_library",
    "torch.classes.load_library", "torch.utils.cpp_extension", "numpy.load", "numpy.memmap",
    "numpy.fromfile", "numpy.save", "torch.from_file", "torch.multiprocessing",
    "torch.distributed", "torch.cuda.cudart", "torch.cuda.change_current_allocator",
    "torch.cuda.memory.change_current_allocator",
}  # fmt: skip
DYNAMIC_CODE = {"exec", "eval", "compile", "__builtins__", "builtins", "marshal", "codeop"}
FRAMES = {"gc", "inspect", "sys._getframe", "sys._current_frames", "traceback"}
FRAME_ATTRIBUTES = {
    "tb_frame", "f_back", "f_locals", "f_globals", "f_builtins", "__traceback__", "__closure__",
    "__subclasses__", "__globals__", "__code__", "__builtins__", "gi_frame", "cr_frame",
}  # fmt: skip
STREAMS = {
    "torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream",
    "torch.cuda.set_stream", "torch.cuda.StreamContext", "torch.Stream", "torch.cuda.streams",
}  # fmt: skip
COMPILERS = {"torch.compile", "torch.jit", "torch._dynamo", "torch._inductor", "torch.fx"}
PATCHERS = {"setattr", "delattr", "object.__setattr__", "type.__setattr__"}
GLOBAL_SWITCHES = {
    "torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type",
    "torch.set_float32_matmul_precision", "torch.set_num_threads", "torch.manual_seed",
    "torch.use_deterministic_algorithms", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all",
    "torch.set_flush_denormal", "torch.autograd.set_grad_enabled", "torch.cuda.set_device",
    "torch.set_rng_state", "torch.cuda.set_rng_state", "torch.seed",
}  # fmt: skip
MODULE_ROOTS = {"torch", "triton", "time", "math", "numpy", "os", "sys", "builtins", "functools"}
TENSOR_CLASSES = {"torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter"}
COMPUTE = {
    "mm", "bmm", "matmul", "addmm", "baddbmm", "einsum", "linear", "dot", "mv", "tensordot",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "softmax", "log_softmax", "layer_norm", "group_norm", "batch_norm", "instance_norm",
    "rms_norm", "scaled_dot_product_attention", "relu", "gelu", "sigmoid", "tanh", "exp", "log",
    "sum", "mean", "amax", "amin", "max", "min", "cumsum", "cumprod", "logsumexp", "norm", "sqrt",
}  # fmt: skip
FORMS = ("torch.", "torch.nn.functional.", "torch.ops.aten.", "torch.special.", "torch.linalg.")


def starts(name: str, prefixes: set[str]) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in prefixes)


def dynamic_code(source: Source) -> Iterator[tuple[int, str]]:
    """exec, eval and friends hide what runs from every reader, people included."""
    for line, name in source.uses():
        if starts(name, DYNAMIC_CODE):
            yield line, f"uses {name}"


def foreign_import(source: Source) -> Iterator[tuple[int, str]]:
    """Anything but Torch, Triton and a few pure modules: processes, files, other kernels."""
    imported: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            imported += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported.append((node.lineno, "." * node.level + (node.module or "")))
        elif isinstance(node, ast.Call) and source.dotted(node.func) in IMPORTERS:
            imported.append((node.lineno, source.dotted(node) or "a computed name"))
    for line, module in imported:
        if module.split(".")[0] not in ALLOWED_IMPORTS:
            yield line, f"imports {module}"


def reaches_outside(source: Source) -> Iterator[tuple[int, str]]:
    """Files, environment, processes: a kernel's inputs are its arguments."""
    for line, name in source.uses():
        is_system = starts(name, {"os", "sys"}) and name not in {"os", "sys"}
        if starts(name, REACHES_OUT) or (is_system and not starts(name, HARMLESS | FRAMES)):
            yield line, f"uses {name}"


def frame_walk(source: Source) -> Iterator[tuple[int, str]]:
    """Looking into other frames and objects is looking for the judge."""
    for line, name in source.uses():
        if starts(name, FRAMES):
            yield line, f"uses {name}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in FRAME_ATTRIBUTES:
            yield node.lineno, f"reads .{node.attr}"


def patches_module(source: Source) -> Iterator[tuple[int, str]]:
    """Assigning into torch, triton or time rewires what judges and measures."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed, what = node.value, ast.unparse(node)
        elif isinstance(node, ast.Call) and source.dotted(node.func) in PATCHERS and node.args:
            changed, what = node.args[0], f"an attribute of {ast.unparse(node.args[0])}"
        else:
            continue
        if _is_module(source, changed):
            yield node.lineno, f"assigns to {what}"


def _is_module(source: Source, node: ast.AST) -> bool:
    name = source.dotted(node)
    return name.split(".")[0] in MODULE_ROOTS and source.root(node) in source.names


def global_switch(source: Source) -> Iterator[tuple[int, str]]:
    """Process-wide settings would change the reference along with the candidate."""
    for line, name in source.uses():
        if starts(name, GLOBAL_SWITCHES):
            yield line, f"calls {name}"


def own_stream(source: Source) -> Iterator[tuple[int, str]]:
    """Work on a stream of its own escapes the events that time the call."""
    for line, name in source.uses():
        if starts(name, STREAMS):
            yield line, f"uses {name}"


def tensor_subclass(source: Source) -> Iterator[tuple[int, str]]:
    """A tensor subclass can compute later, when somebody looks at it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if source.dotted(base) in TENSOR_CLASSES:
                    yield node.lineno, f"class {node.name} derives from {source.dotted(base)}"


def other_compiler(source: Source) -> Iterator[tuple[int, str]]:
    """torch.compile and torch.jit write kernels too; those are not the candidate's."""
    for line, name in source.uses():
        if starts(name, COMPILERS):
            yield line, f"uses {name}"


def except_returns(source: Source) -> Iterator[tuple[int, str]]:
    """A handler that returns a value can swap the kernel for something else when it fails."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and inner.value is not None:
                    yield inner.lineno, "returns a value from an except block"


def library_compute(source: Source) -> Iterator[tuple[int, str]]:
    """PyTorch calls that compute; only what runs in the judged calls counts."""
    for line, name in source.uses():
        for form in FORMS:
            if name.startswith(form) and name[len(form) :].split(".")[0] in COMPUTE:
                yield line, f"names {name}"
                break
    for node in ast.walk(source.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "multiplies matrices with @"


def computed_attribute(source: Source) -> Iterator[tuple[int, str]]:
    """What is looked up cannot be read from the text."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or source.dotted(node.func) != "getattr":
            continue
        if not all(isinstance(name, ast.Constant) for name in node.args[1:2]):
            yield node.lineno, f"looks up {ast.unparse(node)}"


def keyed_by_address(source: Source) -> Iterator[tuple[int, str]]:
    """A result kept under data_ptr() or id() is stale once the memory is reused."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript | ast.Compare):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and _called(inner) in {"data_ptr", "id"}:
                    yield inner.lineno, f"looks something up by {_called(inner)}()"


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


REFUSED: dict[Rule, str] = {
    dynamic_code: "write the code out",
    foreign_import: "use torch, triton and Python's pure modules only",
    reaches_outside: "take everything from the arguments",
    frame_walk: "take everything from the arguments",
    patches_module: "keep state in your own module or class",
    global_switch: "choose precision and device for each kernel and each call",
    own_stream: "launch on the current stream",
    tensor_subclass: "return plain tensors",
    other_compiler: "write the kernel; what torch.compile makes is measured separately",
}
"""Rules that reject a candidate -> what to do instead."""
HINTS: dict[Rule, str] = {
    except_returns: "let the error show, or make sure the handler launches a kernel too",
    library_compute: "in pure mode every computation must be in a kernel of yours",
    computed_attribute: "write the attribute out",
    keyed_by_address: "key a cache by the tensor's version as well, or do without",
}


def findings(source: str, mode: str, entry: str) -> tuple[Finding, ...]:
    """What the text alone shows, refusals first, each group by line.

    `entry` is the name the candidate must define: "fused_operator" or "ModelNew".
    """
    try:
        return _check(parse(source), mode, entry)
    except SyntaxError as error:
        message, line = f"not Python: {error.msg}", error.lineno or 1
    except (ValueError, RecursionError, MemoryError) as error:
        message, line = f"cannot be parsed: {error or 'nested too deeply'}", 1
    remedy = "see that the file runs under python -m py_compile"
    return (Finding("syntax", Code.SYNTAX_ERROR, line, message, remedy),)


def _check(source: Source, mode: str, entry: str) -> tuple[Finding, ...]:
    refused = [
        *_required(source, entry),
        *_apply(REFUSED, source, Code.FORBIDDEN, is_hint=False),
    ]
    hints = _apply(HINTS, source, Code.FORBIDDEN, is_hint=True)
    if mode != "pure":
        hints = [hint for hint in hints if hint.rule != "library_compute"]
    return (*refused, *hints)


def _apply(rules: dict[Rule, str], source: Source, code: Code, *, is_hint: bool) -> list[Finding]:
    found = {
        (rule.__name__, line): Finding(rule.__name__, code, line, message, remedy, is_hint)
        for rule, remedy in rules.items()
        for line, message in rule(source)
    }
    return sorted(found.values(), key=lambda finding: finding.line)


def _required(source: Source, entry: str) -> Iterator[Finding]:
    defined = source.top_level_names()
    if entry not in defined:
        other = ({"ModelNew", "fused_operator"} - {entry}).pop()
        message = f"{entry} is not defined" + (f", {other} is" if other in defined else "")
        remedy = "ModelNew answers a Model, fused_operator a flat program"
        yield Finding("entry", Code.MISSING_ENTRY, 1, message, remedy)
    uses_jit = any(name in {"triton.jit", "triton.runtime.jit.jit"} for _, name in source.uses())
    if not uses_jit:
        yield Finding(
            "kernel", Code.NO_KERNEL, 1, "no @triton.jit kernel", "write the computation in Triton"
        )
