"""Faults of ranks: a shape is unpacked into more or fewer names than it has dimensions."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.policy.flow import (
    assigned_inside,
    bound,
    decorators,
    is_generator,
    leaves,
    local_names,
    shared,
)

MOST_CALLS = 3
"""The depth of nested calls up to which ranks are followed."""
_SAME_RANK = ("transpose", "permute", "contiguous", "clone", "to", "float", "half", "flip")
VIEWS = dict.fromkeys(_SAME_RANK, 0) | {"unsqueeze": 1, "select": -1}
"""Method of a tensor -> number of dimensions that the result has more than the tensor."""
_IN_PLACE = {
    "as_strided_",
    "resize_",
    "resize_as_",
    "set_",
    "sparse_resize_",
    "squeeze_",
    "swap_tensors",
    "unsqueeze_",
}
"""Methods and functions that change the rank of a tensor in place, under all its names."""
_CONTEXTS = {"no_grad", "inference_mode", "enable_grad"}
"""Decorators of torch that do not change arguments and results."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A statement that is sure to fail."""

    line: int
    """The number of the line in the source, from 1."""
    message: str


Rank = int | None
"""Dimensions of a tensor; None if they are not known."""


@dataclass(slots=True)
class _Frame:
    """A function while it is followed."""

    ranks: dict[str, int]
    """Ranks of the names whose rank is known here."""
    local: set[str]
    shared: set[str]
    """Names that other functions bind too, for example inner functions. Their rank is never
    known."""
    depth: int
    """The number of nested calls that led to the function."""

    def forget(self, names: set[str]) -> None:
        for name in names:
            self.ranks.pop(name, None)

    def rank(self, value: ast.expr) -> Rank:
        """The rank of an expression: a tensor, a new tensor or a view; None if the text does not
        determine the rank.

        A view with one argument that is not a tuple has no known rank: the argument may be a size,
        a shape or a dtype. Only methods of known tensors are followed, because other objects have a
        `reshape` too, numpy's arrays for example.
        """
        if isinstance(value, ast.Name):
            return self.ranks.get(value.id)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return None
        owner, method = value.func.value, value.func.attr
        if isinstance(owner, ast.Name) and owner.id == "torch" and "torch" not in self.local:
            first = value.args[0] if value.args else None
            if method == "empty_like" and isinstance(first, ast.Name):
                return self.ranks.get(first.id)
            is_new = method in ("empty", "zeros", "ones")
            is_shape = isinstance(first, ast.Tuple | ast.List)
            return _num_sizes(first.elts) if is_new and is_shape else None  # type: ignore[union-attr]
        rank = self.rank(owner)
        if rank is None:
            return None
        if method in ("view", "reshape", "expand"):
            return _num_sizes(_sizes(value.args))
        return rank + VIEWS[method] if method in VIEWS else None


