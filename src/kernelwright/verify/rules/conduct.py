"""Hints on conduct: remembering, counting, looking around, and what the text does not show."""

import ast
from collections.abc import Iterator

from kernelwright.verify.rules.rule import hint, uses
from kernelwright.verify.rules.source import LONG_NAME, CandidateSource
from kernelwright.verify.rules.work import launches

STREAMS = {
    "torch.cuda.Stream", "torch.cuda.stream", "torch.cuda.ExternalStream", "torch.Stream",
    "torch.cuda.set_stream", "torch.cuda.StreamContext", "torch.cuda.streams",
}  # fmt: skip
GRAPHS = {
    "torch.cuda.CUDAGraph", "torch.cuda.graph", "torch.cuda.graphs",
    "torch.cuda.make_graphed_callables",
}  # fmt: skip
SEEDS = {
    "torch.manual_seed", "torch.seed", "torch.set_rng_state", "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all", "torch.cuda.set_rng_state", "torch.random.manual_seed",
    "random.seed", "numpy.random.seed",
}  # fmt: skip
LOOKS_AROUND = {
    "time", "datetime.datetime.now", "torch.cuda.Event", "triton.testing", "os.environ",
    "os.getenv", "__file__", "triton.runtime.interpreter", "triton.knobs.runtime.interpret",
}  # fmt: skip
OPAQUE_LOOKUPS = {"getattr", "operator.attrgetter", "operator.methodcaller"}
ASKS_MODULE = {"hasattr", "isinstance", "getattr", "vars", "type", "id", "print"}
ADDRESSES = {"data_ptr", "id"}
CACHES = {"functools.cache", "functools.lru_cache"}


