"""The inputs that a task's `get_inputs` draws, in a few thousand elements instead of gigabytes."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.core.errors import KernelwrightError
from kernelwright.core.seed import derive
from kernelwright.lint.findings import Finding
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.oracle import seeded
from kernelwright.verify.tasks.task import CPU

_CAPS = {1: 1 << 16, 2: 256, 3: 48, 4: 20}
_CAP = 12
"""The largest size of a dimension, by the rank of the largest input: at most 2 ** 18 elements."""
DRAWS: tuple[Any, ...] = (
    torch.rand,
    torch.randn,
    torch.ones,
    torch.zeros,
    torch.empty,
    torch.randint,
)


class _Capped(TorchFunctionMode):
    """Factory calls make at most `cap` elements along each dimension."""

    def __init__(self, cap: int) -> None:
        super().__init__()
        self.cap = cap

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in DRAWS:
            # Called on the meta device first: PyTorch itself works out the shape of any spelling.
            # A generator of the CPU does not fit the meta device.
            plain = {name: v for name, v in kwargs.items() if name != "generator"}
            wanted = func(*args, **{**plain, "device": "meta"})
            # The shape is passed by position below.
            kwargs.pop("size", None)
            shape = tuple(min(size, self.cap) for size in wanted.shape)
            if func is torch.randint:
                low, high = (kwargs.pop(name, None) for name in ("low", "high"))
                bounds: list[Any] = [a for a in args if isinstance(a, int)]
                bounds += [b for b in (low, high) if b is not None]
                return torch.randint(*bounds, shape, **kwargs)
            return func(shape, **kwargs)
        return func(*args, **kwargs)


def small_draw(
    get_inputs: Callable[[], Sequence[Any]], rank: int, seed: int
) -> list[torch.Tensor | None]:
    """Returns flat values of each tensor input, drawn at small sizes under this seed.

    All inputs are capped alike, so that they still fit together. None stands for an input that is
    no floating-point tensor.

    Args:
        rank: rank of the task's largest input: the cap of each dimension depends on it.

    Raises:
        Exception: `get_inputs` fails at sizes that are not its own.
    """
    with seeded(seed, CPU), _Capped(_CAPS.get(rank, _CAP)):
        drawn = get_inputs()
    return [
        value.detach().reshape(-1)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
        else None
        for value in drawn
    ]


def resampled(values: torch.Tensor, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Returns a tensor of this shape whose elements are drawn from `values`. Each value comes once
    if there are enough values, because equal values would be ties."""
    generator = torch.Generator().manual_seed(seed)
    count = math.prod(shape)
    if count <= values.numel():
        picks = torch.randperm(values.numel(), generator=generator)[:count]
    else:
        picks = torch.randint(0, values.numel(), (count,), generator=generator)
    return values[picks].reshape(shape)


class SmallDraws:
    """Seed -> inputs of the scaled program: values as `get_inputs` draws them; parameters, and what
    does not say how it is drawn, as the program chooses."""

    def __init__(self, task: ModuleTask, program: Program, lowered: Lowered) -> None:
        self.task, self.program = task, program
        self.positions = {
            i: source.position for i, source in enumerate(lowered.sources) if source.kind == "user"
        }
        self.sources = lowered.sources
        self.rank = max((program.inputs[i].type.rank for i in self.positions), default=1)
        self.is_own = True

    def __call__(self, seed: int) -> list[torch.Tensor]:
        tensors = make_inputs(self.program, seed)
        parameters = make_inputs(self.program, 0)  # one construction, several draws
        try:
            drawn = small_draw(self.task.get_inputs, self.rank, seed)
        except (KernelwrightError, RuntimeError, TypeError):
            drawn, self.is_own = [], False
        for i, value in enumerate(self.program.inputs):
            if i not in self.positions:
                tensors[i] = parameters[i]
                continue
            position = self.positions[i]
            values = drawn[position] if position < len(drawn) else None
            if values is not None:
                picked = resampled(values, value.type.shape, derive(seed, "resample", i))
                tensors[i] = picked.to(tensors[i].dtype)
        return tensors

    def named(self, finding: Finding) -> Finding:
        """The finding in terms of the task's inputs instead of the program's."""

        def name(match: re.Match[str]) -> str:
            i = int(match[1])
            known = self.positions.get(i)
            return f"input {known}" if known is not None else f"parameter {self.sources[i].name}"

        message = re.sub(r"\binput (\d+)", name, finding.message)
        known = None if finding.input is None else self.positions.get(finding.input)
        return replace(finding, message=message, input=known)

    def notes(self) -> tuple[str, ...]:
        notes = ["scaled down: findings that rest on values may differ at the task's own sizes"]
        if not self.is_own:
            notes.append("get_inputs does not run at smaller sizes: values are standard draws")
        return tuple(notes)
