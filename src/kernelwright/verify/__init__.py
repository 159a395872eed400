"""The judge: a task and a candidate in, a verdict out.

`judge` is the entry, and `trial` goes through the steps of one judgement. `tasks` are what
candidates have to compute. `rules` read the source, `values` compares outputs with a float64
reference, and `times` takes the times. `many` judges thousands. The package itself can be called:
`kernelwright.verify(ref, candidate)`.
"""

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
