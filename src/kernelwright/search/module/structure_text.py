"""A module's result as an expression: tuples, dicts, caches, dataclasses and other objects."""

import re
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import UsageError
from kernelwright.programs.capture import structures

BUILT = '''
def built(kind, attributes):
    """An object of this class with these attributes, as the original's forward makes it."""
    made = kind.__new__(kind)
    vars(made).update(attributes)
    return made
'''.strip()

BECOME = '''
def become(part, new):
    """Give a list, dict or object the content of another of its class."""
    if isinstance(part, list):
        part[:] = new
    else:
        content = part if isinstance(part, dict) else vars(part)
        content.clear()
        content.update(new if isinstance(new, dict) else vars(new))
'''.strip()

_REMEDY = "return tensors in tuples, lists, dicts or dataclasses, or call kernelwright.optimize"


class ResultText:
    """Writes results of one module; `modules` are those that the expressions need imported."""

    def __init__(self, own_module: str, device: str, parts: Sequence[str]) -> None:
        """
        Args:
            own_module: the module whose text the file keeps; "" for none.
            device: an expression of the device that the results are on.
            parts: expressions of the inputs that an `Alias` may stand for.
        """
        self.modules: set[str] = set()
        self.parts = parts
        self._own_module, self._device = own_module, device

    def text(self, spec: pytree.TreeSpec, leaves: Iterator[str]) -> str:
        """The tree of this structure as an expression.

        Args:
            leaves: their expressions, in order; those of the tree are taken.

        Raises:
            UsageError: an object has no such expression.
        """
        kind = spec.type
        if spec.is_leaf():
            return next(leaves)
        if kind is structures.Alias:
            return self.parts[spec.context]
        if kind is structures.Fixed or (isinstance(kind, type) and issubclass(kind, Enum)):
            return self._value(spec.context)
        items = [self.text(child, leaves) for child in spec.children()]
        if kind is tuple:
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        if kind is list:
            return f"[{', '.join(items)}]"
        if kind in (dict, OrderedDict):
            pairs = [f"{k!r}: {v}" for k, v in zip(spec.context, items, strict=True)]
            return f"{'' if kind is dict else 'OrderedDict'}{_in_braces(pairs, kind)}"
        return self._object(spec, items)

    def _object(self, spec: pytree.TreeSpec, items: Sequence[str]) -> str:
        kind: Any = spec.type
        if kind is namedtuple:
            return f"{self._name(spec.context)}({', '.join(items)})"
        if kind.__module__ == "torch.return_types":
            return f"torch.return_types.{kind.__name__}([{', '.join(items)}])"
        if structures.is_taken_apart(kind):
            names = spec.context
            pairs = [f"{k!r}: {v}" for k, v in zip(names, items, strict=True)]
            # With fewer or further attributes than its fields, no constructor makes such an object.
            if set(names) != structures.fields_of(kind):
                return f"built({self._name(kind)}, {_in_braces(pairs, dict)})"
        elif issubclass(kind, dict) and is_dataclass(kind):  # the results of transformers' models
            names = spec.context
        else:
            raise self._refusal(f"a {kind.__name__}")
        arguments = [f"{k}={v}" for k, v in zip(names, items, strict=True)]
        return f"{self._name(kind)}({', '.join(arguments)})"

    def _value(self, value: Any) -> str:
        """A value that is no tree."""
        if isinstance(value, torch.device):
            return self._device
        if isinstance(value, Enum):
            return f"{self._name(type(value))}.{value.name}"
        if isinstance(value, type):
            return self._name(value)
        if isinstance(value, torch.Size):
            return f"torch.Size({tuple(value)})"
        # True for infinities and NaN, which have no literal.
        if isinstance(value, float) and value - value != 0:
            return f'float("{value}")'
        plain = (
            bool, int, float, str, type(None), torch.dtype, torch.layout, torch.memory_format,
            range, slice, bytes, complex,
        )  # fmt: skip
        if isinstance(value, plain) or value == frozenset():
            return repr(value)
        raise self._refusal(f"an object that holds {value!r}")

    def _name(self, kind: type) -> str:
        """The class, as the file can name it."""
        module, name = kind.__module__, kind.__qualname__
        # Looked up as the file will look the class up, which finds no local class.
        named: Any = sys.modules.get(module)
        for part in name.split("."):
            named = getattr(named, part, None)
        if named is not kind or module == "__main__":
            raise self._refusal(f"a {kind.__name__}, a class that no file can import")
        if module == self._own_module:
            # The file gives the class `Model` the name ModelNew.
            return re.sub(r"^Model\.", "ModelNew.", name)
        if module == "builtins":
            return name
        self.modules.add(module)
        return f"{module}.{name}"

    def _refusal(self, what: str) -> UsageError:
        return UsageError(
            f"forward returns {what}, which optimized.py cannot spell", remedy=_REMEDY
        )


def _in_braces(pairs: Sequence[str], kind: type) -> str:
    inside = "{" + ", ".join(pairs) + "}"
    return inside if kind is dict else f"({inside})"
