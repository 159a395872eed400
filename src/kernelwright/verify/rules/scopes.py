"""Reads Python's scopes from a syntax tree, and resolves the names in them."""

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Binding = str | ast.expr | None
"""The value that a name is bound to: an import's dotted origin, an expression, or a value not
looked into."""
Put = Callable[[str, Binding], None]
Function = ast.FunctionDef | ast.AsyncFunctionDef

IMPORTERS = {"__import__", "importlib.import_module"}
SYSTEM = {
    "os", "sys", "builtins", "ctypes", "subprocess", "gc", "inspect", "importlib", "threading",
    "multiprocessing", "socket", "pickle", "marshal", "shutil", "tempfile", "pathlib", "io",
    "atexit", "mmap", "traceback", "tarfile", "zipfile", "glob",
}  # fmt: skip
"""Modules that other modules import: `torch.os` is `os`."""
BUILTINS = frozenset(dir(builtins))
MAX_CHAIN = 64
"""Longer chains of attributes name nothing."""
MAX_LENGTH = 500
"""Characters: longer names and longer texts name nothing. `t1 = t0 + t0; t2 = t1 + t1` and
`f()()()` would grow without end."""
MAX_SCOPES = 200
"""Scopes within each other: a name is looked for in all of them."""
LOOKUPS = {"__getattribute__", "__getattr__"}


@dataclass(slots=True)
class NameScope:
    outer: "NameScope | None"
    is_class: bool = False
    depth: int = 0
    bound: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    """Names declared `global` here."""


