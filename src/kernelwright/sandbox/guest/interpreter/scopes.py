"""Guest side: patches `triton.language` once for a launch.

Triton's interpreter looks through all members of `triton.language` and patches the builtins, at
each launch and at each call of a kernel function by another. That takes a third of a softmax's
time.
"""

import inspect
from types import SimpleNamespace
from typing import Any

import triton.language as tl
from triton.runtime import interpreter as stock

_LANGUAGE = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
"""In place of a function that sees both modules that the interpreter patches."""


class _Scope:
    """The patches of a launch, until `restore`. Scopes inside patch nothing."""

    depth = 0

    def __init__(self, patched: Any) -> None:
        self._patched = patched
        self._globals: dict[str, Any] = {}
        self._stock: dict[str, Any] = {}
        _Scope.depth += 1

    def give(self, module_globals: dict[str, Any], names: dict[str, Any]) -> None:
        """Binds names of a kernel's module to the patched functions."""
        self._globals, self._stock = module_globals, names
        module_globals.update({name: getattr(tl, value.__name__) for name, value in names.items()})

    def restore(self) -> None:
        _Scope.depth -= 1
        self._globals.update(self._stock)
        if self._patched is not None:
            self._patched.restore()


def _builtins_of(fn: Any) -> dict[str, Any]:
    """Returns builtins that a kernel's module imported by name: `from triton.language import
    load`."""
    module_globals = fn.__globals__
    values = ((name, module_globals.get(name)) for name in fn.__code__.co_names)
    return {
        name: value
        for name, value in values
        if callable(value) and tl.core.is_builtin(value) and hasattr(tl, value.__name__)
    }


def install() -> None:
    """Patch the interpreter of this process."""
    stock_patch: Any = stock._patch_lang
    builtins: dict[Any, list[tuple[str, Any]]] = {}

    def patch_lang(fn: Any) -> Any:
        names = _builtins_of(fn)
        if not names and not any(value in (tl, tl.core) for value in fn.__globals__.values()):
            return stock_patch(fn)  # refuses the function
        scope = _Scope(None if _Scope.depth else stock_patch(_LANGUAGE))
        scope.give(fn.__globals__, names)
        return scope

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        if package not in builtins:
            members = inspect.getmembers(package)
            builtins[package] = [pair for pair in members if tl.core.is_builtin(pair[1])]
        for name, member in builtins[package]:
            stock._patch_attr(package, name, member, builder, scope)

    interpreter: Any = stock
    interpreter._patch_lang, interpreter._patch_builtin = patch_lang, patch_builtin
