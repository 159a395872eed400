"""The options of the backend."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Precision
from kernelwright.library.store import VARIABLE
from kernelwright.verify.values.tf32 import allowed_tf32

BACKGROUND, NOW, OFF = "background", "now", "off"
SEARCHES = (BACKGROUND, NOW, OFF)
"""When a graph is searched that the library does not know: while Inductor's code runs, before the
first call, or never."""


def default_library() -> Path:
    """The folder that KERNELWRIGHT_LIBRARY names, else a folder in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(VARIABLE) or cache / "kernelwright" / "library")


def default_precision() -> str:
    """ "tf32" where PyTorch may use TF32 for products of matrices, else "strict"."""
    for_products, _ = allowed_tf32()
    return (Precision.TF32 if for_products else Precision.STRICT).value


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendSettings:
    """The user's choices in `torch.compile(..., options=...)`."""

    budget_s: float = 300.0
    """Seconds on the clock for the search of each graph."""
    search: str = BACKGROUND
    precision: str = field(default_factory=default_precision)
    library: Path = field(default_factory=default_library)

    @classmethod
    def of(cls, options: Mapping[str, Any] | None) -> Self:
        """The settings that a dict of options stands for.

        Raises:
            UsageError: an option is unknown or has a value that is not allowed.
        """
        options = dict(options or {})
        names = [setting.name for setting in fields(cls)]
        if unknown := sorted(options.keys() - set(names)):
            raise UsageError(
                f"the backend has no option {unknown[0]!r}",
                remedy=f"choose among {', '.join(names)}",
            )
        library = options.get("library", "")
        if not isinstance(library, str | os.PathLike):
            raise UsageError(f"option library is {library!r}", remedy="give the path of a folder")
        if library:
            options["library"] = Path(library)
        settings = cls(**options)
        settings._check()
        return settings

    def _check(self) -> None:
        precisions = [precision.value for precision in Precision]
        for name, allowed in (("search", SEARCHES), ("precision", precisions)):
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(
                    f"option {name} is {value!r}", remedy=f"choose among {', '.join(allowed)}"
                )
        is_number = isinstance(self.budget_s, int | float) and not isinstance(self.budget_s, bool)
        if not is_number or self.budget_s <= 0:
            raise UsageError(
                f"option budget_s is {self.budget_s!r}", remedy="give a positive number of seconds"
            )