@dataclass(slots=True)
class Names:
    """Resolves names; asked through `dotted`."""

    top: NameScope
    scopes: dict[int, NameScope] = field(default_factory=dict)
    """id() of a `Name` -> the scope it is read in."""
    parents: dict[int, ast.AST] = field(default_factory=dict)
    functions: dict[int, Function] = field(default_factory=dict)
    """id() of a node -> the named function around it."""
    modules: set[str] = field(default_factory=set)
    """Top-level names of imported modules."""
    stars: list[str] = field(default_factory=list)
    """Modules of `from module import *`."""
    _known: dict[int, str] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    """id() of the nodes whose name is being found."""
    _num_empty: dict[int, int] = field(default_factory=dict)
    """id() of a list of bindings -> how many at its beginning name nothing."""
    _texts: dict[int, tuple[str | None, int]] = field(default_factory=dict)
    """id() of a node -> its text, and the depth at which the text was asked for."""

    def dotted(self, node: ast.AST) -> str:
        """Returns "torch.cuda.Stream" for an expression that names this class; "" for any other
        expression."""
        known = self._known.get(id(node))
        if known is None:
            self._known[id(node)] = ""  # `x = x.y` names nothing
            self._open.add(id(node))
            known = self._dotted(node)
            if len(known) > MAX_LENGTH:
                known = ""
            self._known[id(node)] = known
            self._open.discard(id(node))
        return known

    def _dotted(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self._name(node.id, self.scopes.get(id(node), self.top))
        if isinstance(node, ast.Attribute):
            return self._member(self.dotted(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._item(self.dotted(node.value), self.text(node.slice))
        if isinstance(node, ast.NamedExpr):
            return self.dotted(node.value)
        return ""

    def _name(self, name: str, scope: NameScope) -> str:
        at: NameScope | None = scope
        while at is not None:
            # Python hides names of a class from the functions inside.
            is_visible = not at.is_class or at is scope
            if is_visible and name in at.bound and name not in at.elsewhere:
                return self._origin(at.bound[name])
            at = at.outer
        if name not in BUILTINS and self.stars:
            return f"{self.stars[0]}.{name}"
        return name

    def _origin(self, bindings: list[Binding]) -> str:
        """The origin that a name stands for in any of its bindings.

        Bindings at the beginning that name nothing are passed once: a name may have thousands of
        bindings, and as many uses.
        """
        begin = self._num_empty.get(id(bindings), 0)
        all_empty = True
        for position in range(begin, len(bindings)):
            binding = bindings[position]
            if binding is not None:
                origin = binding if isinstance(binding, str) else self.dotted(binding)
                if origin:
                    return origin
                all_empty = all_empty and id(binding) not in self._open
            if all_empty:
                self._num_empty[id(bindings)] = position + 1
        return ""

    def _member(self, base: str, name: str) -> str:
        if not base or base.count(".") > MAX_CHAIN:
            return ""
        is_hidden_module = name in SYSTEM and base.split(".")[0] in self.modules | SYSTEM
        return name if is_hidden_module else f"{base}.{name}"

    def _item(self, base: str, key: str | None) -> str:
        """Resolves look-ups in the tables of a namespace."""
        if key is None:
            return ""
        if base.endswith(".__dict__"):
            return self._member(base.removesuffix(".__dict__"), key)
        if base in {"globals()", "vars()", "locals()"}:
            return self._name(key, self.top)
        if base == "sys.modules":
            return key
        return f"builtins.{key}" if base.endswith("__builtins__") else ""

    def _call(self, node: ast.Call) -> str:
        called = self.dotted(node.func)
        first = node.args[0] if node.args else None
        if first is not None:
            if called == "getattr" and len(node.args) > 1:
                name = self.text(node.args[1])
                return "" if name is None else self._member(self.dotted(first), name)
            if called == "vars":
                return self._member(self.dotted(first), "__dict__")
            if called in IMPORTERS:
                return self.text(first) or ""
            base, _, last = called.rpartition(".")
            if last in LOOKUPS or (last == "get" and base.endswith("__dict__")):
                return self._looked_up(base, last, node)
            if called == "operator.attrgetter()" and isinstance(node.func, ast.Call):
                name = self.text(node.func.args[0]) if node.func.args else None
                return "" if name is None else self._member(self.dotted(first), name)
        return f"{called}()" if called else ""

    def _looked_up(self, base: str, how: str, node: ast.Call) -> str:
        """Resolves `torch.__getattribute__("mm")` and `object.__getattribute__(torch, "mm")`."""
        if how == "get":
            return self._item(base, self.text(node.args[0]))
        if base in {"object", "type"} and len(node.args) > 1:
            base, name = self.dotted(node.args[0]), self.text(node.args[1])
        else:
            name = self.text(node.args[0])
        return "" if name is None else self._member(base, name)

    def text(self, node: ast.AST, depth: int = 0) -> str | None:
        """Returns a string that the text spells out, in one piece or several; None for any other
        expression."""
        if depth > MAX_CHAIN:
            return None
        # Without a text at one depth, there is none deeper; nearer to the top there may be one.
        known, asked_at = self._texts.get(id(node), (None, MAX_CHAIN + 1))
        if known is None and depth < asked_at:
            known = self._text(node, depth)
            self._texts[id(node)] = known, depth
        return known

    def _text(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.Constant):
            value = node.value
            return value if isinstance(value, str) and len(value) <= MAX_LENGTH else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined((node.left, node.right), depth + 1)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values, depth + 1)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value, depth + 1)
        if isinstance(node, ast.Name):
            scope: NameScope | None = self.scopes.get(id(node), self.top)
            while scope is not None and node.id not in scope.bound:
                scope = scope.outer
            values = [] if scope is None else scope.bound[node.id]
            if len(values) == 1 and isinstance(values[0], ast.expr):
                return self.text(values[0], depth + 1)
        return None

    def _joined(self, nodes: Iterable[ast.AST], depth: int) -> str | None:
        """Returns the texts of the nodes as one; None where a node has none, or they are too
        long."""
        joined = ""
        for node in nodes:
            part = self.text(node, depth)
            if part is None or len(joined) + len(part) > MAX_LENGTH:
                return None
            joined += part
        return joined


SCOPED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


BINDING = (
    ast.Name, ast.arg, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Import, ast.ImportFrom,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs,
    ast.MatchStar, ast.Global,
)  # fmt: skip
SIGNS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def read_scopes(tree: ast.Module) -> tuple[list[ast.AST], Names]:
    """Returns all nodes of the tree except its contexts and operator signs, and its names.

    The walk is iterative, because text may be nested deeply.

    Raises:
        RecursionError: more than `MAX_SCOPES` scopes lie within each other.
    """
    names = Names(NameScope(None))
    nodes: list[ast.AST] = []
    todo: list[tuple[ast.AST, NameScope, Function | None]] = [
        (node, names.top, None) for node in reversed(tree.body)
    ]
    handled: set[int] = set()
    while todo:
        node, scope, function = todo.pop()
        nodes.append(node)
        if function is not None:
            names.functions[id(node)] = function
        if isinstance(node, BINDING):
            _bind(node, scope, names, handled)
        inner, within, around = scope, function, scope
        outside: set[int] = set()
        if isinstance(node, SCOPED):
            inner = NameScope(scope, isinstance(node, ast.ClassDef), scope.depth + 1)
            if inner.depth > MAX_SCOPES:
                raise RecursionError("functions are nested too deeply")
            within = node if isinstance(node, Function) else function
            outside = _evaluated_outside(node)
        elif isinstance(node, ast.arguments):
            around = scope.outer or scope
            outside = _evaluated_outside(node)
        for child in reversed(_children(node)):
            names.parents[id(child)] = node
            if id(child) in outside:
                todo.append((child, around, function))
            else:
                todo.append((child, inner, within))
    return nodes, names


def _children(node: ast.AST) -> list[ast.AST]:
    children: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            children += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, SIGNS):
            children.append(value)
    return children


