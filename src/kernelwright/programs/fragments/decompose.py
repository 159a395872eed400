"""Takes an answer apart: each call in its entry becomes a candidate of its own.

The inverse of `programs.fragments.compose`. An answer to a program of twenty calls is a sequence
of wrappers, each with its kernels:

    def fused_operator(x0, x1):
        [t0] = fused_linear_t0(x0, x1)
        [t2] = fused_softmax_t2(t0)
        return [t2]

The names say which values of the program a wrapper reads and makes. So each wrapper can be judged
alone, on inputs of its own: a wrong answer still shows which of its kernels are right.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.core.plan import lines_of
from kernelwright.core.syntax import syntax_tree
from kernelwright.programs.build import canonical
from kernelwright.programs.fragments.fragment import CallGraph, part_of
from kernelwright.programs.program import Program

ENTRY = "fused_operator"


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerStep:
    """One call of a wrapper in an answer's entry."""

    number: int
    """The position among the steps of the answer, from 0."""
    makes: tuple[str, ...]
    """The values of the program that the step makes."""
    functions: frozenset[str]
    """The wrapper and all that it calls or launches, by name."""
    program: Program
    """The part of the answer's program that the step computes, with canonical names."""
    source: str
    """A candidate for that part: the step's functions, and an entry that calls the wrapper."""


def steps_of(source: str, program: Program) -> list[AnswerStep]:
    """The steps of an answer that can be judged alone, in order.

    A step is left out if it reads or makes a value that the program does not have. The same holds
    if its part of the program cannot run as one step. The result is empty if the answer is no
    Python, has no entry, or takes another number of inputs than the program.

    Args:
        source: the source of the answer, with `fused_operator` as its entry.
        program: the program that the answer is for.
    """
    try:
        module = syntax_tree(source)
    except SyntaxError:
        return []
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    entry = functions.pop(ENTRY, None)
    if entry is None or len(entry.args.args) != len(program.inputs):
        return []
    apart = _Apart(module, functions, program, source)
    values = {
        parameter.arg: value.name
        for parameter, value in zip(entry.args.args, program.inputs, strict=True)
    }
    return list(apart.steps(entry.body, values))


@dataclass(frozen=True, slots=True)
class _WrapperCall:
    """A statement of an entry that calls a wrapper."""

    wrapper: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    returns_list: bool
    """The wrapper returns a list or a tuple of tensors, not one tensor."""


class _Apart:
    def __init__(
        self,
        module: ast.Module,
        functions: Mapping[str, ast.FunctionDef],
        program: Program,
        source: str,
    ) -> None:
        self._module, self._functions, self._program = module, functions, program
        self._lines = lines_of(source)
        self._graph, self._producer = CallGraph(program), program.producer()

    def steps(self, body: Sequence[ast.stmt], values: dict[str, str]) -> Iterator[AnswerStep]:
        """
        Args:
            values: name in the entry -> value of the program, of the parameters; grows.
        """
        number = 0
        for statement in body:
            call = _call_of(statement, self._functions)
            if call is None:  # PyTorch's own line, a view mostly: its names are trusted
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                        values.pop(node.id, None)
                        if node.id in self._producer:
                            values[node.id] = node.id
                continue
            step = self._step(number, call, values)
            number += 1
            values |= {name: name for name in call.makes}
            if step is not None:
                yield step

    def _step(
        self, number: int, call: _WrapperCall, values: Mapping[str, str]
    ) -> AnswerStep | None:
        reads = [values.get(name) for name in call.reads]
        if None in reads or not self._producer.keys() >= set(call.makes):
            return None
        calls = self._slice(call.makes, {name for name in reads if name is not None})
        try:
            part = part_of(self._program, calls, self._graph)
        except ValueError:
            return None
        part = replace(part, outputs=call.makes)
        own = [value.name for value in part.inputs]
        # The wrapper reads a value on which its results do not depend in the program. Then the part
        # of the program is not what the wrapper computes.
        if not set(own) >= set(reads):
            return None  # a value that cannot matter is read: nothing says what the wrapper needs
        functions = self._reached(call.wrapper)
        entry = _entry(call, [name for name in reads if name is not None], own)
        return AnswerStep(
            number=number,
            makes=call.makes,
            functions=functions,
            program=canonical(part),
            source=self._source(functions, entry),
        )

    def _slice(self, makes: Collection[str], reads: Collection[str]) -> set[int]:
        """The calls between the values read and the values made."""
        calls: set[int] = set()
        waiting = list(makes)
        while waiting:
            call = self._producer[waiting.pop()]
            if call not in calls:
                calls.add(call)
                names = self._program.calls[call].refs()
                waiting += [n for n in names if n not in reads and n in self._producer]
        return calls

    def _reached(self, wrapper: str) -> frozenset[str]:
        """The functions that a wrapper needs, itself among them."""
        reached, waiting = {wrapper}, [wrapper]
        while waiting:
            for node in ast.walk(self._functions[waiting.pop()]):
                if isinstance(node, ast.Name) and node.id in self._functions.keys() - reached:
                    reached.add(node.id)
                    waiting.append(node.id)
        return frozenset(reached)

    def _source(self, functions: Collection[str], entry: str) -> str:
        """The module with these functions alone, and another entry."""
        kept = [
            "\n".join(self._lines[begin - 1 : end])
            for node in self._module.body
            if not isinstance(node, ast.FunctionDef) or node.name in functions
            for begin, end in [_lines(node)]
        ]
        return "\n\n".join([*kept, entry]) + "\n"


def _call_of(statement: ast.stmt, functions: Collection[str]) -> _WrapperCall | None:
    """The function of the answer that a statement calls, where it does nothing else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    call, target = statement.value, statement.targets[0]
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return None
    reads = [node.id for node in call.args if isinstance(node, ast.Name)]
    is_list = isinstance(target, ast.List | ast.Tuple)
    targets = target.elts if isinstance(target, ast.List | ast.Tuple) else [target]
    makes = [node.id for node in targets if isinstance(node, ast.Name)]
    is_plain = len(reads) == len(call.args) and len(makes) == len(targets)
    if not is_plain or not makes or call.func.id not in functions:
        return None
    return _WrapperCall(call.func.id, tuple(reads), tuple(makes), is_list)


def _entry(call: _WrapperCall, reads: Sequence[str], parameters: Sequence[str]) -> str:
    """A function that gives the wrapper the parameters that the answer gives it."""
    called = f"{call.wrapper}({', '.join(reads)})"
    result = called if call.returns_list else f"[{called}]"
    return f"\ndef {ENTRY}({', '.join(parameters)}):\n    return list({result})"


def _lines(node: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement, from 1."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    begin = min((decorator.lineno for decorator in decorators), default=node.lineno)
    return begin, node.end_lineno or begin