class Ranks:
    """Follows the number of dimensions of tensors through host functions, statement by statement.

    Branches and loops are not followed: the names that they bind have no known rank afterwards. A
    function is followed to the first statement that may return from it.
    """

    def __init__(self, functions: Mapping[str, ast.FunctionDef]) -> None:
        """
        Args:
            functions: name -> host function, for names that no other statement of the module binds.
        """
        self._functions = {
            name: function
            for name, function in functions.items()
            if not is_generator(function)
            and all(first == "torch" and last in _CONTEXTS for first, last in decorators(function))
        }
        self.faults: list[Fault] = []

    def call(self, name: str, ranks: Sequence[Rank], depth: int = 0) -> Rank | list[Rank]:
        """Follow a function, and add its faults to `faults`.

        Args:
            ranks: the ranks of the first positional arguments.
            depth: the number of nested calls up to here. At `MOST_CALLS` no call is followed, so
                recursive functions end.

        Returns:
            The rank of the result, or the ranks of its items if the result is a tuple or a list.
            None if the rank is not known.
        """
        function = self._functions.get(name)
        if function is None:
            return None
        own = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
        frame = _Frame(
            ranks={p: rank for p, rank in zip(own, ranks, strict=False) if rank is not None},
            local=local_names(function),
            shared=shared(function),
            depth=depth,
        )
        frame.forget(frame.shared)
        for statement in function.body:
            # A name that `:=` binds has its old rank before, and no known rank after.
            frame.forget(assigned_inside(statement))
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value, frame)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return _returned(statement.value, frame)
            else:  # other tensors may have these names now
                frame.forget(bound([statement]))
            if leaves(statement):
                break
        return None

    def _assign(self, target: ast.expr, value: ast.expr, frame: _Frame) -> None:
        is_several = isinstance(target, ast.Tuple | ast.List)
        targets = _items(target)
        has_rest = any(isinstance(item, ast.Starred) for item in targets)
        owner = _shape_of(value)
        if is_several and not has_rest and owner in frame.ranks:
            rank = frame.ranks[owner]
            if len(targets) != rank:
                message = f"{owner} has {rank} dimensions, not {len(targets)}"
                self.faults.append(Fault(value.lineno, message))
        result = self._result(value, frame)
        frame.forget(bound([ast.Expr(target)]))
        ranks = result if isinstance(result, list) else [result]
        # Unpacking a tensor gives its rows, and a tuple has no rank.
        if is_several != isinstance(result, list) or has_rest or len(ranks) != len(targets):
            return
        for item, item_rank in zip(targets, ranks, strict=True):
            is_own = isinstance(item, ast.Name) and item.id not in frame.shared
            if is_own and item_rank is not None:
                frame.ranks[item.id] = item_rank  # type: ignore[attr-defined]

    def _result(self, value: ast.expr, frame: _Frame) -> Rank | list[Rank]:
        callee = value.func if isinstance(value, ast.Call) else None
        if not isinstance(callee, ast.Name):
            return frame.rank(value)
        # A local name hides the function of the module.
        if callee.id in frame.local or callee.id not in self._functions:
            return None
        if frame.depth == MOST_CALLS:
            return None
        ranks: list[Rank] = []
        for argument in value.args:  # type: ignore[attr-defined]
            if isinstance(argument, ast.Starred):  # the next arguments may go to any parameter
                break
            ranks.append(frame.rank(argument))
        return self.call(callee.id, ranks, frame.depth + 1)


def changes_ranks(module: ast.Module) -> bool:
    """Whether some statement may change the rank of a tensor in place. Then no rank can be
    followed."""
    for node in ast.walk(module):
        match node:
            case ast.Attribute(attr=name, ctx=context):
                if name in _IN_PLACE or (name == "data" and isinstance(context, ast.Store)):
                    return True
            case ast.keyword(arg="out"):  # the tensor takes the result's shape
                return True
            case ast.Constant(value=str(name)):  # `getattr` may take it
                if name in _IN_PLACE or name == "data":
                    return True
    return False


def _returned(value: ast.expr, frame: _Frame) -> Rank | list[Rank]:
    if not isinstance(value, ast.Tuple | ast.List):
        return frame.rank(value)
    if any(isinstance(item, ast.Starred) for item in value.elts):
        return None
    return [frame.rank(item) for item in value.elts]


def _items(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]


def _shape_of(value: ast.expr) -> str:
    """The name x of an expression `x.shape`; "" for other expressions."""
    is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
    if is_shape and isinstance(value.value, ast.Name):  # type: ignore[attr-defined]
        return str(value.value.id)  # type: ignore[attr-defined]
    return ""


def _sizes(arguments: Sequence[ast.expr]) -> Sequence[ast.expr] | None:
    """The sizes among the arguments of a view; None if a single argument has all sizes."""
    if len(arguments) > 1:
        return arguments
    first = arguments[0] if arguments else None
    return first.elts if isinstance(first, ast.Tuple | ast.List) else None


def _num_sizes(sizes: Sequence[ast.expr] | None) -> Rank:
    if sizes is None or any(isinstance(size, ast.Starred) for size in sizes):
        return None
    return len(sizes)
