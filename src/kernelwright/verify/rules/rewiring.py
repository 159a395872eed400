"""Rules that refuse: changing what judges, measures, and hands out memory."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.verify.rules.rule import refuse, uses
from kernelwright.verify.rules.source import CandidateSource, Use, starts

PATCHERS = {"setattr", "delattr", "object.__setattr__", "type.__setattr__", "object.__delattr__"}
TABLE_CHANGES = ("update", "pop", "popitem", "setdefault", "clear", "__setitem__", "__delitem__")
SWITCH_PARTS = {"torch.backends", "os.environ"}
SWITCHES = {
    "torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type",
    "torch.set_float32_matmul_precision", "torch.set_num_threads", "torch.set_num_interop_threads",
    "torch.use_deterministic_algorithms", "torch.set_deterministic_debug_mode",
    "torch.set_flush_denormal", "torch.cuda.set_per_process_memory_fraction",
    "torch.cuda.memory.set_per_process_memory_fraction", "torch.cuda.set_sync_debug_mode",
    "torch.backends.cuda.enable_flash_sdp", "torch.backends.cuda.enable_math_sdp",
    "torch.backends.cuda.enable_mem_efficient_sdp", "torch.backends.cuda.enable_cudnn_sdp",
    "torch.backends.cuda.preferred_linalg_library", "torch.backends.cuda.preferred_blas_library",
    "torch.autograd.set_detect_anomaly", "os.putenv", "os.unsetenv",
    *(f"os.environ.{change}" for change in TABLE_CHANGES),
}  # fmt: skip
GRAD_SWITCHES = {"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"}
ALLOCATING = {
    "CUDAPluggableAllocator", "change_current_allocator", "MemPool", "MemPoolContext",
    "use_mem_pool", "memory_snapshot", "caching_allocator_alloc", "caching_allocator_delete",
    "_snapshot", "_set_allocator_settings",
}  # fmt: skip
ALLOCATORS = {
    *(f"{module}.{name}" for module in ("torch.cuda", "torch.cuda.memory") for name in ALLOCATING),
    "torch._C._construct_storage_from_data_pointer",
    "torch._C._cuda_cudaCachingAllocator_raw_alloc",
}
HOOKS = {
    "triton.knobs.runtime.launch_enter_hook", "triton.knobs.runtime.launch_exit_hook",
    "triton.knobs.runtime.jit_cache_hook", "triton.knobs.runtime.jit_post_compile_hook",
    "triton.knobs.runtime.kernel_load_start_hook", "triton.knobs.runtime.kernel_load_end_hook",
    "triton.compiler.CompiledKernel.launch_enter_hook",
    "triton.compiler.CompiledKernel.launch_exit_hook",
    "torch.nn.modules.module.register_module_forward_hook",
    "torch.nn.modules.module.register_module_forward_pre_hook",
    "torch.nn.modules.module.register_module_module_registration_hook",
    "torch.nn.modules.module.register_module_parameter_registration_hook",
    "torch.nn.modules.module.register_module_buffer_registration_hook",
    "torch.nn.modules.module.register_module_full_backward_hook",
}  # fmt: skip
OTHERS_NAMESPACES = {"aten", "prim", "prims", "_C", "quantized", "triton"}
REGISTERS = {"torch.library.impl", "torch.library.register_kernel", "torch.library.custom_op"}
DISPATCH = {
    "torch.utils._python_dispatch", "torch.utils._mode_utils", "torch.overrides", "torch._ops",
    "torch._dispatch", "torch._subclasses",
}  # fmt: skip
DISPATCH_READS = {
    "torch.overrides.has_torch_function", "torch.overrides.has_torch_function_unary",
    "torch.overrides.has_torch_function_variadic", "torch.overrides.handle_torch_function",
}  # fmt: skip
DISPATCH_SWITCHES = (
    "_dispatch", "_set_", "_jit_set", "_pop_", "_push_", "_unset_", "_Disable", "DisableTorch",
    "_Exclude", "_Include", "_Force", "_Auto", "_len_torch",
)  # fmt: skip
"""The beginnings of the names in `torch._C` that switch dispatching."""
DISPATCH_ATTRIBUTES = {"redispatch", "call_boxed", "redispatch_boxed", "_op_dk"}
OBSERVERS = {
    "_profiler_enabled", "_is_profiler_enabled", "_profiler_type",
    "_is_torch_function_enabled", "_is_torch_function_mode_enabled",
    "_is_torch_function_all_disabled", "_len_torch_function_stack", "_len_torch_dispatch_stack",
    "_get_function_stack_at", "_get_dispatch_stack_at", "_get_dispatch_mode",
    "_get_current_dispatch_mode", "_get_current_dispatch_mode_stack", "_get_current_function_mode",
    "_get_current_function_mode_stack", "_enable_profiler_legacy",
    "_disable_profiler_legacy", "_enable_profiler", "_disable_profiler", "_has_callbacks",
}  # fmt: skip
"""Functions that tell whether somebody looks on."""
TENSOR_CLASSES = {
    "torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer",
    "torch.nn.parameter.Buffer", "torch._C.TensorBase", "torch._C._TensorBase",
    "torch.UntypedStorage", "torch.TypedStorage",
}  # fmt: skip
SUBCLASS_MAKERS = {"_make_subclass", "_make_wrapper_subclass", "as_subclass"}
COMPILERS = {
    "torch.compile", "torch.jit", "torch._dynamo", "torch._inductor", "torch.fx", "torch.export",
    "torch._export", "torch.cuda.jiterator", "torch.cuda._compile_kernel", "torch.compiler",
}  # fmt: skip
COMPILER_MARKS = {
    "torch._dynamo.disable", "torch._dynamo.allow_in_graph", "torch.compiler.disable",
    "torch.compiler.is_compiling", "torch.compiler.allow_in_graph", "torch.compiler.wrap_numpy",
    "torch.jit.ignore", "torch.jit.unused", "torch.jit.export", "torch.jit.is_scripting",
    "torch.jit.is_tracing", "torch.jit.Final", "torch._inductor.runtime.triton_helpers",
}  # fmt: skip
"""Those of the names above that compile nothing."""
COMPILER_PARTS = {"torch.compiler", "torch.jit", "torch.fx", "torch.export", "torch.onnx"}
COMPILER_QUESTIONS = {
    "is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_exporting",
    "is_scripting", "is_tracing", "is_in_onnx_export", "is_fx_tracing", "is_fx_symbolic_tracing",
}  # fmt: skip
"""Functions of torch, in any of its modules, that tell whether somebody compiles a call."""
COMPILE_OPTIONS = {"dynamic": {"False", "True"}, "options": {"{'layout_optimization': False}"}}
"""Options of torch.compile that a candidate may give, and their values."""


@refuse("keep state in your own module or class", "E34 E35 E36 E48 E52 E53 E73")
def patches_module(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Assigning into torch, triton or time rewires what judges and measures."""
    for change in _changes(source):
        name = source.dotted(change.changed)
        if source.is_imported(name) and not starts(name, SWITCH_PARTS):
            yield change.place.lineno, f"assigns to {change.text(source)}"


