"""Reading flat functional PyTorch back into a program, from its syntax tree; nothing is run.

Canonical text gives the identical program. Text written by hand may also name values freely, nest
calls and pass attributes by position. Such text may use operators (`x * 2`, `a @ b`), methods
(`x.sum(dim=1)`), and constants defined above or inside the functions.
"""

import ast
import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.ops.registry import by_call
from kernelwright.programs import extern
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.reading import read_inputs
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.syntax import NotConstant, SourceText, constant, dotted

_FORM = "define get_inputs() that returns a list and fused_operator(...) that computes from it"
_FLAT = "write straight-line calls of torch.* and F.* functions, one a line"
_BINARY = {
    ast.Add: "torch.add", ast.Sub: "torch.sub", ast.Mult: "torch.mul", ast.Div: "torch.div",
    ast.MatMult: "torch.matmul", ast.Pow: "torch.pow", ast.BitAnd: "torch.bitwise_and",
    ast.BitOr: "torch.bitwise_or", ast.Eq: "torch.eq", ast.NotEq: "torch.ne", ast.Lt: "torch.lt",
    ast.LtE: "torch.le", ast.Gt: "torch.gt", ast.GtE: "torch.ge",
}  # fmt: skip
_FIELDS = ("values", "indices")
"""The names of the results of `torch.max`, `torch.sort` and the like."""
_PREFIXES = ("torch.", "F.", "torch.Tensor.")


def parse(text: str, file: str = "<text>") -> Program:
    """The program that a module's `get_inputs` and `fused_operator` define.

    Args:
        text: the source of the module. It is read, and never run.
        file: the name that errors give.

    Raises:
        UsageError: the text has another form, or an operator refuses its arguments. The error names
            the file, and the line where it is one line's fault.
    """
    source = SourceText(file)
    try:
        return _program(ast.parse(text), source)
    except SyntaxError as error:
        raise UsageError(
            f"not Python: {error.msg}", file=file, line=error.lineno, remedy="fix the syntax"
        ) from error
    except RecursionError as error:
        raise UsageError(
            "expressions are nested too deep", file=file, remedy="name values in between"
        ) from error


