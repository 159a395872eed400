"""A reference in use: each call starts from the state that the call before left.

The reference runs twice, natively and in float64. Both copies make the same calls and get the same
weights.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Self

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernelwright.sandbox.shared.tensors import flatten
from kernelwright.verify.tasks.answer import ReferenceAnswer, tensors_of
from kernelwright.verify.tasks.oracle import called_in_double, doubled, seeded
from kernelwright.verify.tasks.weights import entries_of
from kernelwright.verify.values.compare import Expected

Callee = Callable[..., object]
State = dict[str, torch.Tensor]

COPIED_BYTES = 1 << 28
"""Where parameters and buffers have more bytes together, large ones are not copied, and a change by
the call is not seen."""
_PLAIN = (bool, int, float, str)


class Live:
    """One reference with its state.

    Args:
        native: the reference in its own types.
        double: the reference with parameters in float64.
        rounded: like `double`, for the policy `tf32`: products see their factors cut to TF32.
        draws: the type in which the reference draws random numbers.
    """

    def __init__(
        self,
        native: Callee,
        double: Callee,
        device: torch.device,
        draws: torch.dtype,
        rounded: Callee | None = None,
    ) -> None:
        self._native, self._double, self._rounded = native, double, rounded
        self._device, self._draws = device, draws

    def answer(self, inputs: list[Any], seed: int) -> ReferenceAnswer:
        """Call the reference on copies of the inputs; its state stays as the call left it.

        Args:
            seed: seed of the generators that the call may draw from.

        Returns:
            Outputs, and every change of state, attributes and inputs that the call made.
        """
        own = tree_map(copied, inputs)
        before, plain_before = _copy_of(_state(self._native)), attributes(self._native)
        versions = _versions(enumerate(own)) | _versions(_state(self._native).items())
        with seeded(seed, self._device), torch.no_grad():
            result = self._native(*own)
        native, after = tensors_of(result), _state(self._native)
        now = _versions(enumerate(own)) | _versions(after.items())
        written = {key for key, version in versions.items() if now.get(key) != version}
        # Flags stay on the device, so that `read` waits for the GPU only once.
        flags = [differs(a, b) for a, b in zip(inputs, own, strict=True)]
        flags += [differs(value, after[name]) for name, value in before.items()]
        aliases, shared = frozenset(_aliases(native, own)), frozenset(_shared(native))
        state_shared = frozenset(_held(native, after))
        structure = flatten(result)[0]
        left = {i: copied(value) for i, value in enumerate(own) if isinstance(value, torch.Tensor)}
        del own  # frees gigabytes before the float64 copies are made
        oracle, left_double = self._in_double(self._double, inputs, seed)
        tolerated: tuple[tuple[torch.Tensor, ...], ...] = ()
        if self._rounded is not None:
            tolerated = (self._in_double(self._rounded, inputs, seed, tf32=True)[0],)
        *changes, is_finite = read([*flags, _any_finite(native, oracle)], self._device)
        # Versions show a write in place that leaves equal values: a kernel may round there.
        changed_inputs = {i for i in range(len(inputs)) if changes[i] or i in written}
        changed = [
            name
            for name, is_other in zip(before, changes[len(inputs) :], strict=True)
            if is_other or name in written
        ]
        double_after = _state(self._double)
        return ReferenceAnswer(
            outputs=Expected(native=native, oracle=oracle, tolerated=tolerated),
            structure=structure,
            state={
                n: Expected(native=(copied(after[n]),), oracle=(copied(double_after[n]),))
                for n in changed
            },
            attributes=_changes(plain_before, attributes(self._native)),
            inputs={
                i: Expected(native=(left[i],), oracle=(left_double[i],))
                for i in sorted(changed_inputs)
            },
            aliases=aliases,
            shared=shared,
            held=state_shared,
            is_finite=is_finite,
        )

    def _in_double(
        self, call: Callee, inputs: list[Any], seed: int, *, tf32: bool = False
    ) -> tuple[tuple[torch.Tensor, ...], list[Any]]:
        """Returns the fp64 outputs, and the fp64 inputs as the call left them."""
        own = doubled(inputs)
        with seeded(seed, self._device):
            result = called_in_double(call, own, self._draws, tf32=tf32)
        return tensors_of(result), own

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Copy values into the parameters and buffers of these names."""
        for call in self._calls():
            entries = _state(call)
            with torch.no_grad():
                for name, value in state.items():
                    entries[name].copy_(value)

    def module_now(self) -> torch.nn.Module | None:
        """A copy of the native module with the state that the last call left. None for functions,
        for modules of more than `COPIED_BYTES`, and for modules that cannot be copied."""
        module = self._native
        if not isinstance(module, torch.nn.Module):
            return None
        if sum(tensor.nbytes for tensor in _state(module).values()) > COPIED_BYTES:
            return None
        try:
            return deepcopy(module)
        except Exception:  # a call may leave a generator, a lock or a stream in the module
            return None

    def duplicate(self) -> Self:
        """A deep copy, with a state of its own."""
        rounded = None if self._rounded is None else deepcopy(self._rounded)
        native, double = deepcopy(self._native), deepcopy(self._double)
        return type(self)(native, double, self._device, self._draws, rounded)

    def _calls(self) -> Iterator[Callee]:
        yield from (self._native, self._double)
        if self._rounded is not None:
            yield self._rounded


