"""Translates Inductor's function `call` into the steps of `fused_operator`."""

import ast
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.data.inductor.reading import Module, NotRewritten

_SKIPPED = ("args.clear", "torch.cuda.set_device", "assert_size_stride", "assert_alignment")
_EMPTY = frozenset({"empty_strided_cpu", "empty_strided_cuda"})
_LIBRARY = frozenset({"mm", "bmm", "addmm", "baddbmm", "convolution"})
"""Calls of `extern_kernels` that `torch` has by the same name, with the same arguments."""
_MAY_CALL = frozenset({"max", "min"})
"""Functions that an expression of sizes may call."""
_VIEW = "reinterpret_tensor"
_EXPRESSIONS = frozenset({*_MAY_CALL, _VIEW})


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of one of Inductor's kernels, to be written once its blocks are chosen."""

    kernel: str
    arguments: tuple[ast.expr, ...]
    nodes: tuple[str, ...]


@dataclass(slots=True)
class Wrapper:
    """The steps of `fused_operator`, in order: text, or a launch that is yet to be written."""

    steps: list[str | Launch] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    """Name of a size -> the expression that reads it."""
    library: list[str] = field(default_factory=list)
    """Calls of PyTorch's own kernels."""
    device: str = ""
    """An input, whose device the outputs share."""


def read_wrapper(module: Module, inputs: Sequence[str | None]) -> Wrapper:
    """The wrapper with our names: inputs are called `x0`, and size 1 of `x0` is called `X0D1`.

    Args:
        inputs: for each argument of `call` the program's input; None if the argument is a size.

    Raises:
        NotRewritten: a statement is not understood.
    """
    return _WrapperReading(module, inputs).wrapper()


class _WrapperReading:
    def __init__(self, module: Module, inputs: Sequence[str | None]) -> None:
        if len(module.arguments) != len(inputs):
            raise NotRewritten("other arguments")
        self.module = module
        pairs = zip(module.arguments, inputs, strict=True)
        self.names = {argument: name for argument, name in pairs if name is not None}
        """Inductor's name -> ours."""
        self.inputs = tuple(self.names.values())
        self.numels: dict[str, ast.expr] = {}
        self.made = Wrapper(device=next(iter(self.inputs), ""))

    def wrapper(self) -> Wrapper:
        statements = self.module.statements
        nodes = [(inner, s.nodes) for s in statements for inner in _flat(s.node)]
        for node, _ in nodes:
            self._name_sizes(node)
        for node, names in nodes:
            self._step(node, names)
        return self.made

    def _name_sizes(self, node: ast.stmt) -> None:
        """Note the tensor and dimension that each symbolic size is read from.

        `assert_size_stride(arg2_1, (s77, 64), ..)` says it, and so does `s77 = arg2_1_size[0]`.
        """
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            place = ast.unparse(node.value.value)
            name = self.names.get(place.removesuffix("_size"))
            if name is not None and place.endswith("_size"):
                self._name_size(ast.unparse(node.targets[0]), name, ast.unparse(node.value.slice))
        if _call(node) != "assert_size_stride":
            return
        argument, shape, stride = node.value.args[:3]  # type: ignore[attr-defined]
        name = self.names.get(ast.unparse(argument))
        if name not in self.inputs:
            return
        for dim, size in enumerate(shape.elts):
            if isinstance(size, ast.Name):
                self._name_size(size.id, name, str(dim))
        # Inductor's kernels assume these strides. A candidate may be called with others.
        if is_contiguous(shape, stride):
            self.made.steps.append(f"{name} = {name}.contiguous()")

    def _name_size(self, theirs: str, name: str, dim: str) -> None:
        if theirs not in self.names:
            ours = self.names[theirs] = f"{name.upper()}D{dim}"
            self.made.sizes[ours] = f"{name}.shape[{dim}]"

    def _step(self, node: ast.stmt, nodes: tuple[str, ...]) -> None:
        if isinstance(node, ast.Delete) or _call(node) in _SKIPPED:
            return
        if isinstance(node, ast.Return) and node.value is not None:
            returned = ", ".join(map(self._text, _elements(node.value)))
            self.made.steps.append(f"return [{returned}]")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self._assign(node.targets[0].id, node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value, nodes)
        else:
            raise NotRewritten(f"statement {type(node).__name__}")

    def _assign(self, target: str, value: ast.expr) -> None:
        text = ast.unparse(value)
        if text in self.module.arguments or text.endswith(".size()") or "raw_stream" in text:
            return  # sizes are read where a tensor's shape is known
        if target in self.names and isinstance(value, ast.Subscript):
            return
        if isinstance(value, ast.Name):
            self.names[target] = self.names.get(value.id, value.id)
        elif target.endswith("numel"):
            self.numels[target] = self._renamed(value)
        else:
            self.made.steps.append(f"{target} = {self._made(value)}")
            self.names[target] = target

    def _made(self, value: ast.expr) -> str:
        """Our expression for a tensor or a size that Inductor's `call` creates."""
        function = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if not isinstance(value, ast.Call) or function in _EXPRESSIONS:
            return self._text(value)
        return self._empty(value) if function in _EMPTY else self._library(function, value)

    def _empty(self, call: ast.Call) -> str:
        shape, stride, dtype = call.args
        where = f"device={self.made.device}.device, dtype={ast.unparse(dtype)}"
        if is_contiguous(shape, stride):
            return f"torch.empty({self._text(shape)}, {where})"
        return f"torch.empty_strided({self._text(shape)}, {self._text(stride)}, {where})"

    def _library(self, function: str, call: ast.Call) -> str:
        module, _, name = function.rpartition(".")
        if module != "extern_kernels" or name not in _LIBRARY:
            raise NotRewritten(f"call {function}")
        self.made.library.append(name)
        arguments = [self._text(arg) for arg in call.args]
        arguments += [f"{k.arg}={self._text(k.value)}" for k in call.keywords]
        return f"torch.{name}({', '.join(arguments)})"

    def _call(self, call: ast.Call, nodes: tuple[str, ...]) -> None:
        function = ast.unparse(call.func)
        name, _, verb = function.rpartition(".")
        if verb == "run" and name in self.module.kernels:
            arguments = tuple(map(self._renamed, call.args))
            self.made.steps.append(Launch(name, arguments, nodes))
        else:
            self.made.steps.append(self._library(function, call))

    def _text(self, node: ast.expr) -> str:
        return ast.unparse(self._renamed(node))

    def _renamed(self, node: ast.expr) -> ast.expr:
        named = _Named(self.names, self.numels)
        renamed: ast.expr = named.visit(ast.parse(ast.unparse(node), mode="eval").body)
        return renamed


