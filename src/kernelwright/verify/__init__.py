"""The judge. The package itself can be called: `kernelwright.verify(ref, candidate)`."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.core.verdict import Verdict


class _Callable(ModuleType):
    """A function and a package of one name: `api.verify` says what the call takes."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Verdict":
        from kernelwright.verify.api import verify

        return verify(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