@dataclass(frozen=True, slots=True)
class _Change:
    """An assignment to a part of something."""

    place: ast.expr
    changed: ast.expr
    quoted: ast.expr
    words: str = ""
    """Before what is quoted."""

    def text(self, source: CandidateSource) -> str:
        """Only for findings: to write out every changed part takes long."""
        return self.words + source.quoted(self.quoted)


def _changes(source: CandidateSource) -> Iterator[_Change]:
    for part in source.all(ast.Attribute, ast.Subscript):
        if not isinstance(part.ctx, ast.Load):
            yield _Change(part, part.value, part)
    for node in source.all(ast.Call):
        called = source.dotted(node.func)
        base, _, last = called.rpartition(".")
        if called in PATCHERS and node.args:
            yield _Change(node, node.args[0], node.args[0], "an attribute of ")
        elif isinstance(node.func, ast.Attribute) and (
            (last in TABLE_CHANGES and base.endswith("__dict__"))
            or last in {"__setattr__", "__delattr__"}
        ):
            yield _Change(node, node.func.value, node.func)


@refuse("choose precision and device for each kernel and each call", "E16 E40 E75")
def global_switch(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Process-wide settings would change the reference along with the candidate."""
    yield from uses(source, SWITCHES, "calls")
    for change in _changes(source):
        if starts(source.dotted(change.changed), SWITCH_PARTS):
            yield change.place.lineno, f"sets {change.text(source)}"
    functions = source.all(ast.FunctionDef)
    decorators = {id(line) for function in functions for line in function.decorator_list}
    for call in source.all(ast.Call):
        if source.dotted(call.func) in GRAD_SWITCHES:
            is_scoped = isinstance(source.parent(call), ast.withitem) or id(call) in decorators
            if not is_scoped:
                yield call.lineno, f"calls {source.dotted(call.func)}"


@refuse("take memory from torch.empty and its like", "E14 E47 E72")
def own_allocator(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Memory that does not come from PyTorch's allocator is neither poisoned nor watched."""
    return uses(source, ALLOCATORS)


@refuse("keep hooks to your own modules, operators to a namespace of your own", "E05 E07 E35 E53")
def process_hook(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Hooks on every launch or module, and kernels for operators of PyTorch's, act on the judge."""
    yield from uses(source, HOOKS)
    for node in source.all(ast.Call):
        if not node.args:
            continue
        called, first = source.dotted(node.func), source.names.text(node.args[0])
        namespace = None if first is None else first.split("::")[0]
        if called == "torch.library.Library":
            if namespace is None or namespace in OTHERS_NAMESPACES:
                yield node.lineno, f"registers operators in {namespace or 'a computed namespace'}"
        elif called in REGISTERS and namespace in OTHERS_NAMESPACES:
            yield node.lineno, f"registers a kernel for {first}"


@refuse("call operators the ordinary way", "E01 E06 E07 E61")
def escapes_dispatch(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Modes and keys of PyTorch's dispatcher decide whether the judge sees a computation. A
    candidate that changes them can hide its work."""
    for use in source.named({"torch"}):
        is_step = use.name == "torch.overrides"  # on the way to what only reads
        is_mode = starts(use.name, DISPATCH) and not starts(use.name, DISPATCH_READS)
        below = use.name.removeprefix("torch._C.")
        is_switch = below != use.name and below.startswith(DISPATCH_SWITCHES)
        if (is_mode and not is_step) or is_switch:
            yield use.line, f"uses {use.name}"
    for node in source.all(ast.Attribute):
        if node.attr in DISPATCH_ATTRIBUTES:
            yield node.lineno, f"uses .{node.attr}"


@refuse("compute in the same way, whoever looks on", "E01 E06 E61")
def asks_for_observers(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Whoever knows that no observer runs can compute there what the judge does not see."""
    for name, uses_of_name in source.uses.items():
        if name.rpartition(".")[2] in OBSERVERS and source.is_imported(name):
            yield from ((use.line, f"asks {name}") for use in uses_of_name)
    for node in source.all(ast.Attribute):
        if node.attr in OBSERVERS and not source.dotted(node):
            yield node.lineno, f"asks .{node.attr}"


@refuse("return plain tensors", "E33 E34")
def tensor_subclass(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A tensor subclass can delay its computation until somebody reads the tensor."""
    for definition in source.all(ast.ClassDef):
        for base in definition.bases:
            if source.dotted(base) in TENSOR_CLASSES:
                yield (
                    definition.lineno,
                    f"class {definition.name} derives from {source.dotted(base)}",
                )
    for function in source.all(ast.FunctionDef):
        if function.name in {"__torch_function__", "__torch_dispatch__"}:
            yield function.lineno, f"defines {function.name}"
    for part in source.all(ast.Attribute):
        if part.attr in SUBCLASS_MAKERS:
            yield part.lineno, f"uses .{part.attr}"
    for node in source.all(ast.Call):
        if source.dotted(node.func) == "type" and len(node.args) == 3:
            bases = node.args[1]
            for name in map(source.dotted, bases.elts if isinstance(bases, ast.Tuple) else ()):
                if name in TENSOR_CLASSES:
                    yield node.lineno, f"makes a class derived from {name}"


@refuse("write the kernel; what torch.compile makes is measured separately", "E07")
def other_compiler(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """torch.compile and torch.jit write kernels too; those are not the candidate's."""
    for use in source.named(COMPILERS):
        is_step = any(mark.startswith(f"{use.name}.") for mark in COMPILER_MARKS)
        is_allowed = is_step or starts(use.name, COMPILER_MARKS) or _compiles_own(source, use)
        if not is_allowed:
            yield use.line, f"uses {use.name}"
    if any(_compiles_own(source, use) for use in source.named({"torch.compile"})):
        for use in source.named({"torch"}):
            if _may_ask_for_a_compiler(use.name):
                yield use.line, f"asks {use.name} beside torch.compile, which must change nothing"


def _may_ask_for_a_compiler(name: str) -> bool:
    """A name of torch that can tell whether a call is compiled: a question, or what is private or
    belongs to a compiler. Operators have names of their own."""
    parts = name.split(".")
    is_private = any(part.startswith("_") for part in parts) and not name.startswith("torch.ops.")
    return is_private or parts[-1] in COMPILER_QUESTIONS or starts(name, COMPILER_PARTS)


@refuse("write kernels for all of it, or choose the mode hybrid", "E07", is_pure_only=True)
def compiled_whole(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """torch.compile around the candidate's own function lets Inductor compute what the kernels
    leave. The mode hybrid allows that, as it allows library calls."""
    for use in source.named({"torch.compile"}):
        if _compiles_own(source, use):
            yield use.line, f"uses {use.name}"


def _compiles_own(source: CandidateSource, use: Use) -> bool:
    """Whether this is `NAME = torch.compile(FUNCTION, fullgraph=True, ...)` at the top of the file:
    one graph of one of the candidate's functions. The judge can call the function uncompiled."""
    call = source.parent(use.node)
    is_plain = ast.unparse(use.node) == "torch.compile"  # as `uses_compile` reads it
    if not (is_plain and isinstance(call, ast.Call) and call.func is use.node):
        return False
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assignment = source.parent(call)
    return (
        isinstance(assignment, ast.Assign)
        and assignment in source.tree.body
        and len(call.args) == 1
        and isinstance(call.args[0], ast.Name)
        and source.is_own(call.args[0])
        and options.pop("fullgraph", "") == "True"
        and all(options[name] in COMPILE_OPTIONS.get(str(name), ()) for name in options)
    )
