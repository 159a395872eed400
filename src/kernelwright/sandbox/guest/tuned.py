"""Guest side: the configurations of an autotuner in turn.

Which configuration is the quickest differs between machines and moments, so that each must be
right. A call of ours can force a configuration.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from kernelwright.sandbox.guest.disguise import disguised

_REFUSED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
"""An autotuner leaves out configurations that raise these."""


class Turns:
    """Forces configurations of every autotuner in this process."""

    def __init__(self) -> None:
        self._number: int | None = None

    def install(self) -> None:
        """Wraps autotuners, from here on."""
        run = Autotuner.run

        @disguised(run)
        def turned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            number = self._number
            if number is None or len(tuner.configs) < 2:
                return run(tuner, *args, **kwargs)
            tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))  # pruning reads these
            everything, fit = tuner.configs, tuner.prune_configs(kwargs)
            # With a single configuration, an autotuner takes no times and runs it.
            try:
                tuner.configs = [fit[number % len(fit)]]
                return run(tuner, *args, **kwargs)
            except _REFUSED:
                tuner.configs = everything
                return run(tuner, *args, **kwargs)
            finally:
                tuner.configs = everything

        Autotuner.run = turned

    @contextmanager
    def forced(self, number: int | None) -> Iterator[None]:
        """Makes autotuners inside use the configuration of this number, modulo how many there are.
        None: they choose."""
        self._number = number
        try:
            yield
        finally:
            self._number = None
