"""A candidate's source text as rules read it: a syntax tree whose names are resolved.

`import torch.cuda as c; s = c.Stream`, `getattr(torch, "cu" + "da").Stream`, `torch.os.sys` and
`vars(torch)["mm"]` are all called by what they name. A variable of the candidate's own is never
taken for a builtin or a module that happens to have its name.
"""

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import TypeVar, overload

from kernelwright.core.syntax import syntax_tree
from kernelwright.verify.rules.scopes import Function, Names, read_scopes

JIT = {
    "triton.jit", "triton.JITFunction", "triton.runtime.jit.jit", "triton.runtime.JITFunction",
    "triton.runtime.jit.JITFunction", "triton.experimental.gluon.jit",
}  # fmt: skip
IMPLIED = {"__init__", "forward", "__call__", "backward"}
"""Methods that whoever names the class may run."""
MAX_PARTS = 12
"""Parts of a dotted name that rules look at: no rule asks for a longer name."""
LONG_EXPRESSION, LONG_NAME = 2_000, 200
"""Bytes of an expression that is not written out, and of a variable that is not compared."""

A = TypeVar("A", bound=ast.AST)
B = TypeVar("B", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Use:
    """One place where something is named."""

    line: int
    name: str
    """Dotted: "torch.cuda.Stream"; what a call returns ends in "()"."""
    node: ast.expr


@dataclass(frozen=True)
class CandidateSource:
    tree: ast.Module
    entry: str
    names: Names
    nodes: list[ast.AST] = field(repr=False)
    """All of the tree, in the order of the text's structure."""
    lent: Set[str] = frozenset()
    """Modules that may be imported beside the usual ones."""
    text: str = field(default="", repr=False)

    @cached_property
    def _by_kind(self) -> dict[type, list[ast.AST]]:
        nodes: dict[type, list[ast.AST]] = {}
        for node in self.nodes:
            nodes.setdefault(type(node), []).append(node)
        return nodes

    @overload
    def all(self, kind: type[A], /) -> Iterator[A]: ...
    @overload
    def all(self, kind: type[A], other: type[B], /) -> Iterator[A | B]: ...
    def all(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Nodes of these kinds."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    @cached_property
    def uses(self) -> dict[str, list[Use]]:
        """By name: every name, attribute chain, constant look-up and what a call returns."""
        by_name: dict[str, list[Use]] = {}
        named = self.all(ast.Name, ast.Attribute)
        for node in chain[ast.expr](named, self.all(ast.Call, ast.Subscript)):
            if name := self.dotted(node):
                by_name.setdefault(name, []).append(Use(node.lineno, name, node))
        return by_name

    def named(self, names: Set[str]) -> Iterator[Use]:
        """Yields every place where one of these, or a part of one, is named."""
        for name, uses in self.uses.items():
            if starts(name, names):
                yield from uses

    def dotted(self, node: ast.AST) -> str:
        """Returns "torch.cuda.Stream" for an expression that names this class; "" for any other
        expression."""
        return self.names.dotted(node)

    def parent(self, node: ast.AST) -> ast.AST:
        return self.names.parents.get(id(node), self.tree)

    def is_imported(self, name: str) -> bool:
        """Whether a dotted name stands for an imported module or a part of one, and not for a
        result."""
        return name.split(".")[0] in self.names.modules and "()" not in name

    def is_own(self, name: ast.Name) -> bool:
        """Whether a name is a variable, function or class of the candidate's own at the top of its
        module."""
        return name.id in self.names.top.bound and not self.dotted(name)

    @cached_property
    def kernels(self) -> dict[str, Function]:
        """`@triton.jit` functions by name; also those that are handed to `triton.jit(...)`."""
        by_name = {node.name: node for node in self.all(ast.FunctionDef)}
        kernels: dict[str, Function] = {}
        for use in (use for name in JIT for use in self.uses.get(name, ())):
            above = self.parent(use.node)
            if isinstance(above, Function):
                kernels[above.name] = above
            elif isinstance(above, ast.Call):
                outer = self.parent(above)
                if isinstance(outer, Function):
                    kernels[outer.name] = outer
                for argument in above.args:
                    if isinstance(argument, ast.Name) and argument.id in by_name:
                        kernels[argument.id] = by_name[argument.id]
        return kernels

    @cached_property
    def uses_jit(self) -> bool:
        return not JIT.isdisjoint(self.uses)

    # -- which code runs where

    def function(self, node: ast.AST) -> Function | None:
        """Returns the named function around a node; None at the top of a module or class."""
        return self.names.functions.get(id(node))

    @cached_property
    def reached(self) -> set[int]:
        """id() of the functions that the entry or the module's own statements can reach, by name.

        What only a test or a benchmark at the end of the file calls is not among them.
        """
        by_name: dict[str, list[Function]] = {}
        for function in self.all(ast.FunctionDef, ast.AsyncFunctionDef):
            owner = self.parent(function)
            is_implied = isinstance(owner, ast.ClassDef) and function.name in IMPLIED
            name = owner.name if isinstance(owner, ast.ClassDef) and is_implied else function.name
            by_name.setdefault(name, []).append(function)
        mentions: dict[int, set[str]] = {}
        for node in self.all(ast.Name, ast.Attribute):
            word = node.id if isinstance(node, ast.Name) else node.attr
            mentions.setdefault(id(self.function(node)), set()).add(word)
        words = {self.entry, *mentions.get(id(None), set())}
        reached: set[int] = set()
        seen: set[str] = set()
        while words:
            seen |= words
            mentioned = [f for word in words for f in by_name.get(word, []) if id(f) not in reached]
            reached |= {id(function) for function in mentioned}
            words = {word for function in mentioned for word in mentions.get(id(function), set())}
            words -= seen  # a word that everybody mentions is looked up once
        return reached

    @cached_property
    def _kernel_ids(self) -> set[int]:
        return {id(kernel) for kernel in self.kernels.values()}

    def is_in_kernel(self, node: ast.AST) -> bool:
        """Whether the function around the node is a kernel."""
        return id(self.function(node)) in self._kernel_ids

    @cached_property
    def _host(self) -> set[int]:
        return self.reached - self._kernel_ids

    def is_host(self, node: ast.AST) -> bool:
        """Whether a node runs on the host, in a judged call or before: it is a statement of the
        module, or of a reached function that is no kernel."""
        function = self.function(node)
        return function is None or id(function) in self._host

    @overload
    def host(self, kind: type[A], /) -> Iterator[A]: ...
    @overload
    def host(self, kind: type[A], other: type[B], /) -> Iterator[A | B]: ...
    def host(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Nodes of these kinds that run on the host."""
        nodes = (self._by_kind.get(kind, ()) for kind in kinds)
        return (node for node in chain.from_iterable(nodes) if self.is_host(node))

    def is_early(self, node: ast.AST) -> bool:
        """Whether a node runs when the module is imported or `ModelNew` is constructed, not when it
        is called."""
        function = self.function(node)
        return function is None or function.name == "__init__"

    def entries(self) -> Iterator[Function]:
        """Yields the functions whose returned values are judged."""
        entries: set[int] = set()
        for node in self.all(ast.FunctionDef):
            owner = self.parent(node)
            name = owner.name if isinstance(owner, ast.ClassDef) else node.name
            is_entry = name == self.entry and node.name in {name, "forward"}
            if is_entry and not self._lies_in(node, entries):
                entries.add(id(node))
                yield node

    def _lies_in(self, node: Function, functions: Set[int]) -> bool:
        """Whether a function lies in one of these, at any depth."""
        around = self.function(node)
        while around is not None and id(around) not in functions:
            around = self.function(around)
        return around is not None

    def outer_kernels(self) -> Iterator[Function]:
        """Yields kernels that lie in no other kernel: a walk through these visits all kernels
        once."""
        for kernel in self.kernels.values():
            if not self._lies_in(kernel, self._kernel_ids):
                yield kernel

    @cached_property
    def versioned(self) -> set[int]:
        """id() of the nodes that have a `._version` inside."""
        return self._around(node for node in self.all(ast.Attribute) if node.attr == "_version")

    @cached_property
    def shaped(self) -> set[int]:
        """id() of the nodes that name a shape inside."""
        words = chain[tuple[ast.AST, object]](
            ((node, node.id) for node in self.all(ast.Name)),
            ((node, node.attr) for node in self.all(ast.Attribute)),
            ((node, node.arg) for node in self.all(ast.arg, ast.keyword)),
            ((node, node.value) for node in self.all(ast.Constant)),
        )
        named = ((node, word) for node, word in words if isinstance(word, str))
        return self._around(node for node, word in named if "shape" in word or word == "size")

    def _around(self, nodes: Iterable[ast.AST]) -> set[int]:
        """Returns id() of these nodes and of all nodes around them."""
        around: set[int] = set()
        for node in nodes:
            while id(node) not in around:
                around.add(id(node))
                node = self.parent(node)
        return around

    # -- the text of a node

    @cached_property
    def _line_begins(self) -> list[int]:
        """In bytes, as the columns of nodes are."""
        lengths = (len(line) for line in self.text.encode().splitlines(keepends=True))
        return [0, *accumulate(lengths)]

    def is_long(self, node: ast.expr, limit: int = LONG_EXPRESSION) -> bool:
        """Whether the node is too long to be written out: each of a hundred nodes may lie in the
        next."""
        last = len(self._line_begins) - 1
        begin = self._line_begins[min(node.lineno - 1, last)] + node.col_offset
        end = self._line_begins[min((node.end_lineno or 1) - 1, last)] + (node.end_col_offset or 0)
        return end - begin > limit

    def quoted(self, node: ast.expr) -> str:
        """Returns the node as Python text; a long one is not written out."""
        return "a long expression" if self.is_long(node) else ast.unparse(node)

    def top_level_names(self) -> set[str]:
        """Returns the names that the module defines: functions, classes, assigned and imported
        names."""
        return set(self.names.top.bound)


def parse(text: str, entry: str, lent: Set[str] = frozenset()) -> CandidateSource:
    """Returns the source without its `if __name__ == "__main__"` blocks, which never run in a
    guest.

    Raises:
        SyntaxError: as `syntax_tree` does.
        RecursionError: scopes or expressions are nested too deeply.
    """
    tree = syntax_tree(text)
    guards = {
        id(node): node for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node)
    }
    if guards and not _may_be_main(tree):
        parts = [guards[id(node)].orelse if id(node) in guards else [node] for node in tree.body]
        # Other readers of the text share the tree, so it stays as it is.
        tree = ast.Module([node for part in parts for node in part], tree.type_ignores)
    nodes, names = read_scopes(tree)
    return CandidateSource(tree, entry, names, nodes, lent, text)


def starts(name: str, prefixes: Set[str]) -> bool:
    """Whether the dotted name is one of these or lies in one of them."""
    return not _prefixes(name).isdisjoint(prefixes)


@lru_cache(4096)
def _prefixes(name: str) -> frozenset[str]:
    parts = name.split(".", MAX_PARTS)[:MAX_PARTS]
    return frozenset(".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _is_main_guard(node: ast.If) -> bool:
    return ast.unparse(node.test) in {"__name__ == '__main__'", "'__main__' == __name__"}


def _may_be_main(tree: ast.Module) -> bool:
    """Whether the text could give its module another name: its guarded block would run then."""
    return any(
        isinstance(node, ast.Name)
        and (
            (node.id == "__name__" and not isinstance(node.ctx, ast.Load))
            or node.id in {"globals", "vars", "locals", "setattr"}
        )
        for node in ast.walk(tree)
    )
