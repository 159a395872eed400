"""Hints on who does the work: kernels that do not run, libraries that do, answers known before."""

import ast
from collections.abc import Iterator

from kernelwright.ops.operator import Numerics, Operator, ParameterKind
from kernelwright.ops.registry import operators
from kernelwright.ops.traits import Trait
from kernelwright.verify.rules.rule import hint
from kernelwright.verify.rules.scopes import Function
from kernelwright.verify.rules.source import CandidateSource, starts

COMPUTING_FAMILIES = {"reduction", "scan", "pooling", "sorting", "loss"}


def _is_work(operator: Operator) -> bool:
    """Whether the rule asks for a kernel in the place of such a call. Host code may move data, test
    truth values and combine two operands, for sizes and masks."""
    if Trait.READS_TRUTH in operator.traits or operator.family == "scatter":
        return False
    if operator.numerics in (Numerics.CONTRACTION, Numerics.REDUCTION):
        return True
    kinds = [param.kind for param in operator.params]
    is_function = len(kinds) - kinds.count(ParameterKind.ATTRIBUTE) == 1
    if is_function and operator.numerics is Numerics.POINTWISE:
        return True
    return operator.family in COMPUTING_FAMILIES or Trait.CLAMPS in operator.traits


def _names(operator: Operator) -> Iterator[str]:
    """Yields the operator's names in PyTorch and in ATen, without underscores around them."""
    yield operator.name
    yield operator.call.rpartition(".")[2].strip("_")
    yield from (overload.split(".")[1].strip("_") for overload in operator.aten)


COMPUTE = {
    "addmv", "bilinear", "chain_matmul", "convolution", "einsum", "embedding", "int_mm",
    "multi_head_attention_forward", "native_layer_norm", "normalize", "outer", "scaled_mm",
    "tensordot",
} | {name for op in operators().values() if _is_work(op) for name in _names(op)}  # fmt: skip
"""Functions that compute, mostly methods of tensors too."""
FORMS = (
    "torch.", "torch.nn.functional.", "torch.ops.aten.", "torch.ops.prims.", "torch.special.",
    "torch.linalg.", "torch.fft.", "torch.Tensor.", "torch._C._nn.", "torch._C._VariableFunctions.",
    "operator.",
)  # fmt: skip
OPERATORS = {"operator.matmul", "operator.imatmul", "operator.__matmul__"}
NO_KERNELS = {"torch.ops.inductor", "torch._inductor.runtime.triton_helpers"}
OTHER_KERNELS = ("torch.ops.", "torch.sparse.", "torch._inductor.")
IDLE_LAYERS = {
    "Parameter", "ParameterList", "ParameterDict", "Buffer", "Module", "ModuleList", "ModuleDict",
    "Identity", "Dropout", "Flatten",
}  # fmt: skip
MAKERS = {"zeros", "ones", "full", "empty", "rand", "randn", "eye", "arange"}
LOW_TYPES = {
    f"{module}.{name}"
    for module in ("torch", "triton.language")
    for name in (
        "float16",
        "bfloat16",
        "half",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8e4nv",
    )
}
LOW_METHODS = {"half", "bfloat16"}
LONG_TABLE, LONG_TEXT = 32, 2_000
"""Numbers in one literal, characters in one string, that are more than settings need."""
LEAVES = {
    "torch.from_numpy", "torch.from_dlpack", "torch.utils.dlpack", "numpy.asarray", "numpy.array",
    "numpy.from_dlpack",
}  # fmt: skip
LEAVING_METHODS = {"numpy", "__array__", "__dlpack__", "tolist"}


def launches(source: CandidateSource) -> Iterator[ast.Call]:
    """Yields calls of the form `kernel[grid](...)` outside kernels."""
    for node in source.host(ast.Call):
        if isinstance(node.func, ast.Subscript):
            yield node


def computing(source: CandidateSource) -> Iterator[tuple[ast.expr | ast.AugAssign, str]]:
    """Yields PyTorch's computations in host code, each with its description."""
    layers = _layers(source)
    for name, uses in source.uses.items():
        if _computes(name):
            yield from ((u.node, f"names {name}") for u in uses if source.is_host(u.node))
    for product in source.host(ast.BinOp, ast.AugAssign):
        if isinstance(product.op, ast.MatMult):
            yield product, "multiplies matrices with @"
    for node in source.host(ast.Call):
        if isinstance(node.func, ast.Attribute):
            method, base = node.func.attr, source.dotted(node.func.value)
            is_self = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
            if is_self and method in layers:
                yield node, f"calls {layers[method]}"
            elif method.strip("_") in COMPUTE and not is_self and _may_be_tensor(base):
                yield node, f"calls the tensor method .{method}()"


