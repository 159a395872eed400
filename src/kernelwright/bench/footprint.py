"""Estimates the GPU memory of a task on the meta device, which allocates none."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.core.errors import UsageError
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import META

KEPT_FACTOR = 4
"""Copies of inputs, parameters and outputs: the native answer's, the guest's own, a timed call's,
and what lies between host and guest."""
CALL_FACTOR = 2.5
"""The memory of one call in multiples of its live tensors: it runs in float64, and comparing needs
some."""
FIXED_BYTES = 2 << 30
"""Workspaces of libraries, and slices that are compared in float64."""


def footprint(spec: str) -> int:
    """Estimated bytes on the device for searching and judging a file with `Model`.

    One call on the meta device gives the sizes of its tensors. If the call needs real values, its
    inputs and parameters alone are counted. Other tasks get the fixed part alone.
    """
    try:
        task = load_task(spec, META)
    except UsageError:
        return FIXED_BYTES  # searching it says why
    if not isinstance(task, ModuleTask):
        return FIXED_BYTES
    outside, alive = _Alive(), _Alive()
    try:
        with torch.no_grad(), META:
            module, inputs = task.build(), task.get_inputs()
            resident = [inputs, list(module.parameters()), list(module.buffers())]
            outside.add(resident)
            alive.add(resident)
            with alive:
                answer = module(*inputs)
            outside.add(answer)
    except Exception:  # whatever a stranger's code does where tensors have no values
        alive.peak_bytes = max(alive.peak_bytes, 2 * outside.peak_bytes)
    return FIXED_BYTES + int(KEPT_FACTOR * outside.peak_bytes + CALL_FACTOR * alive.peak_bytes)


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tracks tensors that are added, or made within this context, and notes the most bytes that
    lived at once in `peak_bytes`. A storage counts once, until it is freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak_bytes = 0

    def add(self, values: Any) -> None:
        """Count the storages of all tensors in nested values, and forget those that are freed."""
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                # A weak reference: counting a tensor must not keep it alive.
                self._storages[storage._cdata] = (
                    StorageWeakRef(storage),  # type: ignore[no-untyped-call]
                    storage.nbytes(),
                )
        self._storages = {
            key: (ref, size)
            for key, (ref, size) in self._storages.items()
            if not ref.expired()  # type: ignore[no-untyped-call]
        }
        alive = sum(size for _, size in self._storages.values())
        self.peak_bytes = max(self.peak_bytes, alive)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **kwargs or {})
        self.add(result)
        return result
