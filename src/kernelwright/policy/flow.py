"""The flow of Python text: names that statements bind, and parts that surely run.

A part surely runs if it runs whenever the statements before it run. Branches, loops that may have
no iteration, and blocks that may catch an exception do not surely run.
"""

import ast
from collections.abc import Iterator, Sequence

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_UNSURE = (*_DEFINITIONS, *_COMPREHENSIONS, ast.Lambda, ast.Try, ast.TryStar, ast.Match)
KERNEL_DECORATORS = ("jit", "autotune", "heuristics")


def bound(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements bind, in blocks too, but not in functions or classes among them."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
            continue
        if isinstance(node, _COMPREHENSIONS):
            # Its variables are its own, but `:=` in it binds a name of the function.
            names |= assigned_inside(node)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return names


def assigned_inside(node: ast.AST) -> set[str]:
    """Names that `:=` binds anywhere in an expression or statement."""
    return {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}


def shared(node: ast.AST) -> set[str]:
    """Names declared `global` or `nonlocal` anywhere inside: more than one function binds them."""
    declared = (part for part in ast.walk(node) if isinstance(part, ast.Global | ast.Nonlocal))
    return {name for part in declared for name in part.names}


def parameters(function: ast.FunctionDef) -> set[str]:
    own = function.args
    several = [parameter for parameter in (own.vararg, own.kwarg) if parameter is not None]
    return {p.arg for p in (*own.posonlyargs, *own.args, *own.kwonlyargs, *several)}


def local_names(function: ast.FunctionDef) -> set[str]:
    """Names that Python looks for in the function alone, even if the module has them too."""
    of_module = {
        name
        for statement in _own_parts(function)
        if isinstance(statement, ast.Global)
        for name in statement.names
    }
    return parameters(function) | (bound(function.body) - of_module)


def is_generator(function: ast.FunctionDef) -> bool:
    """A call of the function does not run its body."""
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in _own_parts(function))


def decorators(function: ast.FunctionDef) -> list[tuple[str, str]]:
    """The first and last name of each decorator: ("triton", "jit") of `@triton.jit`. Both are empty
    if the decorator is no such name or call."""
    return [_ends(node) for node in function.decorator_list]


def is_kernel(function: ast.FunctionDef) -> bool:
    return any(
        first == "triton" or first == last in KERNEL_DECORATORS
        for first, last in decorators(function)
    )


def leaves(statement: ast.stmt) -> bool:
    """Statements after this one in its block may not run, without an exception."""
    if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
        return True
    if isinstance(statement, _DEFINITIONS):
        return False
    is_loop = isinstance(statement, ast.For | ast.AsyncFor | ast.While)
    exits = (ast.Return,) if is_loop else (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(part, exits) for part in _own_parts(statement))


def sure_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """Expressions of a statement that are evaluated whenever the statement runs. Blocks of the
    statement are left out."""
    if isinstance(statement, _UNSURE):
        return
    # `n += 1` reads n, but the syntax tree marks the target as stored alone.
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement.target)
    waiting = _sure_children(statement)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, _UNSURE):
            continue
        yield node
        waiting += _sure_children(node)


def sure_block(statement: ast.stmt, *, in_kernel: bool) -> list[ast.stmt]:
    """The block of a statement that runs whenever the statement does; empty without one.

    Args:
        in_kernel: Triton compiles bodies of loops, whether or not they have a turn.
    """
    if isinstance(statement, ast.With):
        # Other context managers may catch the exception.
        items = [_ends(item.context_expr)[0] for item in statement.items]
        return statement.body if set(items) == {"torch"} else []
    if in_kernel and isinstance(statement, ast.While):
        return statement.body
    if isinstance(statement, ast.For):
        is_compiled = in_kernel and _ends(statement.iter)[1] == "range"
        return statement.body if is_compiled or _has_turn(statement.iter) else []
    return []


def _has_turn(values: ast.expr) -> bool:
    """A loop over `range(3)` has a turn whatever the program's sizes are."""
    if not isinstance(values, ast.Call) or _ends(values)[1] not in ("range", "static_range"):
        return False
    end = values.args[0] if len(values.args) == 1 else None
    return isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value > 0


def _ends(node: ast.expr) -> tuple[str, str]:
    """The first and last name of `a.b.c` or `a.b.c(...)`; empty texts of anything else."""
    node = node.func if isinstance(node, ast.Call) else node
    last = node.attr if isinstance(node, ast.Attribute) else ""
    while isinstance(node, ast.Attribute):
        node = node.value
    return (node.id, last or node.id) if isinstance(node, ast.Name) else ("", "")


def _sure_children(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.IfExp() | ast.Assert() | ast.If() | ast.While():
            return [node.test]
        case ast.BoolOp():
            return [node.values[0]]
        case ast.Compare():  # a chain ends at its first part that is false
            return [node.left, node.comparators[0]]
        case ast.For():
            return [node.iter]
        case ast.With():
            return [node.items[0].context_expr]
        case ast.AnnAssign():  # annotations of variables are never evaluated in functions
            return [] if node.value is None else [node.value]
    return [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]


def _own_parts(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes inside, but not those of functions, classes and lambdas among them."""
    waiting = list(ast.iter_child_nodes(node))
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, (*_DEFINITIONS, ast.Lambda)):
            waiting += ast.iter_child_nodes(part)