def _versions(values: Iterable[tuple[Any, Any]]) -> dict[Any, int]:
    """Returns the version counter of each tensor, by its key. PyTorch counts writes in place."""
    return {key: value._version for key, value in values if isinstance(value, torch.Tensor)}


def _state(call: Callee) -> State:
    """Returns parameters and buffers by name, also under each name of a tied one. A plain function
    has none."""
    return entries_of(call) if isinstance(call, torch.nn.Module) else {}


def _copy_of(state: State) -> State:
    """Returns copies of all entries. Where the entries exceed `COPIED_BYTES` together, those above
    an equal share of these bytes are left out."""
    num_bytes = sum(tensor.nbytes for tensor in state.values())
    return {
        name: copied(tensor)
        for name, tensor in state.items()
        if num_bytes <= COPIED_BYTES or tensor.nbytes <= COPIED_BYTES // len(state)
    }


def attributes(call: Callee) -> dict[str, Any]:
    """Returns plain attributes of a module and its submodules by path.

    Plain are numbers, strings, None, and tensors that are neither parameters nor buffers. A plain
    function has none.
    """
    if not isinstance(call, torch.nn.Module):
        return {}
    values: dict[str, Any] = {}
    for prefix, part in call.named_modules():
        for name, value in vars(part).items():
            path = f"{prefix}.{name}".removeprefix(".")
            # `training` is in this set too, but has no underscore: a call may change the mode.
            if name.startswith("_") and name in _OF_EVERY_MODULE:
                continue
            if isinstance(value, _PLAIN) or value is None:
                values[path] = value
            elif isinstance(value, torch.Tensor):
                values[path] = value.detach().clone()
    return values


def num_tensors(module: torch.nn.Module) -> int:
    """Returns the number of tensors in plain attributes of a module and its submodules, also in
    lists and dicts."""
    leaves = (
        leaf
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in _OF_EVERY_MODULE
        for leaf in tree_leaves(value)
    )
    return sum(isinstance(leaf, torch.Tensor) for leaf in leaves)


# PyTorch gives every module these attributes: `_parameters`, `_buffers`, hooks.
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes that a call changed or added, with their new values."""
    return {path: value for path, value in after.items() if not same(before.get(path), value)}


def same(left: Any, right: Any) -> bool:
    """Whether two attributes are equal; NaN equals NaN."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.shape == right.shape and not bool(differs(left, right))
    return type(left) is type(right) and (left == right or left != left)


def copied(value: Any) -> Any:
    """A copy with the same values and strides in memory of its own; other values as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    # Sparse tensors have no strides. Elements of expanded tensors share memory, which a copy
    # cannot.
    if value.is_contiguous() or value.layout is not torch.strided or 0 in value.stride():
        return value.clone()
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return copy.copy_(value)  # clone() would close gaps between rows: other strides


def differs(left: Any, right: Any) -> torch.Tensor:
    """Whether two tensors differ, as a flag on their device; NaN equals NaN. Values that are no
    tensors never differ."""
    if not isinstance(left, torch.Tensor):
        return torch.tensor(False)
    if left.shape != right.shape:
        return torch.tensor(True)
    # NaN becomes an ordinary number, because NaN != NaN would report a change of equal tensors.
    return torch.ne(left.nan_to_num(0.5), right.nan_to_num(0.5)).any()


def read(flags: list[torch.Tensor], device: torch.device) -> list[bool]:
    """Returns the values of the flags, with a single wait for the GPU. Beside other judges, waits
    take the most time."""
    values: list[bool] = torch.stack([flag.to(device) for flag in flags]).tolist()
    return values


def _any_finite(native: tuple[torch.Tensor, ...], oracle: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Whether some output has finite elements, natively and in float64. True if no output has
    elements."""
    pairs = [(n, o) for n, o in zip(native, oracle, strict=True) if n.numel() and o.numel()]
    flags = [(n.isfinite().any() & o.isfinite().any().to(n.device)) for n, o in pairs]
    return torch.stack(flags).any() if flags else torch.tensor(True)


def _aliases(outputs: tuple[torch.Tensor, ...], inputs: list[Any]) -> Iterator[tuple[int, int]]:
    """Yields (output, input) numbers of pairs that share memory."""
    for i, output in enumerate(outputs):
        for j, value in enumerate(inputs):
            if isinstance(value, torch.Tensor) and _is_shared(output, value):
                yield i, j


def _shared(outputs: tuple[torch.Tensor, ...]) -> Iterator[tuple[int, int]]:
    """Yields pairs of outputs that share memory, the smaller number first."""
    for i, output in enumerate(outputs):
        for j in range(i):
            if _is_shared(output, outputs[j]):
                yield j, i


def _held(outputs: tuple[torch.Tensor, ...], state: State) -> Iterator[int]:
    """Yields the numbers of outputs that share memory with a parameter or buffer."""
    for i, output in enumerate(outputs):
        if any(_is_shared(output, tensor) for tensor in state.values()):
            yield i


def _is_shared(left: torch.Tensor, right: torch.Tensor) -> bool:
    # Storages of no bytes all have the address 0.
    storage, other = left.untyped_storage(), right.untyped_storage()
    return storage.data_ptr() == other.data_ptr() and storage.nbytes() > 0
