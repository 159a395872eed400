"""`kernelwright.explain`: what the backend runs for a module, graph by graph, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.compile.backend import Compiler
from kernelwright.compile.reports import GraphReport
from kernelwright.compile.searching import background
from kernelwright.compile.settings import BackendSettings


@dataclass(frozen=True, slots=True)
class Explanation:
    """The code that runs for a module behind `torch.compile(module, backend="kernelwright")`."""

    graphs: Sequence[GraphReport]

    def __str__(self) -> str:
        return "\n".join(map(str, self.graphs)) or "Dynamo made no graph"


def explain(
    model: torch.nn.Module,
    *inputs: Any,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Explanation:
    """The code that the backend runs for a call of the module, once all searches have ended.

    The module is called once. Whether gradients are wanted is as in the caller: under
    `torch.no_grad()` the explanation is of inference.

    Args:
        inputs: positional arguments of the call.
        options: of the backend.
        kwargs: keyword arguments of the call.

    Raises:
        UsageError: an option cannot be used.
        Exception: whatever the module raises.
    """
    compiler = Compiler(BackendSettings.of(options))
    torch.compile(model, backend=compiler)(*inputs, **kwargs)
    background.wait()
    return Explanation(compiler.reports)
