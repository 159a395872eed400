"""The same program at other sizes.

Sizes of inputs are mapped by value, so equal sizes stay equal. An input gets its shape when the
first call reads it. The other operands of that call then have their shapes. A size that a
computation made (a convolution's height, a flattened product) is taken from them.

Attributes that name sizes follow. Kernel sizes, strides and other constants of the computation
stay. The operands that broadcasting stretches, and the dimensions of one element, stay too.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from kernelwright.ops.operator import Domain, TensorType
from kernelwright.ops.traits import Trait
from kernelwright.programs.build import typed_call
from kernelwright.programs.draws.initial import Uses
from kernelwright.programs.extern import RECURRENT
from kernelwright.programs.program import Call, Init, Input, Program, Ref
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.resize_attributes import (
    ATTRIBUTES,
    Pick,
    Shape,
    blocks,
    convolution,
)
from kernelwright.programs.rewrites.stretch import stretched

_MOST_TRIED = 1 << 26
"""A call with more FLOPs or bytes is not run to see whether its indices are valid."""
_MAX_TRIES = 64
"""Ways of sizing one call's new inputs that are tried before it counts as refused."""


def resize(program: Program, pick: Pick, *, fixed_attributes: bool = False) -> Program:
    """The program with size `pick(n)` in place of each free size `n` of its inputs.

    Args:
        fixed_attributes: sizes that attributes spell out (reshape, expand, split, groups) stay, so
            that code written for the program runs on the result.

    Raises:
        ValueError: an operator refuses the new sizes.
    """
    return _Resizing(program, SizeMap(program, pick, fixed_attributes)).run()


class SizeMap:
    """The map from old to new sizes. A size that a call splits maps to the product of its parts."""

    def __init__(self, program: Program, pick: Pick, fixed_attributes: bool) -> None:
        self._pick = pick
        self._parts = dict(_split_sizes(program))
        self._fixed = set(_gates_and_layers(program))
        if fixed_attributes:
            self._fixed.update(_spelled_sizes(program))

    def __call__(self, size: int) -> int:
        if size <= 1 or size in self._fixed:
            return size
        # A size that is taken apart must stay the product of its parts, or the reshape would not
        # fit.
        if size in self._parts:
            return math.prod(map(self, self._parts[size]))
        return self._pick(size)


def free_sizes(program: Program) -> list[int]:
    """Sizes of inputs that `resize` may map, ascending."""
    parts = dict(_split_sizes(program))
    pending = [s for value in program.inputs for s in value.type.shape]
    sizes: set[int] = set()
    while pending:
        size = pending.pop()
        if size in parts:
            pending.extend(parts[size])
        elif size > 1:
            sizes.add(size)
    return sorted(sizes)


def _split_sizes(program: Program) -> Iterator[tuple[int, Shape]]:
    """Yields (size, its factors) for sizes that a call splits. Each factor is smaller."""
    for call in program.calls:
        if call.op in RECURRENT:
            yield from _recurrent_splits(call)
        if call.is_extern:
            continue
        x = next((program.type_of(name).shape for name in call.refs()), ())
        for size, parts in _splits_of(call, x):
            if max(parts) < size and math.prod(parts) == size:
                yield size, parts