def _evaluated_outside(node: ast.AST) -> set[int]:
    """Returns ids of children of a definition that Python evaluates in the scope around it."""
    outside: list[ast.expr | None] = []
    if isinstance(node, Function):
        outside = [*node.decorator_list, node.returns]
    elif isinstance(node, ast.ClassDef):
        outside = [*node.decorator_list, *node.bases]
    elif isinstance(node, ast.arguments):
        outside = [*node.defaults, *node.kw_defaults]
    return {id(child) for child in outside if child is not None}


def _bind(node: ast.AST, scope: NameScope, names: Names, handled: set[int]) -> None:
    """Enters the names that one node binds into its scope."""

    def put(name: str, value: Binding) -> None:
        home = names.top if name in scope.elsewhere else scope
        home.bound.setdefault(name, []).append(value)

    if isinstance(node, ast.Name):
        names.scopes[id(node)] = scope
        if not isinstance(node.ctx, ast.Load) and id(node) not in handled:
            put(node.id, None)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            _assign(target, node.value, put, handled)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        _assign(node.target, node.value, put, handled)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.split(".")[0]
            names.modules.add(first)
            put(alias.asname or first, alias.name if alias.asname else first)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        names.modules.add(module.split(".")[0])
        for alias in node.names:
            if alias.name == "*":
                names.stars.append(module)
            else:
                hidden = alias.name in SYSTEM
                put(alias.asname or alias.name, alias.name if hidden else f"{module}.{alias.name}")
    elif isinstance(node, Function | ast.ClassDef):
        put(node.name, None)
    elif isinstance(node, ast.arg):
        put(node.arg, None)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        put(node.name, None)
    elif isinstance(node, ast.Global):
        scope.elsewhere |= set(node.names)


def _assign(target: ast.expr, value: ast.expr, put: Put, handled: set[int]) -> None:
    if isinstance(target, ast.Name):
        handled.add(id(target))
        put(target.id, value)
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
    ):
        for inner, part in zip(target.elts, value.elts, strict=True):
            _assign(inner, part, put, handled)
