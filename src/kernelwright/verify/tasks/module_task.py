"""A module as a task: its construction, its weights and its state."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelwright.core.seed import derive
from kernelwright.verify.tasks.answer import tensors_of
from kernelwright.verify.tasks.init_inputs import init_inputs_text
from kernelwright.verify.tasks.oracle import seeded
from kernelwright.verify.tasks.task import CPU, InputChange, Task, chained
from kernelwright.verify.tasks.weights import (
    entries_of,
    move_part_of_weights,
    move_weights,
    permute_weights,
    redraw_constants,
    redraw_weights,
)
from kernelwright.verify.values.live import Callee, attributes, copied, differs, read, same

Arguments = tuple[list[Any], dict[str, Any]]
"""Arguments of a constructor, by position and by keyword."""


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

    def with_permuted_weights(self, seed: int) -> "ModuleTask":
        """Returns the task with the values of each parameter in another order."""
        return self._changed(lambda module: permute_weights(module, seed))

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


def _moved_entry(module: torch.nn.Module, *, name: str) -> torch.nn.Module:
    """Gives the module other values in one parameter or buffer."""
    entry = entries_of(module)[name]
    with torch.no_grad():
        entry.copy_(~entry if entry.dtype is torch.bool else 1.5 * entry + 1)  # moves 0 too
    return module
