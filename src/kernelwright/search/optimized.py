"""The module that `kernelwright.optimize` returns: called, shown, copied and pickled."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.programs.capture import structures
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.search.contest.captured import replay
from kernelwright.search.module.importing import Compute, imported_function
from kernelwright.search.sizes.signature import Signature
from kernelwright.search.telling.summary import FragmentReport, headline

REPLACED = "_forward_before_optimization"
"""Attribute of an optimized module: the `forward` that was replaced on the original instance."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivery:
    """The code that an optimized module computes with. The modules of one class share a
    delivery."""

    kind: type[torch.nn.Module]
    """The user's class."""
    lowered: Lowered
    source: str | None
    """The text of `fused_operator` and its kernels; None: the original forward runs."""
    signature: Signature
    """The signature of the calls that the source computes."""
    is_training: bool
    """The mode in which the source computes what the original does."""
    on_gpu: bool
    """Inputs of those calls are on a GPU."""
    result: Record
    """The result record of the search, with what a CUDA graph saves under "graph"."""
    fragments: tuple[FragmentReport, ...]
    environment: Record
    """The versions and the GPU that the search had."""

    @cached_property
    def compute(self) -> Compute | None:
        """The function in the source."""
        return None if self.source is None else imported_function(self.source)

    @cached_property
    def module_class(self) -> type[torch.nn.Module]:
        """The class of modules that compute with this."""
        name = f"Optimized{self.kind.__name__}"
        members: dict[str, Any] = {"_kernelwright_delivery": self}
        # A class with its own view in notebooks keeps this view.
        if not hasattr(self.kind, "_repr_html_"):
            members["_repr_html_"] = _html
        return type(name, (_Optimized, self.kind), members)

    def call(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of `module(*args, **kwargs)`.

        Raises:
            RuntimeError: gradients are wanted.
        """
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = tensors_of(leaves)
        # Kernels have no backward: results without a history would silently train nothing.
        if torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*tensors, *module.parameters())
        ):
            raise RuntimeError(
                f"{self.kind.__name__} was optimized for inference only: call it under "
                "torch.no_grad(), or keep the original module for training"
            )
        compute, is_other_mode = self.compute, module.training != self.is_training
        if compute is None or not self.on_gpu or is_other_mode or not self._serves(leaves, spec):
            # The instance may have had a forward of its own, which goes before that of its class.
            replaced = vars(module).get(REPLACED)
            if replaced is not None:
                return replaced(*args, **kwargs)
            return self.kind.forward(module, *args, **kwargs)

        def run(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
            left = iter(tensors)
            values = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            inputs = self.lowered.gather(module, *pytree.tree_unflatten(values, spec))
            results = self.lowered.separated(compute(*inputs))
            self.lowered.store(module, results)
            return results

        is_graph = self.result["graph"] is not None
        results = replay(module, tensors, run) if is_graph else run(module, tensors)
        return self.lowered.rebuild(results, args, kwargs)

    def _serves(self, leaves: list[Any], spec: pytree.TreeSpec) -> bool:
        """Whether the source computes a call.

        Warns at calls whose sizes are out of range, because the user expects kernels there.
        """
        if self.signature.accepts(leaves, spec):
            return True
        if self.signature.differs_in_size_alone(leaves, spec):
            warnings.warn(
                f"{self.kind.__name__} was optimized for {self.signature}: calls with other sizes"
                " run the original forward",
                stacklevel=2,
            )
        return False

    def __getstate__(self) -> dict[str, Any]:
        """All but what is made on demand: functions and classes of their own are not pickled."""
        state = vars(self).copy()
        for name in ("compute", "module_class"):
            state.pop(name, None)
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> "Delivery":
        return self  # nothing in it changes


class _Optimized(torch.nn.Module):
    """The first base of an optimized module's class; the user's class is the second."""

    _kernelwright_delivery: Delivery

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._kernelwright_delivery.call(self, args, kwargs)

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        state = self.__getstate__()  # type: ignore[no-untyped-call]
        return _restored, (self._kernelwright_delivery,), state

    def __repr__(self) -> str:
        return f"{super().__repr__()}  # {headline(self._kernelwright_delivery.result)}"


def attach(module: torch.nn.Module, delivery: Delivery) -> torch.nn.Module:
    """A shallow copy of the module, of a subclass of its class, that computes with the delivery."""
    # Shallow, so that parameters and buffers are those of the original.
    optimized = copy.copy(module)
    optimized.__class__ = delivery.module_class
    if "forward" in vars(module):  # would hide the class's forward
        vars(optimized)[REPLACED] = vars(optimized).pop("forward")
    vars(optimized)["optimization"] = delivery.result
    return optimized


def _restored(delivery: Delivery) -> torch.nn.Module:
    """An optimized module without its state, as pickle makes objects."""
    # A process that unpickles a module has not registered the containers of its inputs and results.
    structures.register_kinds(delivery.lowered.in_spec, delivery.lowered.out_spec)
    return delivery.module_class.__new__(delivery.module_class)


def delivery_of(module: torch.nn.Module) -> Delivery:
    """The code that an optimized module computes with.

    Raises:
        UsageError: `kernelwright.optimize` did not return the module.
    """
    delivery = getattr(type(module), "_kernelwright_delivery", None)
    if isinstance(delivery, Delivery):
        return delivery
    raise UsageError(
        f"{type(module).__name__} is not an optimized module",
        remedy="give a module that kernelwright.optimize returned",
    )


def source(module: torch.nn.Module) -> str:
    """The text of the kernels, and of the function that calls them; "" where the original runs.

    Raises:
        UsageError: `kernelwright.optimize` did not return the module.
    """
    return delivery_of(module).source or ""


def summary(module: torch.nn.Module) -> str:
    """The code that runs for an optimized module, the reasons, and the time that each part saves,
    as lines of text.

    Raises:
        UsageError: `kernelwright.optimize` did not return the module.
    """
    delivery = delivery_of(module)
    lines = [f"{delivery.kind.__name__}: {headline(delivery.result)}"]
    lines.append(f"  why: {delivery.result['outcome']['message']}")
    return "\n".join([*lines, *(f"  {fragment}" for fragment in delivery.fragments)])


def _html(module: torch.nn.Module) -> str:
    """For notebooks: the summary above the module."""
    return f"<pre>{escape(summary(module))}\n\n{escape(repr(module))}</pre>"


def tensors_of(leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
