"""How much of a GPU's memory a task takes, found out without any."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.core.errors import UsageError
from kernelwright.verify.load import load_task
from kernelwright.verify.task import ModuleTask

JUDGED_FACTOR = 7
"""Memory that judging takes, as a multiple of inputs, parameters and outputs: they, in float64, in
the guest, and what comparing needs."""
PARTS_FACTOR = 2.5
"""The same, as a multiple of all values of one call."""
FIXED_BYTES = 4 << 30
"""Contexts and workspaces of the processes of one case."""
META = torch.device("meta")


def footprint(spec: str) -> int:
    """Bytes on the device for searching and judging a file with `Model`, from one call on the meta
    device; the fixed part alone where a call needs real values, or for anything else."""
    try:
        task = load_task(spec, META)
    except UsageError:
        return FIXED_BYTES  # searching it says why
    if not isinstance(task, ModuleTask):
        return FIXED_BYTES
    outside, made = _Values(), _Values()
    try:
        with torch.no_grad(), META:
            module, inputs = task.build(), task.get_inputs()
            given = [inputs, list(module.parameters()), list(module.buffers())]
            outside.add(given)
            made.add(given)
            with made:
                outside.add(module(*inputs))
    except Exception:  # whatever a stranger's code does where tensors have no values
        return FIXED_BYTES + JUDGED_FACTOR * outside.num_bytes
    return FIXED_BYTES + max(JUDGED_FACTOR * outside.num_bytes, int(PARTS_FACTOR * made.num_bytes))


class _Values(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Memory of the tensors that it is given, or that are made inside it: each part once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storages: dict[int, torch.UntypedStorage] = {}

    @property
    def num_bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())

    def add(self, values: Any) -> None:
        for value in tree_leaves(values):
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self._storages[storage._cdata] = storage

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