class _Named(ast.NodeTransformer):
    """Replaces Inductor's names by ours, its names for numbers of elements by their expressions,
    and its views by PyTorch's `as_strided`."""

    def __init__(self, names: Mapping[str, str], numels: Mapping[str, ast.expr]) -> None:
        self.names, self.numels = names, numels

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.numels:
            return self.numels[node.id]
        if node.id not in self.names and node.id not in (*_MAY_CALL, "torch"):
            raise NotRewritten("a size that no tensor has")
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = ast.unparse(node.func)
        if function not in _EXPRESSIONS:
            raise NotRewritten(f"call {function}")
        if function == _VIEW:
            node.func = ast.parse("torch.as_strided", mode="eval").body
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited


def _flat(node: ast.stmt) -> list[ast.stmt]:
    """The statements without the `with` around them that chooses a device."""
    if isinstance(node, ast.With):
        return [inner for statement in node.body for inner in _flat(statement)]
    return [node]


def _call(node: ast.stmt) -> str:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return ast.unparse(node.value.func) if is_call else ""  # type: ignore[attr-defined]


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def is_contiguous(shape: ast.expr, stride: ast.expr) -> bool:
    """Whether the strides are contiguous for all values of the symbolic sizes.

    Strides of dimensions of size 1 do not matter.
    """
    # Tried with large primes in place of symbols: products of different primes differ, so strides
    # that agree by chance are as good as excluded.
    names = sorted({n.id for n in ast.walk(shape) if isinstance(n, ast.Name)} - _MAY_CALL)
    primes = random.Random(0).sample(
        [1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061], 10
    )
    if len(names) > len(primes):
        return False
    values = dict(zip(names, primes, strict=False)) | {"max": max, "min": min}
    try:
        sizes, strides = (_evaluated(expression, values) for expression in (shape, stride))
    except NameError:
        return False
    wanted = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return all(
        size == 1 or have == want for size, have, want in zip(sizes, strides, wanted, strict=True)
    )


def _evaluated(node: ast.expr, values: Mapping[str, object]) -> tuple[int, ...]:
    numbers: tuple[int, ...] = eval(ast.unparse(node), {"__builtins__": {}}, dict(values))
    return numbers