def _program(tree: ast.Module, source: SourceText) -> Program:
    """The program of a module's syntax tree."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in ("get_inputs", "fused_operator"):
        if name not in functions:
            source.fail(None, f"{name} is not defined", _FORM)
    constants = _constants(tree.body)
    builder = Builder()
    refs = [
        builder.input(value.type, value.init)
        for value in read_inputs(functions["get_inputs"], constants, source)
    ]
    main = functions["fused_operator"]
    names = [argument.arg for argument in main.args.args]
    if len(names) != len(refs) or main.args.vararg or main.args.kwonlyargs:
        message = f"fused_operator takes {len(names)} inputs, get_inputs returns {len(refs)}"
        source.fail(main, message, "give fused_operator one parameter for each input")
    return _EntryBody(source, builder, {**constants, **dict(zip(names, refs, strict=True))}).run(
        main
    )


def _constants(body: list[ast.stmt]) -> dict[str, Any]:
    """Module-level names with constant values."""
    constants: dict[str, Any] = {}
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    constants[name] = constant(value, constants)
                except NotConstant:
                    continue
    return constants


class _EntryBody:
    """Walks the statements of `fused_operator`; values are `Ref`s, tuples of them, or constants."""

    def __init__(self, source: SourceText, builder: Builder, names: dict[str, Any]) -> None:
        self.source, self.builder, self.names = source, builder, names

    def run(self, main: ast.FunctionDef) -> Program:
        for node in main.body:
            match node:
                case ast.Return(value=ast.expr() as value):
                    return self.builder.program(self._outputs(value))
                case ast.Assign(targets=[target], value=value):
                    self._assign(target, self.value(value))
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, self.value(value))
                # In PyTorch `x += y` also changes other names and views of x. A program has values
                # without identity, so the statement cannot be read as an assignment.
                case ast.AugAssign(target=ast.Name(id=name)) if self._is_tensor(name):
                    message = f"{name} is written in place"  # its other names see that
                    self.source.fail(node, message, f"write {name} = ...")
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    left = ast.copy_location(ast.Name(name, ast.Load()), node)
                    sum_ = ast.copy_location(ast.BinOp(left, op, value), node)
                    self._assign(node.target, self.value(sum_))
                case ast.Expr(value=ast.Constant()) | ast.Delete() | ast.Pass():
                    continue
                case _:
                    kind = type(node).__name__.lower()
                    self.source.fail(node, f"{kind} is not part of a flat program", _FLAT)
        return self.source.fail(main, "fused_operator returns nothing", "return a list of tensors")

    def _is_tensor(self, name: str) -> bool:
        return isinstance(self.names.get(name), Ref)

    def _outputs(self, node: ast.expr) -> list[Ref]:
        value = self.value(node)
        outputs = list(value) if isinstance(value, tuple) else [value]
        if not outputs or not all(isinstance(output, Ref) for output in outputs):
            self.source.fail(node, "something returned is not a tensor", "return a list of tensors")
        return outputs

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
            return
        if not isinstance(target, ast.Tuple | ast.List):
            self.source.fail(target, "assignment into a tensor", "use torch.where or torch.cat")
        if not isinstance(value, tuple) or len(value) != len(target.elts):
            num_values = len(value) if isinstance(value, tuple) else 1
            message = f"{len(target.elts)} names for {num_values} values"
            self.source.fail(target, message, "name every value, `_` for those not needed")
        for item, part in zip(target.elts, value, strict=True):
            self._assign(item, part)

    def value(self, node: ast.expr) -> Any:
        """The value of an expression: a constant, a `Ref`, or a tuple. Appends its calls."""
        try:
            return constant(node, self.names)
        except NotConstant:
            pass  # a tensor is involved
        match node:
            case ast.Name(id=name):
                self.source.fail(node, f"{name!r} is not defined", "define it above this line")
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return tuple(self.value(item) for item in items)
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                operands = (self.value(left), self.value(right))
                return self.call(node, "torch.div", operands, {"rounding_mode": "floor"})
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self.call(node, _BINARY[type(op)], (self.value(left), self.value(right)), {})
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
                return self.call(node, _BINARY[type(op)], (self.value(left), self.value(right)), {})
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.call(node, "torch.neg", (self.value(operand),), {})
            case ast.Subscript(value=container, slice=index):
                return self._item(node, self.value(container), index)
            case ast.Attribute(value=container, attr=attr):
                return self._attribute(node, self.value(container), attr)
            case ast.Call():
                return self._call_node(node)
        return self.source.fail(node, f"{ast.unparse(node)!r} is not part of a flat program", _FLAT)

    def _item(self, node: ast.expr, container: Any, index: ast.expr) -> Any:
        try:
            position = constant(index, self.names)
        except NotConstant:
            position = None
        if isinstance(container, tuple) and isinstance(position, int):
            if -len(container) <= position < len(container):
                return container[position]
            self.source.fail(node, f"there is no item {position}", "count the values from 0")
        return self.source.fail(
            node, "tensors are not indexed in a flat program", "use torch.select or torch.narrow"
        )

    def _attribute(self, node: ast.expr, container: Any, attr: str) -> Any:
        if isinstance(container, Ref) and attr == "shape":
            return self.builder.types[container.name].shape
        if isinstance(container, tuple) and attr in _FIELDS and len(container) == len(_FIELDS):
            return container[_FIELDS.index(attr)]
        return self.source.fail(node, f"attribute {attr!r} is not part of a flat program", _FLAT)

    def _call_node(self, node: ast.Call) -> Any:
        if any(isinstance(arg, ast.Starred) for arg in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        ):
            self.source.fail(node, "* and ** arguments are not read", "write the arguments out")
        name = dotted(node.func) or ""
        args = tuple(self.value(arg) for arg in node.args)
        kwargs = {str(k.arg): self.value(k.value) for k in node.keywords}
        name = name.replace("torch.nn.functional.", "F.")
        if name.startswith("torch.ops.") and name not in by_call():
            return self._extern(node, name.removeprefix("torch.ops."), args, kwargs)
        if name.startswith(("torch.", "F.")):
            return self.call(node, name, args, kwargs)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, self.value(node.func.value), node.func.attr, args, kwargs)
        return self.source.fail(node, f"{name or ast.unparse(node.func)!r} is unknown", _FLAT)

    def _method(
        self, node: ast.Call, self_: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name == "size" and isinstance(self_, Ref):
            return self._size(node, self.builder.types[self_.name].shape, args, kwargs)
        # `x.reshape(2, 3)` means one list of sizes, `x.transpose(0, 1)` two numbers. The spelling
        # does not tell which, so both are tried.
        if args and all(type(arg) is int for arg in args) and _takes_many(name):
            for packed in ((self_, args), (self_, *args)):  # x.reshape(2, 3), x.transpose(0, 1)
                try:
                    return self.call(node, f"torch.{name}", packed, kwargs)
                except UsageError as error:
                    last = error
            raise last
        return self.call(node, f"torch.{name}", (self_, *args), kwargs)

    def _size(
        self,
        node: ast.Call,
        shape: tuple[int, ...],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """`x.size()`, `x.size(1)` or `x.size(dim=1)`."""
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"dim"}:
            self.source.fail(node, "size takes at most one argument, dim", "write x.size(dim)")
        dim = next(iter((*args, *kwargs.values())), None)
        if dim is None:
            return shape
        if type(dim) is not int or not -len(shape) <= dim < len(shape):
            message = f"there is no dimension {dim!r} in a tensor of shape {shape}"
            self.source.fail(node, message, "count the dimensions from 0")
        return shape[dim]

    def _extern(
        self, node: ast.Call, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            values = extern.bind(op, args, kwargs)
            results = self.builder.call(op, **values)
        except ValueError as error:
            self.source.fail(node, str(error), "check the call against the operator's schema")
        if not extern.returns_sequence(op):
            return results[0]
        left = iter(results)
        is_tensor = extern.computed(op, values) or (True,) * len(results)
        return tuple([next(left) if is_one else None for is_one in is_tensor])

    def call(
        self, node: ast.expr, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Appends a call of the first operator printed as `name` that accepts the arguments."""
        # PyTorch has many functions under several names (torch.relu, F.relu, Tensor.relu); a
        # record knows one of them.
        short = name.rpartition(".")[2]
        spellings = dict.fromkeys((name, *(prefix + short for prefix in _PREFIXES)))
        operators = [op for spelling in spellings for op in by_call().get(spelling, ())]
        refusals = []
        for operator in operators:
            try:
                params = [param.name for param in operator.params]
                if len(args) > len(params):
                    raise ValueError(f"takes at most {len(params)} arguments")
                values = dict(zip(params, args, strict=False)) | dict(kwargs)
                results = self.builder.call(operator.name, **values)
            except ValueError as error:
                refusals.append(str(error))
                continue
            except (TypeError, IndexError) as error:
                # The rules of operators take attributes as they are: `dim="a"` fails where the rule
                # computes with it.
                refusals.append(f"an argument is of a wrong type ({error})")
                continue
            return results if operator.num_outputs != 1 else results[0]
        if refusals:
            message = f"{name} refuses these arguments: {'; '.join(dict.fromkeys(refusals))}"
            return self.source.fail(node, message, "change the arguments or the shapes")
        close = difflib.get_close_matches(name, by_call(), n=3)
        remedy = f"did you mean {', '.join(close)}?" if close else "`kernelwright ops` lists them"
        return self.source.fail(node, f"{name} is not a known operator", remedy)


@cache
def _takes_many(method: str) -> bool:
    """Whether a method takes a list of integers, which may be written without brackets."""
    packet = getattr(torch.ops.aten, method, None)
    overloads = () if packet is None else packet.overloads()
    schemas = (getattr(packet, overload)._schema for overload in overloads)
    lists = (str(schema.arguments[1].type) for schema in schemas if len(schema.arguments) > 1)
    return any(type_ in ("List[int]", "List[SymInt]", "Optional[List[int]]") for type_ in lists)
