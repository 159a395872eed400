"""A task: what a candidate has to compute, and the answers it is judged by.

Reference code is the user's and trusted: it runs in the host's process, natively and in fp64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.draws.families import apply
from kernelwright.programs.draws.structure import Structure, structures
from kernelwright.sandbox.host import supervised
from kernelwright.verify.tasks.answer import ReferenceAnswer, tensors_of
from kernelwright.verify.tasks.observed import Functions, OperatorNotes, Ties
from kernelwright.verify.tasks.oracle import Nudges, nudged, run_in_double, seeded
from kernelwright.verify.values.compare import floor_ulps, least_ulps
from kernelwright.verify.values.live import Callee, Live, copied, differs, read

CPU, META = torch.device("cpu"), torch.device("meta")

NudgesOf = Callable[[torch.dtype], Nudges]
"""The dtype of a result -> how the result may move."""


class Task(ABC):
    """One computation with its inputs. Make one with `load_task` or `program_task`."""

    name: str
    entry: str
    """The name that the candidate must define: "fused_operator" or "ModelNew"."""
    text: str
    """Source of the task's file; "" where there is none."""

    @abstractmethod
    def draw(self, seed: int, device: torch.device) -> list[Any]:
        """Draws fresh inputs as the task's author says: tensors on the device, and plain values."""

    @abstractmethod
    def reference(self, device: torch.device, *, double: bool = False) -> Callee:
        """Returns the reference in the state at the start, with fp64 parameters where `double`."""

    def example(self, device: torch.device) -> list[Any]:
        """Returns inputs to compile for, perhaps on the meta device: their values do not matter."""
        return self.draw(0, device)

    @property
    def native(self) -> torch.dtype:
        """The floating-point type of random draws inside the reference."""
        return torch.float32

    def inputs(self, seed: int, family: str, device: torch.device) -> list[Any]:
        """Draws inputs under `seed` and changes them as the family says. Properties that two draws
        have in common stay."""
        drawn = self.draw(seed, device)
        if family == "plain":
            return drawn
        other = self.draw(derive(seed, "structure") >> 1, device)
        kept: list[Structure | None] = structures(drawn, other)
        del other  # as large as the inputs
        return list(apply(family, drawn, derive(seed, "family", family), kept))

    def expected(
        self, inputs: list[Any], seed: int, device: torch.device, *, tf32: bool = False
    ) -> ReferenceAnswer:
        """Returns the reference's native and fp64 answers for these inputs, under one seed.

        Raises:
            UsageError: the reference fails on these inputs.
        """
        with self.usage():
            return self.live(device, tf32=tf32).answer(inputs, seed)

    def live(self, device: torch.device, *, tf32: bool = False) -> Live:
        """Returns the reference as at the start. Call it inside `usage`, as `expected` does."""
        rounded = self.reference(device, double=True) if tf32 else None
        double = self.reference(device, double=True)
        return Live(self.reference(device), double, device, self.native, rounded)

    def operators(self, inputs: list[Any], seed: int, device: torch.device) -> frozenset[str]:
        """Returns the names of ATen operators that the reference runs, without overloads, and of
        PyTorch's functions that it calls. A comparison of a tensor with itself counts as "isnan".

        Raises:
            UsageError: the reference fails.
        """
        names, functions = OperatorNotes(), Functions()
        with functions:  # some run as operators of other names
            self._call_under(names, inputs, seed, device)
        return frozenset(names.seen | functions.seen)

    def _call_under(
        self, mode: TorchDispatchMode, inputs: list[Any], seed: int, device: torch.device
    ) -> None:
        call = self.reference(device)
        with self.usage(), seeded(seed, device), torch.no_grad(), mode:
            call(*tree_map(copied, inputs))

    def native_answer(
        self, inputs: list[Any], seed: int, device: torch.device
    ) -> tuple[torch.Tensor, ...]:
        """Returns the reference's answer for these inputs, in its own types.

        Raises:
            UsageError: the reference fails on these inputs.
        """
        call = self.reference(device)
        with self.usage(), seeded(seed, device), torch.no_grad():
            return tensors_of(call(*tree_map(copied, inputs)))

    def is_random(self, inputs: list[Any], device: torch.device) -> bool:
        """Whether the reference draws random numbers: its answer changes with the seed."""
        answers = [self.native_answer(inputs, seed, device) for seed in (0, 1)]
        return any(read([differs(a, b) for a, b in zip(*answers, strict=True)], device))

    def has_ties(self, inputs: list[Any], seed: int, device: torch.device) -> bool:
        """Whether the reference sorts rows in which values are equal.

        Raises:
            UsageError: the reference fails.
        """
        ties = Ties()
        self._call_under(ties, inputs, seed, device)
        return bool(ties.are_seen)

    def nudged(
        self, inputs: list[Any], seed: int, device: torch.device, number: int = 0
    ) -> tuple[torch.Tensor, ...]:
        """Returns the fp64 answer with small moves, the least error that any computation must be
        allowed. Inputs move by at most an ulp of fp32, in which kernels compute. Results of
        operators move by an ulp of their type, or half an ulp of 16-bit types. Each `number` gives
        other moves."""
        salt = derive(seed, "nudge", number) >> 1

        def moved(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            computed = torch.promote_types(value.dtype, torch.float32)
            return nudged(value.double(), Nudges(salt, computed))

        with self.usage():
            inputs_moved, finest = [moved(value) for value in inputs], self._finest(inputs)
            nudges = partial(_nudges, salt, least_ulps, are_alike=False)
            return self._rounded(inputs_moved, seed, device, nudges, finest)

    def rounded_otherwise(
        self, inputs: list[Any], seed: int, device: torch.device, number: int = 0
    ) -> tuple[torch.Tensor, ...]:
        """Returns the fp64 answer with results of operators off by up to `floor_ulps`. Inputs, and
        results that their type holds exactly, stay. Equal values stay equal. Each `number` rounds
        otherwise.

        Raises:
            UsageError: an index is computed in floats.
        """
        salt = derive(seed, "rounding", number) >> 1
        finest = torch.promote_types(self._finest(inputs), torch.float32)
        nudges = partial(_nudges, salt, floor_ulps, are_alike=True)
        with self.usage():
            return self._rounded(inputs, seed, device, nudges, finest)

    def _finest(self, inputs: list[Any]) -> torch.dtype:
        """Returns the type to round results to where the computing type is unknown."""
        is_double = any(isinstance(v, torch.Tensor) and v.dtype is torch.float64 for v in inputs)
        return torch.float64 if is_double else self.native

    def _rounded(
        self,
        inputs: list[Any],
        seed: int,
        device: torch.device,
        nudges: NudgesOf,
        finest: torch.dtype,
    ) -> tuple[torch.Tensor, ...]:
        return self._in_double(inputs, seed, device, nudges(finest))

    def _in_double(
        self,
        inputs: list[Any],
        seed: int,
        device: torch.device,
        nudges: Nudges,
    ) -> tuple[torch.Tensor, ...]:
        call = self.reference(device, double=True)
        with seeded(seed, device):
            result = run_in_double(call, inputs, self.native, nudges=nudges)
        return tensors_of(result)

    def _drawn(
        self, get_inputs: Callable[[], list[Any]], seed: int, device: torch.device
    ) -> list[Any]:
        """Draws inputs on the device, because the CPU would take seconds for a gigabyte. Code that
        insists on the CPU draws there, and its tensors are copied."""
        try:
            with seeded(seed, device), self.usage(), device:
                values = get_inputs()
        except UsageError:
            if device == CPU:
                raise
            with seeded(seed, device), self.usage():
                values = get_inputs()
        return [v.detach().to(device) if isinstance(v, torch.Tensor) else v for v in values]

    @contextmanager
    def usage(self) -> Iterator[None]:
        """Turns exceptions of the reference into `UsageError`, with a deadline in a child
        process."""
        try:
            with supervised.user_code(f"the reference {self.name}"):
                yield
        except KernelwrightError:
            raise
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise UsageError(
                f"{self.name} does not fit into this machine's memory: {error}",
                remedy="give smaller inputs, or use a larger machine",
            ) from error
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"the reference {self.name} fails on its own inputs: "
                f"{type(error).__name__}: {error}",
                remedy="see that it runs by itself first",
            ) from error


