"""A task: what a candidate has to compute, and the answers it is judged by.

Reference code is the user's and trusted: it runs in the host's process, natively and in fp64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
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
from kernelwright.verify.tasks.init_inputs import init_inputs_text
from kernelwright.verify.tasks.observed import Functions, OperatorNotes, Ties
from kernelwright.verify.tasks.oracle import Nudges, nudged, run_in_double, seeded
from kernelwright.verify.tasks.weights import (
    move_part_of_weights,
    move_weights,
    redraw_constants,
    redraw_weights,
)
from kernelwright.verify.values.compare import floor_ulps, least_ulps
from kernelwright.verify.values.live import Callee, Live, attributes, copied, differs, read, same

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


Arguments = tuple[list[Any], dict[str, Any]]
"""Arguments of a constructor, by position and by keyword."""
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


@dataclass(frozen=True, kw_only=True)
class ModuleTask(Task):
    """A module and its inputs: a file with `Model`, `get_inputs` and `get_init_inputs`."""

    name: str
    get_inputs: Callable[[], list[Any]]
    build: Callable[[], torch.nn.Module]
    """Constructs the module; parameters are drawn from the generator of the default device."""
    text: str
    """Source of the file, for the guest's `get_init_inputs`."""
    get_arguments: Callable[[], Arguments] | None = None
    """The constructor's arguments; None where they cannot vary."""
    build_with: Callable[[list[Any], dict[str, Any]], torch.nn.Module] | None = None
    """Constructs the module from other arguments."""
    arguments: Arguments | None = None
    """The arguments of a variant, in place of the file's."""
    seed: int = 0
    """The seed of the construction."""
    is_redrawn: bool = True
    """Constant parameters and statistics are moved off 1 and 0, which would hide their use."""
    entry: str = "ModelNew"
    change: InputChange | None = None
    """Changes drawn inputs, in a variant at other sizes or constants."""
    _modules: dict[torch.device, torch.nn.Module] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _constructed: dict[torch.device, dict[str, torch.Tensor]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def native(self) -> torch.dtype:
        floats = [p.dtype for p in self._built().parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.float32

    def module(self, device: torch.device) -> torch.nn.Module:
        """Returns the module as at the start. Do not call it: its buffers must not change."""
        if device not in self._modules:
            with seeded(self.seed, device), self.usage(), torch.device(device):
                module = self.build().to(device)
            if self.is_redrawn:
                redraw_constants(module, derive(self.seed, "redraw"))
            self._modules[device] = module
        return self._modules[device]

    @property
    def training(self) -> bool:
        return self._built().training

    def _built(self) -> torch.nn.Module:
        """Returns the module on any device for which it has been built already."""
        return next(iter(self._modules.values()), None) or self.module(CPU)

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        drawn = self._drawn(self.get_inputs, seed, device)
        return drawn if self.change is None else self.change(drawn, seed)

    def reference(self, device: torch.device, *, double: bool = False) -> Callee:
        module = self._copy(device)
        return module.double() if double else module

    def _copy(self, device: torch.device) -> torch.nn.Module:
        """Returns a copy of the module as at the start. A deep copy of a function keeps the parts
        that the function closes over, so a module with such a function is built again."""
        module = self.module(device)
        if not closes_over_parts(module):
            return deepcopy(module)
        with seeded(self.seed, device), self.usage(), torch.device(device):
            other = self.build().to(device)
        other.load_state_dict(module.state_dict())
        entries = entries_of(other)
        with torch.no_grad():  # `state_dict` leaves out buffers that are not persistent
            for name, value in entries_of(module).items():
                entries[name].copy_(value)
        return other.train(module.training)

    def as_constructed(self) -> "ModuleTask":
        """Returns the same task with parameters as the constructor draws them."""
        return replace(self, is_redrawn=False)

    def constructed(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Returns parameters and buffers as the constructor draws them, by state_dict name."""
        if device not in self._constructed:
            self._constructed[device] = self.as_constructed().state(device)
        return self._constructed[device]

    def has_hidden_state(self, device: torch.device) -> bool:
        """Whether a call changes state outside of parameters and buffers: a counter, a cached
        tensor, a list of rows. All but changed attributes shows in the results of a second call."""
        module, inputs = self._copy(device), self.draw(0, device)
        entries = {name: value.clone() for name, value in entries_of(module).items()}
        before = attributes(module)
        first = self._called(module, inputs, device)
        after = attributes(module)
        if any(not same(before.get(path), value) for path, value in after.items()):
            return True
        # The second call may differ by hidden state alone, so all other state is put back.
        with torch.no_grad():
            for name, value in entries_of(module).items():
                value.copy_(entries[name])
        again = self._called(module, inputs, device)
        return len(first) != len(again) or any(map(is_unlike, first, again))

    def _called(
        self, module: torch.nn.Module, inputs: list[Any], device: torch.device
    ) -> tuple[torch.Tensor, ...]:
        with self.usage(), seeded(0, device), torch.no_grad():
            results = tensors_of(module(*tree_map(copied, inputs)))
        # A result may be a view of the state that the next call changes.
        return tuple(map(copied, results))

    def needed(self, names: Sequence[str], device: torch.device) -> str | None:
        """Returns the first of these parameters and buffers that the outputs depend on, if any."""
        inputs = self.draw(0, device)
        own = self.native_answer(inputs, 0, device)
        for name in names:
            other = self._changed(partial(_moved_entry, name=name))
            answer = other.native_answer(inputs, 0, device)
            if any(read([differs(a, b) for a, b in zip(own, answer, strict=True)], device)):
                return name
        return None

    def state(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Returns parameters and buffers at the start, by state_dict name."""
        return entries_of(self.module(device))

    def saved(self, device: torch.device) -> set[str]:
        """Returns names of parameters and buffers in the state_dict. Users give these."""
        return set(self.state(device)) & set(self.module(device).state_dict())

    def init(self) -> dict[str, Any]:
        """Returns what a guest needs to construct the candidate's `ModelNew`, as plain data."""
        own = {"seed": self.seed, "train": self.training}
        if self.arguments is not None:
            return {"arguments": repr(self.arguments), **own}
        return {"init_inputs": init_inputs_text(self.text), **own}

    def with_other_weights(self, seed: int) -> "ModuleTask":
        """Returns the task with parameters and statistics moved by up to 10%, as training does."""
        return self._changed(lambda module: move_weights(module, seed))

    def starting_from(self, module: torch.nn.Module, device: torch.device) -> "ModuleTask":
        """Returns the task that starts from this module's weights, buffers and attributes."""
        other = replace(self)
        other._modules[device] = module
        return other

    def with_part_of_weights_moved(self, seed: int, number: int) -> "ModuleTask":
        """Returns the task with some values of the parameter of this number changed."""
        return self._changed(lambda module: move_part_of_weights(module, seed, number))

    def with_redrawn_weights(
        self, seed: int, *, keeps_signs: bool = False, scale: float = 1.0
    ) -> "ModuleTask":
        """Returns the task with other weights altogether (`weights.redraw_weights`)."""
        return self._changed(
            partial(redraw_weights, seed=seed, keeps_signs=keeps_signs, scale=scale)
        )

    def with_arguments(self, arguments: Arguments) -> "ModuleTask":
        """Returns the task with these arguments of the constructor."""
        if self.build_with is None:
            raise ValueError("this task's constructor takes no other arguments")
        build = partial(self.build_with, *arguments)
        other = replace(self, build=build, arguments=arguments)
        # The constructor may leave the module in another mode than this task has.
        for device in self._modules:
            other.module(device).train(self.training)
        return other

    def with_inputs(self, change: InputChange) -> "ModuleTask":
        """Returns the same module with inputs that are changed further."""
        other = replace(self, change=chained(self.change, change))
        other._modules.update(self._modules)  # safe to share: no call ever changes these modules
        return other

    def in_other_mode(self) -> "ModuleTask":
        """Returns the task in eval mode if this one is in train mode, and the other way round."""
        return self._changed(lambda module: module.train(not module.training))

    def _changed(self, change: Callable[[torch.nn.Module], torch.nn.Module]) -> "ModuleTask":
        changed = replace(self)
        for device in self._modules:
            changed._modules[device] = change(self._copy(device))
        return changed


def is_unlike(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two results differ by more than another order of summation makes."""
    if left.shape != right.shape or not left.is_floating_point():
        return left.shape != right.shape or not torch.equal(left, right)
    return not torch.allclose(left, right, rtol=1e-3, atol=1e-3, equal_nan=True)


def closes_over_parts(module: torch.nn.Module) -> bool:
    """Whether a function with a closure is an attribute of the module or of a submodule."""
    values = (value for part in module.modules() for value in vars(part).values())
    return any(isinstance(value, FunctionType) and value.__closure__ for value in values)


def entries_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns parameters and buffers by state_dict name; tied ones under each of their names."""
    entries = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return {name: tensor.detach() for name, tensor in entries}


def _moved_entry(module: torch.nn.Module, *, name: str) -> torch.nn.Module:
    """Gives the module other values in one parameter or buffer."""
    entry = entries_of(module)[name]
    with torch.no_grad():
        entry.copy_(~entry if entry.dtype is torch.bool else 1.5 * entry + 1)  # moves 0 too
    return module


def chained(first: InputChange | None, second: InputChange) -> InputChange:
    """Returns a change that makes both changes, one after the other."""
    if first is None:
        return second
    return lambda inputs, seed: second(first(inputs, seed), seed)


def _nudges(
    salt: int, ulps: Callable[[torch.dtype], float], dtype: torch.dtype, *, are_alike: bool
) -> Nudges:
    return Nudges(salt, dtype, ulps(dtype), are_alike)
