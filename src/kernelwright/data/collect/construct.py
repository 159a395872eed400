"""Guesses arguments for the constructor of any module: from defaults, annotations and names."""

import enum
import inspect
import itertools
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from torch import nn

from kernelwright.data.collect.guesses import (
    VALUES_BY_TYPE,
    any_function,
    any_layer,
    values_by_name,
)

Arguments = dict[str, Any]

MAX_ATTEMPTS = 8
"""Sets of arguments for one class."""
_MAX_NESTING = 3
"""A module that wants a module that wants a config."""
_FEW_LAYERS = 2
_DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_encoder_layers",
           "num_decoder_layers", "encoder_layers", "decoder_layers", "depth")  # fmt: skip
"""Names in configurations for the number of layers: more layers are more of the same."""


def arguments_for(cls: type, nesting: int = 0) -> Iterator[Arguments]:
    """Different sets of keyword arguments to try, the likeliest first.

    Each set has new objects, since a module may keep and change what it is given.

    Args:
        nesting: how many constructors ask for this one's object as their argument.
    """
    spellings: list[str] = []
    for arguments in _sets(cls, nesting):
        if spelled(arguments) not in spellings:
            spellings.append(spelled(arguments))
            yield arguments


def _sets(cls: type, nesting: int) -> Iterator[Arguments]:
    """Sets of the required arguments, then sets with one optional argument more.

    Required ones are tried with widths apart and alike, and with each of their likely values in
    turn. Optional ones are those whose default is None.
    """
    required, open_ones = _parameters(cls)
    for alike, turn in itertools.product((False, True), range(MAX_ATTEMPTS // 2)):
        yield _chosen(cls, required, turn, alike=alike, nesting=nesting)
    for parameter in open_ones if nesting == 0 else ():
        if values_by_name(parameter.name, alike=True):
            yield _chosen(cls, [*required, parameter], 0, alike=True, nesting=nesting)


def _chosen(
    cls: type, parameters: list[inspect.Parameter], turn: int, *, alike: bool, nesting: int
) -> Arguments:
    hints, chosen = _hints(cls), {}
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        options = _options(cls, parameter.name, hint, alike=alike, nesting=nesting)
        if options:
            chosen[parameter.name] = options[turn % len(options)]()
    return chosen


def unknown_parameters(cls: type) -> list[str]:
    """Required parameters that no rule covers."""
    hints = _hints(cls)
    return [
        parameter.name
        for parameter in _parameters(cls)[0]
        if not _options(cls, parameter.name, hints.get(parameter.name, Any), alike=True, nesting=0)
    ]


def _parameters(cls: type) -> tuple[list[inspect.Parameter], list[inspect.Parameter]]:
    """(required ones, ones whose default is None) of a constructor."""
    try:
        parameters = list(inspect.signature(_constructor(cls)).parameters.values())
    except (TypeError, ValueError):
        return [], []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in parameters if p.kind not in kinds and p.name != "self"]
    return [p for p in named if p.default is p.empty], [p for p in named if p.default is None]


def _constructor(cls: type) -> Any:
    """The object whose signature says most about the parameters: the first overload of `__init__`,
    or the class itself. An implementation behind overloads often has `*args` alone."""
    init = inspect.getattr_static(cls, "__init__")
    overloads = typing.get_overloads(init) if inspect.isfunction(init) else []
    return overloads[0] if overloads else cls


def _hints(cls: type) -> Mapping[str, Any]:
    """Name -> annotation of the constructor's parameters; empty if annotations do not resolve."""
    made_by = _constructor(cls)
    try:
        return typing.get_type_hints(made_by.__init__ if inspect.isclass(made_by) else made_by)
    except Exception:  # they are evaluated: anything may be raised
        return {}


Maker = Callable[[], Any]


def _options(cls: type, name: str, hint: Any, *, alike: bool, nesting: int) -> list[Maker]:
    """Ways to make a value for one parameter."""
    if configs := config_classes(cls, name, hint):
        return [partial(small_config, config) for config in configs]
    named = [_constant(value) for value in values_by_name(name, alike=alike)]
    typed = list(_by_hint(hint, named, nesting))
    return typed or named


def _constant(value: Any) -> Maker:
    return lambda: value


def _by_hint(hint: Any, named: list[Maker], nesting: int) -> Iterator[Maker]:
    """Makers of values that fit an annotation: those that the name suggests, if they fit, else
    those of the type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in inner:
            yield from () if option is type(None) else _by_hint(option, named, nesting)
    elif origin is typing.Literal:
        yield from map(_constant, inner)
    elif origin in (tuple, list) or str(origin).endswith("Sequence'>"):
        yield from _sequences(origin, inner, named, nesting)
    elif origin is type:
        yield _constant(nn.ReLU)
    elif origin is not None:
        yield from [_constant(any_function)] if "Callable" in str(origin) else []
    elif _is_class(hint):
        yield from _of_class(hint, named, nesting)


def _sequences(
    origin: Any, inner: tuple[Any, ...], named: list[Maker], nesting: int
) -> Iterator[Maker]:
    """Makers of lists and tuples: those that the name suggests, else values of the inner type, two
    or as many as a tuple's annotation says."""
    if fitting := [make for make in named if isinstance(make(), list | tuple)]:
        yield from fitting
        return
    items = [t for t in inner if t is not Ellipsis]
    kind = list if origin is list else tuple
    number = len(items) if origin is tuple and Ellipsis not in inner else 2
    for make in _by_hint(items[0] if items else int, named, nesting):
        yield partial(_repeated, make, kind, number)


def _repeated(make: Maker, kind: type, number: int) -> Any:
    return kind(make() for _ in range(number))


def _of_class(hint: type, named: list[Maker], nesting: int) -> Iterator[Maker]:
    fitting = [make for make in named if _fits(make(), hint)]
    if fitting:
        yield from fitting
    elif hint in VALUES_BY_TYPE:
        yield from map(_constant, VALUES_BY_TYPE[hint])
    elif hint is nn.Module:
        yield any_layer
    elif issubclass(hint, enum.Enum):
        yield from map(_constant, hint)
    elif hint.__module__ not in ("builtins", "typing", "collections.abc", "torch") and (
        nesting < _MAX_NESTING
    ):
        for arguments in arguments_for(hint, nesting + 1):
            yield partial(hint, **arguments)


def _is_class(hint: Any) -> bool:
    return inspect.isclass(hint) and hint is not Any


def _fits(value: Any, hint: type) -> bool:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return True
    return isinstance(value, hint) and (hint is bool) == isinstance(value, bool)


def config_classes(cls: type, name: str, hint: Any) -> list[type]:
    """Classes for a constructor's parameter that takes a configuration object, the likeliest first;
    none if the name is no such parameter's. The annotation counts first, then the attribute
    `config_class`. Otherwise the module's classes named *Config follow, by the length of the common
    prefix."""
    if "config" not in name.lower() and name.lower() not in ("cfg", "args"):
        return []
    named = [hint, getattr(cls, "config_class", None)]
    sure = [c for c in named if _is_class(c) and c.__name__ not in _BASES]
    if sure:
        return sure[:1]
    module = sys.modules[cls.__module__]
    near = {
        value
        for key, value in vars(module).items()
        if inspect.isclass(value) and key.endswith("Config") and key not in _BASES
    }
    return sorted(near, key=lambda c: (-_common_prefix(c.__name__, cls.__name__), c.__name__))


_BASES = frozenset({"PreTrainedConfig", "PretrainedConfig", "GenerationConfig", "object", "dict"})


def _common_prefix(a: str, b: str) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return len(list(pairs))


def small_config(cls: type) -> Any:
    """A configuration at its defaults, but with few layers. More layers of the same widths would
    give the same programs again, and take longer."""
    config = cls(**next(arguments_for(cls, _MAX_NESTING), {}))
    _shrink(config)
    return config


def _shrink(config: Any, nesting: int = 0) -> None:
    for name, value in list(getattr(config, "__dict__", {}).items()):
        if name in _DEPTHS and isinstance(value, int):
            setattr(config, name, min(value, _FEW_LAYERS))
        elif name == "use_cache":
            config.use_cache = False  # a cache is state, not a result
        elif type(value).__name__.endswith("Config") and nesting < _MAX_NESTING:
            _shrink(value, nesting + 1)


def spelled(value: Any) -> str:
    """Arguments as text for provenance, the same in every process."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={spelled(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        inside = ", ".join(map(spelled, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)"
    if isinstance(value, int | float | str | None) and not isinstance(value, enum.Enum):
        return repr(value)
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__name__
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return f"{type(value).__name__}(...)"