InputChange = Callable[[list[Any], int], list[Any]]
"""Makes other inputs of drawn ones; the number is the seed of the draw."""


@dataclass(frozen=True, kw_only=True)
class FunctionTask(Task):
    """A function of its inputs alone: a flat program's `fused_operator`."""

    name: str
    get_inputs: Callable[[], list[Any]]
    function: Callee
    text: str = ""
    entry: str = "fused_operator"
    change: InputChange | None = None
    """Changes drawn inputs, in a variant at other sizes or constants."""

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        drawn = self._drawn(self.get_inputs, seed, device)
        return drawn if self.change is None else self.change(drawn, seed)

    def with_inputs(self, change: InputChange) -> "FunctionTask":
        """Returns the same function with inputs that are changed further."""
        return replace(self, change=chained(self.change, change))

    def reference(self, device: torch.device, *, double: bool = False) -> Callee:  # noqa: ARG002
        return self.function


def chained(first: InputChange | None, second: InputChange) -> InputChange:
    """Returns a change that makes both changes, one after the other."""
    if first is None:
        return second
    return lambda inputs, seed: second(first(inputs, seed), seed)


def _nudges(
    salt: int, ulps: Callable[[torch.dtype], float], dtype: torch.dtype, *, are_alike: bool
) -> Nudges:
    return Nudges(salt, dtype, ulps(dtype), are_alike)
