"""Other arguments of a module's constructor: numbers, flags, texts, and parts of lists.

A kernel may hold an argument's value. The file of the task gives no other value to see that by.
"""

import ast
import inspect
import math
from collections.abc import Iterator
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.verify.tasks.module_task import Arguments, ModuleTask
from kernelwright.verify.tasks.task import CPU

MAX_TEXTS = 6
"""The most texts of the task's file that take the place of a text among the arguments."""
_MAX_TEXT = 40
"""Letters of the longest text that an argument may be."""

Place = tuple[int | str, ...]
"""Position or keyword of an argument, then positions or keys inside of it."""


def other_arguments(task: ModuleTask) -> Iterator[tuple[str, ModuleTask]]:
    """Yields the task with one argument of the constructor changed, after a name of the change. The
    first change of every argument comes before the second of any."""
    if task.get_arguments is None:
        return
    args, kwargs = task.get_arguments()
    texts = _texts(task.text)
    places = [*_places(list(args)), *_places(dict(kwargs)), *_defaults(task, len(args), kwargs)]
    changes = {place: _other_values(value, texts) for place, value in places}
    for turn in range(max(map(len, changes.values()), default=0)):
        for place, value in places:
            if turn >= len(changes[place]):
                continue
            new = changes[place][turn]
            is_keyword = isinstance(place[0], str)
            others = (
                list(args) if is_keyword else _replaced(list(args), place, new),
                _replaced(dict(kwargs), place, new) if is_keyword else dict(kwargs),
            )
            # The guest constructs the candidate from the text of these arguments.
            if are_plain(others) and (other := rebuilt(task, others)):
                name = ".".join(map(str, place))
                yield f"argument {name} = {new!r} in place of {value!r}", other


def _places(values: Any) -> Iterator[tuple[Place, Any]]:
    """Every number, flag, text and None inside of lists and dicts, with its place."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in pairs:
        if isinstance(value, list | tuple | dict):
            yield from (((key, *inner), part) for inner, part in _places(value))
        elif value is None or type(value) in (bool, int, float, str):
            yield (key,), value


def _defaults(
    task: ModuleTask, num_given: int, kwargs: dict[str, Any]
) -> Iterator[tuple[Place, Any]]:
    """Plain defaults of the constructor that the task's arguments leave as they are."""
    parameters = list(inspect.signature(type(task.module(CPU))).parameters.values())
    for parameter in parameters[num_given:]:
        is_plain = type(parameter.default) in (bool, int, float, str)
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_plain and is_named and parameter.name not in kwargs:
            yield (parameter.name,), parameter.default


def _replaced(values: Any, place: Place, new: Any) -> Any:
    """A copy of lists and dicts with another value in one place."""
    key, *inner = place
    value = _replaced(values[key], tuple(inner), new) if inner else new
    if isinstance(values, dict):
        return {**values, key: value}
    return type(values)(value if i == key else old for i, old in enumerate(values))


def _other_values(value: Any, texts: list[str]) -> list[Any]:
    """Returns other values of the same kind: neighbours of a number, the other flag, other texts.
    None may stand for a number or a flag."""
    # The type of an absent argument is unknown, so a value of each likely kind is tried.
    if value is None:
        return [1, 0.5, True]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        # Counts of layers, heads or groups are at least 1.
        return [value + 1, *([value - 1] if value > 1 else [])]
    if isinstance(value, str):
        return [text for text in texts if text != value][:MAX_TEXTS]
    # No round numbers, which a kernel could hold by chance.
    return [1.7 * value + 0.1, value + 1.5] if math.isfinite(value) else []


def _texts(source: str) -> list[str]:
    """Returns the short texts among all string constants of the task's file, in order. One of them
    may be another option of the argument."""
    constants = (
        node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)
    )
    return list(
        dict.fromkeys(v for v in constants if isinstance(v, str) and v and len(v) <= _MAX_TEXT)
    )


def are_plain(arguments: Arguments) -> bool:
    """Whether the text of the arguments is a literal, which a guest can read."""
    args, kwargs = arguments
    return all(_is_plain(value) for value in (*args, *kwargs.values()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    return (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and math.isfinite(value))
    )


def rebuilt(task: ModuleTask, arguments: Arguments) -> ModuleTask | None:
    """Returns the task with these arguments; None where the module cannot be constructed with
    them."""
    try:
        return task.with_arguments(arguments)
    except UsageError:
        return None