@hint("write the attribute out", "E61")
def computed_name(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A value that is looked up under a computed name, or in a module passed about, cannot be
    read."""
    for node in source.host(ast.Call):
        called = source.dotted(node.func)
        if called in OPAQUE_LOOKUPS and source.dotted(node) in {"", f"{called}()"}:
            names = node.args[1:2] if called == "getattr" else node.args[:1]
            if any(source.names.text(name) is None for name in names) and not _of_self(node):
                yield node.lineno, f"looks up {source.quoted(node)}"
    for part in source.host(ast.Subscript):
        base = source.dotted(part.value)
        is_table = base.endswith(".__dict__") or base in {"globals()", "vars()", "locals()"}
        if is_table and source.names.text(part.slice) is None:
            yield part.lineno, f"looks up {source.quoted(part)}"
    for word in source.host(ast.Name):
        if _is_passed_module(source, word):
            yield word.lineno, f"passes the module {word.id} about"


def _of_self(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "self"


def _is_passed_module(source: CandidateSource, node: ast.Name) -> bool:
    """Not `torch.x`, not `t = torch`, not a question about it: a module as a plain value."""
    if isinstance(node.ctx, ast.Store) or source.dotted(node) not in source.names.modules:
        return False
    above = source.parent(node)
    if isinstance(above, ast.Call):
        return source.dotted(above.func) not in ASKS_MODULE
    return not isinstance(above, ast.Attribute | ast.Assign | ast.AnnAssign | ast.NamedExpr)


@hint("key a cache by the tensor's version as well, or do without", "E20 E74")
def keyed_by_address(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A result kept under data_ptr() or id() is stale once the memory is reused."""
    keys: set[str] = set()
    for node in source.host(ast.Call):
        if _called(node) in ADDRESSES:
            place = _place(source, node)
            if place == "key":
                yield node.lineno, f"looks something up by {_called(node)}()"
            elif place is not None:
                keys.add(place)
    for name in source.host(ast.Name) if keys else ():
        is_read = name.id in keys and isinstance(name.ctx, ast.Load)
        if is_read and _place(source, name) == "key":
            yield name.lineno, f"looks something up by {name.id}, an address"


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _place(source: CandidateSource, node: ast.AST) -> str | None:
    """ "key" where the value serves to look something up, else the variable that takes it.

    Alignment (`data_ptr() % 16`) is no key, and one that holds the tensor's version is a fair one.
    """
    below, above = node, source.parent(node)
    while isinstance(above, ast.expr | ast.keyword | ast.Assign):
        if isinstance(above, ast.BinOp):
            return None
        is_key = (
            isinstance(above, ast.Compare)
            or (isinstance(above, ast.Subscript) and above.slice is below)
            or (isinstance(above, ast.Call) and _called(above) in {"get", "setdefault", "pop"})
        )
        if is_key or isinstance(above, ast.Assign):
            if id(above) in source.versioned:
                return None
            if is_key:
                return "key"
            assert isinstance(above, ast.Assign)
            target = above.targets[0]
            return target.id if isinstance(target, ast.Name) else None
        if isinstance(above, ast.Call):
            return None
        below, above = above, source.parent(above)
    return None


@hint("compute anew in each call; only scratch memory may be kept", "E20 E21 E22 E24 E25 E71")
def returns_kept(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A value that is returned from a table or an attribute may be the answer to an earlier
    question."""
    for entry in source.entries():
        kept: dict[str, ast.expr] = {}
        for node in ast.walk(entry):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                kept[node.targets[0].id] = node.value
        for node in ast.walk(entry):
            if isinstance(node, ast.Return) and source.function(node) is entry:
                elements = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else ()
                for value in elements or (node.value,):
                    if isinstance(value, ast.Name):
                        value = kept.get(value.id, value)
                    if value is not None and _is_store(source, value):
                        yield (
                            node.lineno,
                            f"returns {source.quoted(value)}, which outlives the call",
                        )
    for function in {source.function(launch) for launch in launches(source)}:
        for decorator in function.decorator_list if function is not None else ():
            if source.dotted(decorator).removesuffix("()") in CACHES:
                yield decorator.lineno, "remembers what a launching function returned"


def _is_store(source: CandidateSource, value: ast.expr) -> bool:
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) and value.value.id == "self"
    if isinstance(value, ast.Subscript):
        base = value.value
        return _is_store(source, base) or (isinstance(base, ast.Name) and source.is_own(base))
    if isinstance(value, ast.Call) and _called(value) == "get":
        base = value.func.value if isinstance(value.func, ast.Attribute) else value
        return isinstance(base, ast.Name) and source.is_own(base)
    return False


@hint("do the same in every call", "E25 E29 E41 E43 E70")
def counts_calls(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A counter that decides something lets some calls work less than others."""
    counted: dict[str, int] = {}
    shared = {name for node in source.host(ast.Global) for name in node.names}
    for node in source.host(ast.AugAssign):
        target = node.target
        is_shared = not isinstance(target, ast.Name) or target.id in shared
        is_count = isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant)
        is_short = not source.is_long(target, LONG_NAME)
        if is_shared and is_count and is_short and not source.is_early(node):
            counted[ast.unparse(target)] = node.lineno
    for test in source.host(ast.Compare) if counted else ():
        sides = (test.left, *test.comparators)
        for name in {ast.unparse(side) for side in sides if not source.is_long(side, LONG_NAME)}:
            if name in counted:
                yield counted[name], f"counts calls in {name} and asks for the count"


@hint("depend on the arguments alone", "E29 E41 E50 E74")
def looks_around(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Clocks, the environment and the interpreter tell a judged call from another."""
    for use in source.named(LOOKS_AROUND):
        if source.is_host(use.node) and use.name != "time":
            yield use.line, f"uses {use.name}"


@hint("draw from a torch.Generator of your own", "E19 E28")
def reseeds(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Seeding the shared generators changes what others draw from them."""
    return uses(source, SEEDS, "calls")


@hint("launch on the current stream, or make it wait for yours", "E31")
def own_stream(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """Work on another stream that nobody waits for escapes the events that time the call."""
    return uses(source, STREAMS)


@hint("copy every input into the graph's own before each replay", "E26 E70")
def cuda_graph(source: CandidateSource) -> Iterator[tuple[int, str]]:
    """A CUDA graph replays on the addresses of its capture. Without copies of new inputs, a replay
    computes with the old inputs."""
    return uses(source, GRAPHS)
