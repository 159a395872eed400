"""Questions that algebra asks of a program: who makes and reads a value, over which axes a call
sums, along which one operand is the same everywhere; and one that the teacher asks: which values
something discrete is made of."""

from typing import Any

from kernelwright.ops.operator import Numerics
from kernelwright.ops.rules import is_float
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program, Ref


class Dataflow:
    """A program with the questions that the rules ask of it."""

    def __init__(self, program: Program) -> None:
        self.program, self._producer = program, program.producer()
        self.users = program.users()

    def maker(self, value: Any) -> int | None:
        """The call that makes an operand; None for inputs and numbers."""
        return self._producer.get(value.name) if isinstance(value, Ref) else None

    def shape(self, value: Ref) -> tuple[int, ...]:
        return self.program.type_of(value.name).shape

    def is_only_read_by(self, i: int, reader: int) -> bool:
        """No result of call i goes anywhere but into `reader`."""
        names = self.program.calls[i].outputs
        readers = {user for name in names for user in self.users[name]}
        return readers == {reader} and not any(n in self.program.outputs for n in names)


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(rank))
    return tuple(d % max(rank, 1) for d in (dim if isinstance(dim, tuple) else (dim,)))


def summed_axes(flow: Dataflow, call: Call) -> frozenset[int]:
    """Axes of its operand that a call adds up to one element each, counted from the front."""
    if not call.has(Trait.SUMS):
        return frozenset()
    shape = flow.shape(call.arg("input"))
    if not shape:
        return frozenset()
    if call.has(Trait.ADAPTIVE):
        spatial = call.operator.spatial
        sizes = call.types[0].shape[-spatial:]
        return (
            frozenset(range(len(shape) - spatial, len(shape))) if set(sizes) == {1} else frozenset()
        )
    axes = axes_of(call.arg("dim"), len(shape))
    return frozenset(axis for axis in axes if shape[axis] > 1)


def operands(flow: Dataflow, call: Call) -> tuple[list[Ref], list[Any]]:
    """(operands of the result's shape, the others) of a call with two."""
    both = [call.arg("input"), call.arg("other")]
    whole = [v for v in both if isinstance(v, Ref) and flow.shape(v) == call.types[0].shape]
    return whole, [v for v in both if v not in whole]


def is_flat(flow: Dataflow, value: Any, call: Call, axes: frozenset[int]) -> bool:
    """A factor that is the same along the axes that are summed."""
    if not isinstance(value, Ref):
        return True
    shape = flow.shape(value)
    shape = (1,) * (call.types[0].rank - len(shape)) + shape
    return all(shape[axis] == 1 for axis in axes)


def channel_axis(call: Call) -> int | None:
    """The dimension of the result that the bias of a layer lies along, counted from the front.

    None if the call is no layer with a weight and a bias.
    """
    dim = None if call.is_extern else call.operator.channel_dim
    return None if dim is None else dim + call.types[0].rank * (dim < 0)


def rounds_quotient(call: Call) -> bool:
    """Whether the call divides and rounds the quotient to an integer."""
    return call.op == "div" and call.arg("rounding_mode") is not None


def permutation(call: Call, rank: int) -> tuple[int, ...]:
    """For each dimension of the result of a call that permutes: the dimension of the input."""
    if call.op == "permute":
        return axes_of(call.arg("dims"), rank)
    order = list(range(rank))
    if rank >= 2:
        a, b = (0, 1) if call.op == "t" else (call.arg("dim0"), call.arg("dim1"))
        order[a], order[b] = order[b], order[a]
    return tuple(order)


def normalized_axes(flow: Dataflow, call: Call) -> tuple[frozenset[int], bool] | None:
    """(axes whose common shift the call takes back, whether a common scale too)."""
    if call.is_extern or call.operator.normalized_axes is None:
        return None
    axes = call.operator.normalized_axes(flow.program.bound(call))
    return None if axes is None else (axes, not call.has(Trait.SOFTMAX))


def deciding_values(program: Program) -> frozenset[str]:
    """Names of floats that decide something discrete: where such a value errs by an ulp, a rounded
    number, a comparison or an index may be another one.

    A value decides through operators that compute or move it element by element, and through
    those that select (a maximum). A sum ends the way: its last bits are free anyway.
    """
    deciding: set[str] = set()
    users = program.users()
    for call in reversed(program.calls):
        if call.is_extern:
            continue
        is_passed_on = call.operator.numerics in (Numerics.POINTWISE, Numerics.EXACT)
        leads_there = is_passed_on and not deciding.isdisjoint(call.outputs)
        if leads_there or _is_discrete(program, call, users):
            deciding.update(name for name in call.refs() if _is_of_floats(program, name))
    return frozenset(deciding)


def _is_discrete(program: Program, call: Call, users: dict[str, list[int]]) -> bool:
    """The call jumps, or makes integers or booleans that somebody reads."""
    if call.operator.jumps is not None and call.operator.jumps(program.bound(call)):
        return True
    read = (name for name in call.outputs if users[name] or name in program.outputs)
    return any(not _is_of_floats(program, name) for name in read)


def _is_of_floats(program: Program, name: str) -> bool:
    return is_float(program.type_of(name).dtype)
