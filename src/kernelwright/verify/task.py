"""A task: what a candidate has to compute, and the answers it is judged by.

Reference code is the user's and trusted: it runs in the host's process, natively and in fp64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.core.seed import derive
from kernelwright.programs.families import apply
from kernelwright.sandbox.tensors import flatten
from kernelwright.verify.compare import Expected, floor_ulps, least_ulps
from kernelwright.verify.oracle import Nudges, nudged, run_in_double, seeded
from kernelwright.verify.weights import move_weights, redraw_constants

CPU, META = torch.device("cpu"), torch.device("meta")

Callee = Callable[..., object]
NudgesOf = Callable[[torch.dtype], Nudges]
"""By the type of a result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the reference gives for one set of inputs."""

    outputs: Expected
    structure: str
    """The returned value's containers as text (sandbox.tensors.flatten)."""
    state: dict[str, Expected] = field(default_factory=dict)
    """Buffers that the call changes, by state_dict name."""
    changed_inputs: frozenset[int] = frozenset()
    aliases: frozenset[tuple[int, int]] = frozenset()
    """(output, input) pairs that share memory."""
    is_finite: bool = True
    """The fp64 outputs are, and the native ones have not all overflowed in every element."""

    @property
    def num_bytes(self) -> int:
        states = (self.outputs, *self.state.values())
        groups = [group for s in states for group in (s.native, s.oracle, *s.tolerated)]
        return sum(tensor.nbytes for group in groups for tensor in group)