def _recurrent_splits(call: Call) -> Iterator[tuple[int, Shape]]:
    gates, width, both = RECURRENT[call.op], call.types[-1].shape[-1], call.types[0].shape[-1]
    if gates > 1:
        yield gates * width, (gates, width)
    if dict(call.args)["bidirectional"]:
        yield both, (2, both // 2)


def _gates_and_layers(program: Program) -> Iterator[int]:
    for call in program.calls:
        if call.op in RECURRENT:
            yield from (2, RECURRENT[call.op], call.types[-1].shape[0])


def _splits_of(call: Call, x: Shape) -> Iterator[tuple[int, Shape]]:
    if call.op == "reshape":
        for old, new in blocks(x, call.types[0].shape):
            if len(old) == 1 and len(new) > 1:
                yield old[0], new
            elif len(old) > 1 and len(new) > 1 and old[-1] % new[-1] == 0:
                yield old[-1], (old[-1] // new[-1], new[-1])  # (197, 512) as (8 * 197, 64)
    elif call.op == "group_norm":
        yield x[1], (call.arg("num_groups"), x[1] // call.arg("num_groups"))
    elif call.operator.family == "convolution" and call.arg("groups") > 1:
        groups = call.arg("groups")
        for size in (x[1], call.types[0].shape[1]):
            yield size, (groups, size // groups)
    elif call.has(Trait.SPLITS) and len(call.outputs) > 1:
        dim = call.arg("dim")
        if len({result_type.shape for result_type in call.types}) == 1:
            yield x[dim], (len(call.outputs), call.types[0].shape[dim])
    elif call.op in ("slice", "slice_scatter"):
        size, bounds = x[call.arg("dim")], (call.arg("start") or 0, call.arg("end") or 0)
        step = math.gcd(size, *bounds)
        yield size, (size // step, step)
    elif call.op == "pixel_shuffle":
        factor = call.arg("upscale_factor") ** 2
        yield x[1], (factor, x[1] // factor)


def _spelled_sizes(program: Program) -> Iterator[int]:
    names = {"shape", "size", "split_size_or_sections", "num_classes", "num_groups", "groups",
             "start", "end"}  # fmt: skip
    for call in program.calls:
        if call.op == "arange":
            yield call.types[0].shape[0]
            continue
        for name, value in call.args:
            if name not in names or (name == "groups" and _is_depthwise(program, call)):
                continue
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, int):
                    yield item


def _is_depthwise(program: Program, call: Call) -> bool:
    return bool(call.arg("groups") == program.type_of(next(call.refs())).shape[1])


class _Resizing:
    def __init__(self, program: Program, sizes: SizeMap) -> None:
        self.program, self.sizes = program, sizes
        self.types: dict[str, TensorType] = {}

    def run(self) -> Program:
        calls = [self._resized(call) for call in self.program.calls]
        for value in self.program.inputs:
            if value.name not in self.types:
                self._decide(value.name, tuple(map(self.sizes, value.type.shape)))
        inputs = tuple(Input(v.name, self.types[v.name], v.init) for v in self.program.inputs)
        resized_calls = Program(inputs, tuple(calls), self.program.outputs)
        old, new = Uses(self.program), Uses(resized_calls)
        # Draws depend on sizes: indices must fit the new tables, and scales of weights the new
        # number of terms.
        fresh = tuple(replace(v, init=_fitting(old, new, v)) for v in resized_calls.inputs)
        resized = Program(fresh, resized_calls.calls, resized_calls.outputs)
        _check_values(resized)
        return resized

    def _decide(self, name: str, shape: Shape) -> None:
        self.types[name] = replace(self.program.type_of(name), shape=shape)

    def _resized(self, call: Call) -> Call:
        open_names = [name for name in dict.fromkeys(call.refs()) if name not in self.types]
        refusal = ValueError(f"{call.op} cannot be resized")
        # The size that the operands suggest may be refused (a group of channels, say): then the
        # other sizes that stood in its place.
        for shapes in itertools.islice(self._shapes(call, open_names), _MAX_TRIES):
            for name, shape in zip(open_names, shapes, strict=True):
                self._decide(name, shape)
            try:
                args, types = self._typed(call)
            except ValueError as error:
                refusal = error
                continue
            self.types.update(zip(call.outputs, types, strict=True))
            return Call(call.op, args, call.outputs, types)
        raise refusal

    def _shapes(self, call: Call, names: list[str]) -> Iterator[tuple[Shape, ...]]:
        """Yields shapes to try for the inputs that this call reads first, the likeliest first."""
        if not names:
            yield ()
            return
        # The same old size among the call's other operands tells what the size became. A mask that
        # is added to scores must follow the scores.
        seen: dict[int, dict[int, None]] = {}
        for name in call.refs():
            if name in self.types:
                old, new = self.program.type_of(name).shape, self.types[name].shape
                for a, b in zip(old, new, strict=True):
                    seen.setdefault(a, {})[b] = None
        choices = []
        for name in names:
            shape = self.program.type_of(name).shape
            kept = self._kernel_dims(call, name)
            choices.append([
                (size,) if i in kept or size <= 1
                else tuple({**seen.get(size, {}), self.sizes(size): None})
                for i, size in enumerate(shape)
            ])  # fmt: skip
        yield from itertools.product(*(itertools.product(*dims) for dims in choices))

    def _kernel_dims(self, call: Call, name: str) -> range:
        is_weight = ("weight", Ref(name)) in call.args
        if is_weight and not call.is_extern and call.operator.family == "convolution":
            return range(2, self.program.type_of(name).rank)
        return range(0)

    def _typed(self, call: Call) -> tuple[tuple[tuple[str, Any], ...], tuple[TensorType, ...]]:
        values = dict(call.args)
        rule = ATTRIBUTES.get(call.op)
        if call.is_extern:
            for name in ("size", "shape"):
                if name in values:
                    values[name] = tuple(map(self.sizes, values[name]))
        elif rule is not None or call.operator.family == "convolution":
            first = next(call.refs(), None)
            old = () if first is None else self.program.type_of(first).shape
            new = () if first is None else self.types[first].shape
            values |= (rule or convolution)(call, old, new, self.sizes)
        args, types = typed_call(call.op, values, self.types.__getitem__)
        if len(types) != len(call.types):
            raise ValueError(f"{call.op} returns {len(types)} tensors instead of {len(call.types)}")
        self._check_structure(call, types)
        return args, types

    def _check_structure(self, call: Call, types: tuple[TensorType, ...]) -> None:
        """Checks that broadcasting and dimensions of one element are as in the original.

        Raises:
            ValueError: an operand is newly stretched, or a result has several elements where it had
                one.
        """
        shapes = [self.types[name].shape for name in call.refs()]
        # Broadcasting where there was none would test another program: a candidate need not stretch
        # that operand.
        if now := stretched(call, shapes, types[0].shape):
            shapes = [self.program.type_of(name).shape for name in call.refs()]
            if now - stretched(call, shapes, call.types[0].shape):
                raise ValueError(f"{call.op} would stretch operands that it takes as they are")
        for new, old in zip(types, call.types, strict=True):
            if any(was == 1 != size for size, was in zip(new.shape, old.shape, strict=True)):
                raise ValueError(f"{call.op} would have several elements where it had one")


def _check_values(program: Program) -> None:
    """Runs the calls that PyTorch may refuse for the values of their indices, on drawn inputs.

    A table of 512 rows that is read at `arange(16)` may become shorter than the range. Shapes do
    not show that.

    Raises:
        ValueError: a call is refused, or too large to be tried.
    """
    names = [call.outputs[0] for call in program.calls if _needs_valid_values(program, call)]
    live, calls = set(names), list[Call]()
    for call in reversed(program.calls):
        if live.intersection(call.outputs):
            calls.append(call)
            live.update(call.refs())
    if not calls:
        return
    inputs = tuple(value for value in program.inputs if value.name in live)
    tried = Program(inputs, tuple(reversed(calls)), tuple(names))
    if tried.flops() > _MOST_TRIED or tried.bytes_unfused() > _MOST_TRIED:
        raise ValueError("too large to see whether its indices are valid")
    try:
        with torch.random.fork_rng(devices=()):
            run(tried, make_inputs(tried, 0))
    except Exception as error:  # an operator of another library may raise anything
        raise ValueError(f"PyTorch refuses the values: {error}") from error


def _needs_valid_values(program: Program, call: Call) -> bool:
    """Whether the call reads indices whose draw does not follow from its own shapes."""
    if call.is_extern:
        return any("int" in program.type_of(name).dtype for name in call.refs())
    indices = [name for name, domain in call.operator.domains.items() if domain is Domain.INDEX]
    values = [value for name, value in call.args if name in indices]
    refs = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(ref, Ref) and not _is_drawn(program, ref.name) for ref in refs)


def _is_drawn(program: Program, name: str) -> bool:
    """Whether a value is an input, seen through operators that only move its elements."""
    producer = program.producer()
    while name in producer:
        call = program.calls[producer[name]]
        if call.is_extern or call.operator.family != "shape":
            return False
        name = next(call.refs())
    return True


def _fitting(old: Uses, new: Uses, value: Input) -> Init:
    """The draw of an input at the new sizes.

    Indices stay within their table. The scale of a weight follows the new number of terms in a sum.
    """
    init = value.init
    if init.kind == "randint":
        wanted = new.init(value.name)
        if wanted is not None and wanted.kind == "randint":
            return replace(init, high=min(init.high, wanted.high))
    elif init.kind == "randn" and init.low == 0 and abs(init.high) < 1:
        before, after = old.fan_in(value.name), new.fan_in(value.name)
        if before and after:
            return replace(init, high=float(f"{init.high * math.sqrt(before / after):.3g}"))
    return init
