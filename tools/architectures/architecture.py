"""How the suite declares an architecture: a name, a family, and how an example is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

BATCH = 2


@dataclass(frozen=True, slots=True)
class Draw:
    """An input tensor that is drawn at random, as data."""

    shape: tuple[int, ...]
    below: int | None = None
    """Draw integers from 0 up to here, this number excluded; None draws normal floats."""

    def tensor(self) -> torch.Tensor:
        """The tensor, from PyTorch's global generator."""
        if self.below is None:
            return torch.randn(self.shape)
        return torch.randint(0, self.below, self.shape)


@dataclass(frozen=True, slots=True)
class Example:
    """A module in eval mode and the arguments of one call."""

    module: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Architecture:
    """One case of the suite."""

    name: str
    """ "library/model"; a second case of a model adds words: "transformers/llama decode"."""
    family: str
    build: Callable[[], Example]

    @property
    def library(self) -> str:
        """The Python package that defines the model."""
        return self.name.partition("/")[0]


def drawn(inputs: Any) -> Any:
    """The same dict, list or tuple with a tensor in the place of each `Draw`."""
    if isinstance(inputs, Draw):
        return inputs.tensor()
    if isinstance(inputs, dict):
        return {name: drawn(value) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return type(inputs)(map(drawn, inputs))
    return inputs
