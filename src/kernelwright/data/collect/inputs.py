"""Guesses example inputs for the forward of any module, from its signature and its layers.

An input is first described (`Spec`). Its tensors are made only when it is tried, on any device.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any

import torch
from torch import nn

from kernelwright.data.collect.guesses import BATCH, LENGTH
from kernelwright.data.collect.shapes import Shape, one_of_each_width, primary_shapes, width_of

MAX_TRIES = 150
"""Sets of inputs for one module."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A tensor to be made."""

    shape: Shape
    dtype: str = "float32"
    high: int = 2
    """Integers are drawn from [0, high)."""

    def make(self, device: str) -> torch.Tensor:
        dtype: torch.dtype = getattr(torch, self.dtype)
        if dtype.is_floating_point:
            return torch.randn(self.shape, dtype=dtype, device=device)
        return torch.randint(0, self.high, self.shape, device=device).to(dtype)


Example = dict[str, Any]
"""Parameter of forward -> Spec, a plain value, or tuples and lists of them."""


def examples_for(module: nn.Module) -> Iterator[Example]:
    """Distinct sets of inputs for a forward, the likeliest first, at most MAX_TRIES. A `Spec`
    stands for each tensor; `made` makes the tensors."""
    shapes, seen = primary_shapes(module), set()
    choices = list(_choices(module))
    for names in choices:
        examples = islice(_examples(module, names, shapes), MAX_TRIES // len(choices))
        for example in examples:
            if repr(example) not in seen:
                seen.add(repr(example))
                yield example


def _examples(
    module: nn.Module, names: Mapping[str, str], shapes: Sequence[Shape]
) -> Iterator[Example]:
    """Values for these parameters: first with one shape for all of them, then with a shape for
    each."""
    for shape in shapes:
        options = [_options(module, name, kind, shape) for name, kind in names.items()]
        for picked in islice(_combined(options), _TRIES_A_SHAPE):
            yield dict(zip(names, picked, strict=True))
    apart = [
        [_options(module, name, kind, shape)[0] for shape in one_of_each_width(shapes)]
        for name, kind in names.items()
    ]
    for picked in _combined(apart):
        yield dict(zip(names, picked, strict=True))


_TRIES_A_SHAPE = 8


def _combined(options: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Combinations of options: all first options, then one parameter at another option, then two.

    A full product would try many unlikely values before the likely ones of the last parameters.
    """
    for num_changed in range(3):
        for places in combinations(range(len(options)), num_changed):
            for picked in product(*(options[place][1:] for place in places)):
                values = [option[0] for option in options]
                for place, value in zip(places, picked, strict=True):
                    values[place] = value
                yield tuple(values)


def _choices(module: nn.Module) -> Iterator[Mapping[str, str]]:
    """Sets of parameters to pass, each with its kind, smallest first.

    The required ones come first, then also optional ones that a call often needs, then also every
    optional tensor.
    """
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if parameter.kind is parameter.VAR_POSITIONAL and not required:
                required["*"] = "tensor"
            continue
        kind = kind_of(parameter)
        if parameter.default is parameter.empty:
            required[parameter.name] = kind
        elif kind != "plain":
            optional[parameter.name] = kind
    first = getattr(module, "main_input_name", next(iter(optional), None))
    if not required and first in optional:
        required = {first: optional[first]}
    yield required
    for wanted in (_OFTEN_NEEDED, (*_OFTEN_NEEDED, "tensor", "ids", "mask")):
        more = {n: k for n, k in optional.items() if k in wanted and n not in required}
        if more:
            yield required | more


_KINDS: tuple[tuple[str, str], ...] = (
    (r"position_embeddings?", "rotary"),
    (r"cos|sin|.*freqs.*", "angles"),
    (r"position_?ids|cache_position|positions?", "positions"),
    (r"(.*_)?(ids|tokens|indices|index|idx)", "ids"),
    (r"(.*_)?(labels?|targets?|tgt_labels)", "target"),
    (r".*(mask|bias)", "mask"),
    (r"t|time_?steps?|timestep|sigma", "time"),
    (r"h|w|height|width", "side"),
    (r"batch(_size)?|bsz", "batch"),
    (r"(seq|sequence)_?(len|length)|q_len|num_.*|length|n", "length"),
    (r"past_key_values?|.*cache.*|output_.*|return_.*|.*dropout.*|training|inputs_embeds", "plain"),
)
_OFTEN_NEEDED = ("rotary", "positions", "angles")


def kind_of(parameter: inspect.Parameter) -> str:
    """The kind of input that a parameter of forward takes, a key of `_BY_KIND`: "tensor", "ids",
    "mask" and others. A "plain" parameter gets None, or is left out if the parameter is optional.
    """
    hint = str(parameter.annotation)
    is_annotated = parameter.annotation is not parameter.empty
    says_tensor = "Tensor" in hint
    if re.search(r"\b(list|List|Sequence)\[.*Tensor", hint):
        return "tensors"
    name = parameter.name.lower().strip("_")
    for pattern, kind in _KINDS:
        if re.fullmatch(pattern, name):
            return "tensor" if kind in ("side", "batch", "length") and says_tensor else kind
    if is_annotated and not says_tensor:
        return {"int": "length", "bool": "flag", "float": "number"}.get(_name(hint), "plain")
    is_tensor = says_tensor or parameter.default is parameter.empty
    return "tensor" if is_tensor else "plain"


def _name(hint: str) -> str:
    return hint.removeprefix("<class '").removesuffix("'>")


def _options(module: nn.Module, name: str, kind: str, shape: Shape) -> list[Any]:
    """Values for one parameter when the main tensor has this shape; the likeliest first."""
    return _BY_KIND[kind](module, name, shape)


def _tensor(module: nn.Module, name: str, shape: Shape) -> list[Any]:
    options: list[Any] = [Spec(shape)]
    if tables := _tables(module):
        options.insert(0, Spec((BATCH, LENGTH), "int64", min(tables)))
    if re.search(r"hidden|state|cell|hx", name):
        options += [Spec((shape[0], shape[-1])), None]
    return options


def _tables(module: nn.Module) -> list[int]:
    """The numbers of rows of the module's embedding tables."""
    sizes = [getattr(layer, "num_embeddings", None) for layer in module.modules()]
    return [size for size in sizes if isinstance(size, int)]


def _ids(module: nn.Module, _: str, shape: Shape) -> list[Any]:
    """Tensors of indices."""
    # Below the smallest table, since nobody knows which table they are looked up in.
    high = min(_tables(module), default=shape[-1])
    return [Spec(s, "int64", high) for s in ((BATCH, LENGTH), shape[:-1], shape, (shape[0],))]


def _target(_: nn.Module, __: str, shape: Shape) -> list[Any]:
    classes = shape[1] if len(shape) > 1 else shape[0]
    return [
        Spec(shape),
        Spec((shape[0], *shape[2:]), "int64", classes),
        Spec(shape[:1], "float32"),
        Spec(shape, "int64", classes),
    ]


def _mask(_: nn.Module, __: str, shape: Shape) -> list[Any]:
    batch, length = shape[0], shape[1] if len(shape) == 3 else LENGTH
    return [
        None,
        Spec((batch, 1, length, length)),
        Spec((batch, length), "bool"),
        Spec((batch, length)),
        Spec((length, length)),
        Spec(shape),
    ]


def _head_dim(module: nn.Module, shape: Shape) -> int:
    config = getattr(module, "config", None)
    for owner in (module, *module.modules(), config):
        for attribute in ("head_dim", "attention_head_size", "rotary_dim"):
            if isinstance(size := getattr(owner, attribute, None), int):
                return size
    return max(shape[-1] // 8, 1)


def _rotary(module: nn.Module, _: str, shape: Shape) -> list[Any]:
    size, length = _head_dim(module, shape), shape[1] if len(shape) == 3 else LENGTH
    pairs = [((1, length, d), (1, length, d)) for d in (size, size // 2)] + [
        ((length, d), (length, d)) for d in (size, size // 2)
    ]
    return [tuple(map(Spec, pair)) for pair in pairs] + [Spec(shape), Spec((1, length, shape[-1]))]


def _angles(module: nn.Module, _: str, shape: Shape) -> list[Any]:
    size, length = _head_dim(module, shape), shape[1] if len(shape) == 3 else LENGTH
    return [Spec((1, length, size)), Spec((length, size)), Spec((length, size // 2))]


def _positions(_: nn.Module, __: str, shape: Shape) -> list[Any]:
    length = shape[1] if len(shape) > 1 else LENGTH
    return [Spec((1, length), "int64", length), Spec((length,), "int64", length),
            Spec((shape[0], length), "int64", length)]  # fmt: skip


def _time(module: nn.Module, name: str, shape: Shape) -> list[Any]:
    inputs: list[Any] = [Spec((shape[0],)), Spec((shape[0],), "int64", 1000)]
    return inputs + _tensor(module, name, shape)


def _tensors(module: nn.Module, _: str, shape: Shape) -> list[Any]:
    widths = [width_of(layer) for layer in module.children()]
    return [[Spec(shape)] * 2, [Spec(shape)], [Spec((*shape[:-1], w)) for w in widths if w]]


def _always(*values: Any) -> Callable[[nn.Module, str, Shape], list[Any]]:
    return lambda _module, _name, _shape: list(values)


def _length(_: nn.Module, __: str, shape: Shape) -> list[Any]:
    return [shape[1] if len(shape) > 1 else LENGTH, 1, 16]


_BY_KIND: dict[str, Callable[[nn.Module, str, Shape], list[Any]]] = {
    "tensor": _tensor, "tensors": _tensors, "ids": _ids, "target": _target, "mask": _mask,
    "rotary": _rotary, "angles": _angles, "positions": _positions, "time": _time,
    "side": _always(16, 32, 56, 14, 7), "batch": _always(BATCH), "length": _length,
    "flag": _always(False, True), "number": _always(1.0), "plain": _always(None),
}  # fmt: skip


def made(value: Any, device: str) -> Any:
    """An example with its tensors made on a device."""
    if isinstance(value, Spec):
        return value.make(device)
    if isinstance(value, dict):
        return {name: made(item, device) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(made(item, device) for item in value)
    return value


def spelled(example: Example) -> str:
    """Inputs as text for provenance: "x=float32[8, 256]"."""
    return ", ".join(f"{name}={_spelled(value)}" for name, value in example.items())


def _spelled(value: Any) -> str:
    if isinstance(value, Spec):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_spelled, value))})"
    return repr(value)
