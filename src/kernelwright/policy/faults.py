"""Faults that the text of an answer shows: undefined names, and shapes of another rank.

A quarter of the embedded model's wrong answers to programs of twenty calls fail in this way. Nobody
has to run such an answer to know that it fails, and a model can write again from the fault on.
"""

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.core.syntax import syntax_tree
from kernelwright.programs.fragments.decompose import ENTRY
from kernelwright.programs.program import Program

MOST_CALLS = 3
"""Functions that call each other, one inside the other, that ranks are followed through."""
_SAME_RANK = ("transpose", "permute", "contiguous", "clone", "to", "float", "half", "flip")
VIEWS = dict.fromkeys(_SAME_RANK, 0) | {"unsqueeze": 1, "select": -1}
"""Methods of tensors -> dimensions that their result has more."""
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Fault:
    """A statement that is sure to fail."""

    line: int
    """From 1, in the source."""
    message: str


def first_fault(source: str, program: Program) -> Fault | None:
    """The first statement of a candidate that is sure to fail; None if no fault is found.

    A right candidate must have no fault. So a name that some path binds counts as bound, and ranks
    are compared only if they are known. A source that is not Python has no fault here.

    Args:
        program: the program that the candidate is for. Its inputs give the ranks of the entry's
            parameters.
    """
    try:
        module = syntax_tree(source)
    except SyntaxError:
        return None
    known = {*dir(builtins), "__file__", *_bound(module.body)}
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    faults: list[Fault] = []
    if "*" not in known:  # a module that imports everything may know any name
        faults += [fault for function in functions for fault in _names(function, known)]
    if any(function.name == ENTRY for function in functions):
        # Parameters of kernels are pointers and numbers: only host functions have ranks to follow.
        kernels = [
            function for function in functions if function.decorator_list and function.name != ENTRY
        ]
        host = _Ranks([function for function in functions if function not in kernels])
        host.call(ENTRY, [len(value.type.shape) for value in program.inputs])
        faults += host.faults
    return min(faults, key=lambda fault: fault.line, default=None)


# -- names


def _names(function: ast.FunctionDef, known: set[str]) -> Iterator[Fault]:
    """Faults for names that a function reads before any statement binds them."""
    own = function.args
    bound = {parameter.arg for parameter in (*own.posonlyargs, *own.args, *own.kwonlyargs)}
    bound |= {parameter.arg for parameter in (own.vararg, own.kwarg) if parameter is not None}
    local = bound | _bound(function.body)
    yield from _in_order(function.body, bound, local, known)


def _in_order(
    body: Sequence[ast.stmt], bound: set[str], local: set[str], known: set[str]
) -> Iterator[Fault]:
    """Faults of a block's statements, in order.

    After a branch or a loop all names that it binds count as bound. In a loop they count from its
    beginning, since an earlier turn may have bound them. Names of a `with` count inside it.

    Args:
        bound: names that are bound so far; grows.
        local: names that the function binds anywhere. Python looks for such a name in the function
            alone, even if the module has it too.
        known: names of the module and of Python.
    """
    for statement in body:
        blocks = [
            block for name in ("body", "orelse", "finalbody") for block in _block(statement, name)
        ]
        if isinstance(statement, ast.For | ast.While | ast.With):
            bound |= _bound([statement])
        bound |= {node.target.id for node in ast.walk(statement) if isinstance(node, ast.NamedExpr)}
        for name in _reads(statement):
            is_unbound = name.id in local and name.id not in bound
            if is_unbound or (name.id not in local and name.id not in known):
                yield Fault(name.lineno, f"{name.id} is not defined")
        if blocks:
            for block in blocks:
                yield from _in_order(block, bound, local, known)
        bound |= _bound([statement])


def _block(statement: ast.stmt, name: str) -> list[list[ast.stmt]]:
    block = getattr(statement, name, None)
    is_own = isinstance(block, list) and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
    return [block] if is_own and block else []


def _reads(statement: ast.stmt) -> Iterator[ast.Name]:
    """Names that a statement itself reads. Its blocks, and scopes within it such as lambdas and
    comprehensions, are left out."""
    waiting: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)
    ]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Try | ast.Match):
        return
    # `n += 1` reads n, but the syntax tree marks the target as stored alone.
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node
        waiting += ast.iter_child_nodes(node)


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements bind, in blocks too, but not in functions or classes among them."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)
    return names