class Task(ABC):
    """One computation with its inputs. Make one with `load_task` or `program_task`."""

    name: str
    entry: str
    """What the candidate must define: "fused_operator" or "ModelNew"."""
    text: str
    """Source of the task's file; "" where there is none."""

    @abstractmethod
    def draw(self, seed: int, device: torch.device) -> list[Any]:
        """Fresh inputs, drawn as the task's author says: tensors and plain values."""

    @abstractmethod
    def reference(self, device: torch.device, *, double: bool = False) -> Callee:
        """The reference, its state as at the start; with fp64 parameters where `double`."""

    def example(self, device: torch.device) -> list[Any]:
        """Inputs to compile for: their values do not matter, they may be on the meta device."""
        return self.draw(0, device)

    @property
    def native(self) -> torch.dtype:
        """Floating-point type that random draws inside the reference are made in."""
        return torch.float32

    def inputs(self, seed: int, family: str, device: torch.device) -> list[Any]:
        """Inputs of one case: drawn under `seed`, then changed as the family says."""
        return list(apply(family, self.draw(seed, device), derive(seed, "family", family)))

    def expected(
        self, inputs: list[Any], seed: int, device: torch.device, *, tf32: bool = False
    ) -> Answer:
        """The reference's native and fp64 answers for these inputs, under one seed.

        Raises:
            UsageError: the reference itself fails on them.
        """
        with self._usage():
            call = self.reference(device)
            own = tree_map(_copy, inputs)
            before = _buffers(call, copy=True)
            with seeded(seed, device), torch.no_grad():
                result = call(*own)
            native, after = tensors_of(result), _buffers(call)
            aliases = frozenset(_aliases(native, own))
            flags = [
                *(_differs(a, b) for a, b in zip(inputs, own, strict=True)),
                *(_differs(value, after[n]) for n, value in before.items()),
            ]
            structure, num_inputs = flatten(result)[0], len(own)
            del own  # gigabytes, that fp64 has a use for
            oracle, state = self._in_double(inputs, seed, device)
            rounded = [self._in_double(inputs, seed, device, tf32=True)[0]] if tf32 else []
        finite = torch.stack([output.isfinite().all().to(device) for output in oracle]).all()
        tells = [output.isfinite().any().to(device) for output in native if output.numel()]
        finite &= torch.stack([*tells, torch.tensor(not tells, device=device)]).any()
        *differ, is_finite = _read([*flags, finite], device)
        changed = [n for n, is_other in zip(before, differ[num_inputs:], strict=True) if is_other]
        return Answer(
            outputs=Expected(native=native, oracle=oracle, tolerated=tuple(rounded)),
            structure=structure,
            state={n: Expected(native=(after[n],), oracle=(state[n],)) for n in changed},
            changed_inputs=frozenset(
                i for i, is_other in enumerate(differ[:num_inputs]) if is_other
            ),
            aliases=aliases,
            is_finite=is_finite,
        )

    def native_answer(
        self, inputs: list[Any], seed: int, device: torch.device
    ) -> tuple[torch.Tensor, ...]:
        """What the reference gives for these inputs, in its own types.

        Raises:
            UsageError: it fails on them.
        """
        call = self.reference(device)
        with self._usage(), seeded(seed, device), torch.no_grad():
            return tensors_of(call(*tree_map(_copy, inputs)))

    def is_random(self, inputs: list[Any], device: torch.device) -> bool:
        """The reference draws random numbers: it answers otherwise under another seed."""
        answers = [self.native_answer(inputs, seed, device) for seed in (0, 1)]
        return any(_read([_differs(a, b) for a, b in zip(*answers, strict=True)], device))

    def nudged(
        self, inputs: list[Any], seed: int, device: torch.device, number: int = 0
    ) -> tuple[torch.Tensor, ...]:
        """The fp64 answer when each input moves by at most an ulp, as computing with it in fp32 may
        move it, and what each operator makes by at most one of its type (half of one where that
        has 16 bits): the least error that any computation must be allowed. Each `number` moves
        them otherwise."""
        salt = derive(seed, "nudge", number) >> 1

        def moved(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            computed = torch.promote_types(value.dtype, torch.float32)
            return nudged(value.double(), Nudges(salt, computed))

        with self._usage():
            given, finest = [moved(value) for value in inputs], self._finest(inputs)
            nudges = partial(_nudges, salt, least_ulps, are_alike=False)
            return self._rounded(given, seed, device, nudges, finest)

    def rounded_otherwise(
        self, inputs: list[Any], seed: int, device: torch.device, number: int = 0
    ) -> tuple[torch.Tensor, ...]:
        """The fp64 answer when what each operator makes is off by as much as any computation may
        be (`floor_ulps`), unless its type holds it. Inputs stay: what they decide by themselves,
        they decide alike; and equal values stay equal. Each `number` rounds otherwise.

        Raises:
            UsageError: an index is computed in floats.
        """
        salt = derive(seed, "rounding", number) >> 1
        finest = torch.promote_types(self._finest(inputs), torch.float32)
        nudges = partial(_nudges, salt, floor_ulps, are_alike=True)
        with self._usage():
            return self._rounded(inputs, seed, device, nudges, finest)

    def _finest(self, inputs: list[Any]) -> torch.dtype:
        """The type to round to, where it is not known what computes in which."""
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
        return self._in_double(inputs, seed, device, nudges=nudges(finest))[0]

    def _in_double(
        self,
        inputs: list[Any],
        seed: int,
        device: torch.device,
        *,
        tf32: bool = False,
        nudges: Nudges | None = None,
    ) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        call = self.reference(device, double=True)
        with seeded(seed, device):
            result = run_in_double(call, inputs, self.native, tf32=tf32, nudges=nudges)
        return tensors_of(result), _buffers(call)

    def _drawn(
        self, get_inputs: Callable[[], list[Any]], seed: int, device: torch.device
    ) -> list[Any]:
        """Inputs made where they are needed: the CPU would take seconds for a gigabyte. Code that
        insists on the CPU is given it."""
        try:
            with seeded(seed, device), self._usage(), device:
                values = get_inputs()
        except UsageError:
            if device == CPU:
                raise
            with seeded(seed, device), self._usage():
                values = get_inputs()
        return [v.detach().to(device) if isinstance(v, torch.Tensor) else v for v in values]

    @contextmanager
    def _usage(self) -> Iterator[None]:
        """What the reference raises is the user's to mend."""
        try:
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


@dataclass(frozen=True, kw_only=True)
class FunctionTask(Task):
    """A function of its inputs alone: a flat program's `fused_operator`."""

    name: str
    get_inputs: Callable[[], list[Any]]
    function: Callee
    text: str = ""
    entry: str = "fused_operator"

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        return self._drawn(self.get_inputs, seed, device)

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
    seed: int = 0
    """Of the construction."""
    is_redrawn: bool = True
    """Constant parameters and statistics are moved off 1 and 0, which would hide their use."""
    entry: str = "ModelNew"
    _modules: dict[torch.device, torch.nn.Module] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    @property
    def native(self) -> torch.dtype:
        floats = [p.dtype for p in self._built().parameters() if p.is_floating_point()]
        return floats[0] if floats else torch.float32

    def module(self, device: torch.device) -> torch.nn.Module:
        """The module as at the start; do not call it, its buffers must not change."""
        if device not in self._modules:
            with seeded(self.seed, device), self._usage(), torch.device(device):
                module = self.build().to(device)
            if self.is_redrawn:
                redraw_constants(module, derive(self.seed, "redraw"))
            self._modules[device] = module
        return self._modules[device]

    @property
    def training(self) -> bool:
        return self._built().training

    def _built(self) -> torch.nn.Module:
        """The module on whichever device it has been built for already."""
        return next(iter(self._modules.values()), None) or self.module(CPU)

    def draw(self, seed: int, device: torch.device) -> list[Any]:
        return self._drawn(self.get_inputs, seed, device)

    def reference(self, device: torch.device, *, double: bool = False) -> Callee:
        module = self._copy(device)
        return module.double() if double else module

    def _copy(self, device: torch.device) -> torch.nn.Module:
        """The module as at the start. Functions that it holds close over parts of the module they
        were made in, and copying would leave them there: such a module is built again."""
        module = self.module(device)
        values = (value for part in module.modules() for value in vars(part).values())
        if not any(isinstance(value, FunctionType) for value in values):
            return deepcopy(module)
        with seeded(self.seed, device), self._usage(), torch.device(device):
            other = self.build().to(device)
        other.load_state_dict(module.state_dict())
        return other.train(module.training)

    def state(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Parameters and buffers at the start, by state_dict name."""
        module = self.module(device)
        entries = [
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        ]
        return {name: tensor.detach() for name, tensor in entries}

    def init(self) -> dict[str, Any]:
        """How a guest constructs the candidate's `ModelNew`."""
        return {"reference": self.text, "seed": self.seed, "train": self.training}

    def as_constructed(self) -> "ModuleTask":
        """The same task with parameters as the seed makes them."""
        return replace(self, is_redrawn=False)

    def with_other_weights(self, seed: int) -> "ModuleTask":
        """The same task with every parameter and statistic moved by up to 10%: an update, as a
        step of training makes it."""
        return self._changed(lambda module: move_weights(module, seed))

    def in_other_mode(self) -> "ModuleTask":
        """The same task in eval mode where this one is in train mode, and the other way round."""
        return self._changed(lambda module: module.train(not module.training))

    def _changed(self, change: Callable[[torch.nn.Module], torch.nn.Module]) -> "ModuleTask":
        changed = replace(self)
        for device in self._modules:
            changed._modules[device] = change(self._copy(device))
        return changed


def _nudges(
    salt: int, ulps: Callable[[torch.dtype], float], dtype: torch.dtype, *, are_alike: bool
) -> Nudges:
    return Nudges(salt, dtype, ulps(dtype), are_alike)


def tensors_of(result: object) -> tuple[torch.Tensor, ...]:
    """The tensors of a returned value, in order.

    Raises:
        UsageError: there are none.
    """
    _, leaves = flatten(result)
    tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
    if not tensors:
        raise UsageError(
            f"the reference returns {type(result).__name__}, not tensors",
            remedy="return a tensor, or a list, tuple or dict of tensors",
        )
    return tensors


def _copy(value: Any) -> Any:
    """Values and strides, in memory of its own."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _differs(left: Any, right: Any) -> torch.Tensor:
    """Whether two tensors do, NaN being the same as NaN, as a flag on their device. What is no
    tensor never does."""
    if not isinstance(left, torch.Tensor):
        return torch.tensor(False)
    if left.shape != right.shape:
        return torch.tensor(True)
    return torch.ne(left.nan_to_num(0.5), right.nan_to_num(0.5)).any()


def _read(flags: list[torch.Tensor], device: torch.device) -> list[bool]:
    """Their values, waited for once: beside many other judges of a GPU, waiting takes the time."""
    found: list[bool] = torch.stack([flag.to(device) for flag in flags]).tolist()
    return found


def _buffers(call: Callee, *, copy: bool = False) -> dict[str, torch.Tensor]:
    if not isinstance(call, torch.nn.Module):
        return {}
    return {name: _copy(b) if copy else b.detach() for name, b in call.named_buffers()}


def _aliases(outputs: tuple[torch.Tensor, ...], inputs: list[Any]) -> Iterator[tuple[int, int]]:
    for i, output in enumerate(outputs):
        for j, given in enumerate(inputs):
            if isinstance(given, torch.Tensor):
                mine, theirs = output.untyped_storage(), given.untyped_storage()
                if mine.data_ptr() == theirs.data_ptr() and mine.nbytes():
                    yield i, j