def _computes(name: str) -> bool:
    if name in OPERATORS:
        return True
    for form in FORMS:
        if name.startswith(form) and form != "operator.":
            operator = name[len(form) :].split(".")[0]
            if operator.strip("_") in COMPUTE:
                return True
    if name.startswith(OTHER_KERNELS):
        return name.count(".") > 2 and not starts(name, NO_KERNELS)
    return False


def _may_be_tensor(base: str) -> bool:
    """Whether a base may be a tensor: a variable, or the result of one of PyTorch's functions."""
    return not base or (base.startswith("torch.") and base.endswith("()"))


def _layers(source: CandidateSource) -> dict[str, str]:
    """Returns attributes that hold a computing layer of torch.nn, with the layer's name."""
    layers = {}
    for node in source.all(ast.Assign):
        if isinstance(node.value, ast.Call):
            layer = source.dotted(node.value.func)
            parts = [source.dotted(a.func) for a in node.value.args if isinstance(a, ast.Call)]
            is_sequence = layer.endswith(".Sequential")
            if _is_layer(layer) and (not is_sequence or any(map(_is_layer, parts))):
                for target in node.targets:
                    if isinstance(target, ast.Attribute):
                        layers[target.attr] = layer
    return layers


def _is_layer(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return starts(module, {"torch.nn"}) and last[:1].isupper() and last not in IDLE_LAYERS


@hint(
    "in pure mode every computation must be in a kernel of yours", "E01 E05 E06 E07",
    is_pure_only=True,
)  # fmt: skip
def library_compute(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """PyTorch seems to compute in the judged call; whether it does shows there."""
    for node, what in computing(source):
        if not source.is_early(node):
            yield node.lineno, what


@hint("keep values in tensors, and compute in kernels", "E06 E07", is_pure_only=True)
def leaves_torch(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Values that leave PyTorch can be computed on where no operator of its is called."""
    for use in source.named(LEAVES):
        if source.is_host(use.node) and not source.is_early(use.node):
            yield use.line, f"uses {use.name}"
    for node in source.host(ast.Call):
        called = node.func
        if not isinstance(called, ast.Attribute) or source.is_early(called):
            continue
        if called.attr in LEAVING_METHODS and _may_be_tensor(source.dotted(called.value)):
            yield called.lineno, f"calls .{called.attr}()"


@hint("compute from the arguments, in the call", "E10 E27 E28")
def precomputes(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A value that is computed on import or in __init__ is stale once weights or inputs change."""
    for node, what in computing(source):
        if source.is_early(node):
            yield node.lineno, f"{what} before any call"
    for launch in launches(source):
        if source.is_early(launch):
            yield launch.lineno, "launches a kernel before any call"


@hint("let the error show, or make sure the handler launches a kernel too", "E02")
def fallback(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A handler that returns or computes can swap the kernel for something else when it fails."""
    handled: set[int] = set()
    for handler in source.host(ast.ExceptHandler):
        # A handler in another one has been walked through already.
        if source.function(handler) is not None and id(handler) not in handled:
            handled |= {id(inner) for inner in ast.walk(handler)}
    for node in source.host(ast.Return):
        if id(node) in handled and node.value is not None:
            yield node.lineno, "returns a value from an except block"
    for place, what in computing(source) if handled else ():
        if id(place) in handled:
            yield place.lineno, f"{what} in an except block"


@hint("launch the kernel, or delete it", "E04 E51")
def dead_kernel(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A kernel that nothing refers to is decoration."""
    named: dict[str, set[int]] = {}
    for node in source.all(ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            word = node.id if isinstance(node, ast.Name) else node.attr
            named.setdefault(word, set()).add(id(source.function(node)))
    reached = {id(None), *source.reached}
    for name, kernel in source.kernels.items():
        users = named.get(name, set()) - {id(kernel)}
        if not users & reached:
            yield kernel.lineno, f"{name} is never launched"


@hint("write every element of what you return from a kernel", "E09 E28")
def constant_output(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A new tensor that nothing is written to holds no answer."""
    for entry in source.entries():
        untouched = _untouched(source, entry)
        for node in ast.walk(entry):
            if isinstance(node, ast.Return) and source.function(node) is entry:
                for value in _elements(node.value):
                    name = value.id if isinstance(value, ast.Name) else None
                    if _is_new(source, value) if name is None else name in untouched:
                        yield node.lineno, f"returns {source.quoted(value)} as it was made"


def _elements(value: ast.expr | None) -> list[ast.expr]:
    if isinstance(value, ast.List | ast.Tuple):
        return [inner for element in value.elts for inner in _elements(element)]
    return [] if value is None else [value]


def _untouched(source: CandidateSource, entry: Function) -> set[str]:
    """Returns names that are assigned a new tensor once, and are then only asked about and
    returned."""
    assigned: dict[str, list[ast.expr]] = {}
    touched: set[str] = set()
    for node in ast.walk(entry):
        if isinstance(node, ast.Assign):
            for name in {target.id for target in node.targets if isinstance(target, ast.Name)}:
                assigned.setdefault(name, []).append(node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            above = source.parent(node)
            is_question = isinstance(above, ast.Attribute) and above.attr in {
                "shape", "dtype", "device", "numel", "stride", "size", "is_contiguous",
            }  # fmt: skip
            if not is_question and not _is_returned(source, node):
                touched.add(node.id)
    return {
        name
        for name, values in assigned.items()
        if name not in touched and len(values) == 1 and _is_new(source, values[0])
    }


def _is_returned(source: CandidateSource, node: ast.AST) -> bool:
    above = source.parent(node)
    while isinstance(above, ast.List | ast.Tuple):
        above = source.parent(above)
    return isinstance(above, ast.Return)


def _is_new(source: CandidateSource, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = source.dotted(node.func)
    if called.startswith("torch."):
        return called.removeprefix("torch.").removesuffix("_like") in MAKERS
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return method.startswith("new_") and method.removeprefix("new_") in MAKERS


@hint("read sizes and values from the arguments", "E10 E17 E28 E51 E61")
def hard_coded(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Answers written into the text fit one set of inputs only."""
    for node in source.host(ast.List, ast.Tuple):
        numbers = sum(
            isinstance(e, ast.Constant) and isinstance(e.value, int | float) for e in node.elts
        )
        if numbers >= LONG_TABLE:
            yield node.lineno, f"holds a table of {numbers} numbers"
    for text in source.host(ast.Constant):
        length = len(text.value) if isinstance(text.value, str | bytes) else 0
        if length >= LONG_TEXT and not isinstance(source.parent(text), ast.Expr):
            yield text.lineno, f"holds a string of {length} characters"
    asked: set[int] = set()
    for branch in source.host(ast.If, ast.IfExp):
        # A test in another test has been walked through already.
        for test in ast.walk(branch.test) if id(branch.test) not in asked else ():
            asked.add(id(test))
            if isinstance(test, ast.Compare) and _fixes_shape(source, test):
                yield test.lineno, f"asks for one shape: {source.quoted(test)}"


def _fixes_shape(source: CandidateSource, test: ast.Compare) -> bool:
    sides = [test.left, *test.comparators]
    return any(id(side) in source.shaped for side in sides) and any(
        isinstance(side, ast.Tuple | ast.List)
        and len(side.elts) > 1
        and all(isinstance(element, ast.Constant) for element in side.elts)
        for side in sides
    )


@hint("keep the type of the inputs, or accumulate in a wider one", "E15 E16")
def precision_drop(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A narrower type for what was loaded is faster and less accurate than what was asked for."""
    loaded = _loaded(source)
    for keyword in source.all(ast.keyword):
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        is_tf32 = keyword.arg == "allow_tf32" and value is True
        if is_tf32 or (keyword.arg == "input_precision" and value == "tf32"):
            yield keyword.value.lineno, f"asks for {keyword.arg}={value!r}"
    for node in source.all(ast.Call):
        if not isinstance(node.func, ast.Attribute):
            continue
        narrow = {source.dotted(argument) for argument in node.args} & LOW_TYPES
        is_low = node.func.attr == "to" and narrow
        if source.is_in_kernel(node):
            if is_low and _is_operand(source, node, loaded):
                yield node.lineno, f"converts what it loads to {narrow.pop()}"
        elif is_low or (node.func.attr in LOW_METHODS and not node.args):
            yield node.lineno, f"converts to {narrow.pop() if narrow else node.func.attr}"


def _loaded(source: CandidateSource) -> set[str]:
    """Returns names of values that `tl.load` returned."""
    return {
        target.id
        for node in source.all(ast.Assign)
        if source.dotted(node.value) == "triton.language.load()"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_operand(source: CandidateSource, cast: ast.Call, loaded: set[str]) -> bool:
    assert isinstance(cast.func, ast.Attribute)
    base, above = cast.func.value, source.parent(cast)
    is_loaded = isinstance(base, ast.Name) and base.id in loaded
    is_factor = isinstance(above, ast.Call) and source.dotted(above.func) == "triton.language.dot"
    return is_loaded or is_factor or source.dotted(base) == "triton.language.load()"