# -- ranks


class _Ranks:
    """Follows the number of dimensions of tensors through host functions, statement by statement.

    Branches and loops are not followed: the names that they bind have no known rank afterwards.
    """

    def __init__(self, functions: Sequence[ast.FunctionDef]) -> None:
        self._functions = {function.name: function for function in functions}
        self.faults: list[Fault] = []

    def call(self, name: str, given: Sequence[int | None], depth: int = 0) -> list[int | None]:
        """Follow a function, and add its faults to `faults`.

        Args:
            given: the rank of each argument; None if it is not known.
            depth: how many calls led here. Functions that call themselves end at `MOST_CALLS`.

        Returns:
            The rank of each returned value, None if it is not known; empty without a return.
        """
        function = self._functions[name]
        parameters = [arg.arg for arg in function.args.args]
        ranks = {p: rank for p, rank in zip(parameters, given, strict=False) if rank is not None}
        for statement in function.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value, ranks, depth)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                return [self._rank(item, ranks) for item in _items(statement.value)]
            else:  # what it binds may have other dimensions now
                for bound in _bound([statement]):
                    ranks.pop(bound, None)
        return []

    def _assign(self, target: ast.expr, value: ast.expr, ranks: dict[str, int], depth: int) -> None:
        names = [item.id if isinstance(item, ast.Name) else "" for item in _items(target)]
        is_several = isinstance(target, ast.Tuple)
        if is_several and (owner := _shape_of(value)) in ranks:
            has_rest = any(isinstance(item, ast.Starred) for item in _items(target))
            if not has_rest and len(names) != ranks[owner]:
                message = f"{owner} has {ranks[owner]} dimensions, not {len(names)}"
                self.faults.append(Fault(value.lineno, message))
        value_ranks = self._made(value, ranks, depth)
        for number, name in enumerate(names):
            ranks.pop(name, None)
            rank = value_ranks[number] if len(value_ranks) == len(names) else None
            if name and rank is not None:
                ranks[name] = rank

    def _made(self, value: ast.expr, ranks: dict[str, int], depth: int) -> list[int | None]:
        is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
        name = value.func.id if is_call else ""  # type: ignore[attr-defined]
        if name not in self._functions or depth == MOST_CALLS:
            return [self._rank(value, ranks)]
        ranks_of_args = [self._rank(arg, ranks) for arg in value.args]  # type: ignore[attr-defined]
        return self.call(name, ranks_of_args, depth + 1)

    def _rank(self, value: ast.expr, ranks: dict[str, int]) -> int | None:
        return ranks.get(value.id) if isinstance(value, ast.Name) else _rank_made(value, ranks)


def _items(value: ast.expr) -> list[ast.expr]:
    return list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]


def _shape_of(value: ast.expr) -> str:
    """x of `x.shape`; empty of anything else."""
    is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
    if is_shape and isinstance(value.value, ast.Name):  # type: ignore[attr-defined]
        return str(value.value.id)  # type: ignore[attr-defined]
    return ""


def _rank_made(value: ast.expr, ranks: dict[str, int]) -> int | None:
    """The rank of a new tensor or a view, or None if the text does not tell it.

    A view by one argument that is not a tuple has no known rank: the argument may be a size, a
    shape or a dtype.
    """
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    owner, method = value.func.value, value.func.attr
    if isinstance(owner, ast.Name) and owner.id == "torch":
        first = value.args[0] if value.args else None
        if method == "empty_like" and isinstance(first, ast.Name):
            return ranks.get(first.id)
        if method in ("empty", "zeros", "ones") and isinstance(first, ast.Tuple | ast.List):
            return _num_sizes(first.elts)
        return None
    if method in ("view", "reshape", "expand"):
        first = value.args[0] if len(value.args) == 1 else None
        sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else value.args
        return None if first is not None and sizes is value.args else _num_sizes(sizes)
    rank = ranks.get(owner.id) if isinstance(owner, ast.Name) else _rank_made(owner, ranks)
    if rank is None or method not in VIEWS:
        return None
    return rank + VIEWS[method]


def _num_sizes(sizes: Sequence[ast.expr]) -> int | None:
    return None if any(isinstance(size, ast.Starred) for size in sizes) else len(sizes)
