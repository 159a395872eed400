"""The output of `kernelwright optimize --export`: the package of an `optimized.py`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.delivered import OURS
from kernelwright.core.errors import UsageError
from kernelwright.deploy.package import package
from kernelwright.search.arguments import Call
from kernelwright.search.module.importing import import_file, importable
from kernelwright.search.sizes.requested import shapes_of
from kernelwright.verify.tasks.load import load_factory, load_task
from kernelwright.verify.tasks.module_task import ModuleTask


def export_target(
    spec: str,
    optimized: Path,
    path: Path,
    *,
    form: str,
    device: torch.device,
    training: bool | None = None,
    dynamic: Sequence[str] = (),
) -> None:
    """Write the package of an `optimized.py`, with the weights that the target's code makes.

    Args:
        spec: the target, as of `optimize_target`.
        optimized: what `optimize_target` wrote.
        path: of the package.
        form: of the result record: what optimized.py runs.
        training, dynamic: as of `SearchOptions`.

    Raises:
        UsageError: the target cannot be loaded, PyTorch cannot export the module, or the file
            cannot be written.
    """
    names = import_file(optimized, is_unique=True)
    if hasattr(names, "uncompiled_operator"):
        # Inductor compiles the package anyway.
        vars(names)["compiled_operator"] = names.uncompiled_operator
    module, example = _module(spec, names if form in OURS else None, device, training)
    shapes = shapes_of(dynamic) if dynamic else None
    with importable(names.__name__, vars(names)):
        package(module, example, path, shapes=shapes, name=spec)


def _module(
    spec: str, names: Any, device: torch.device, training: bool | None
) -> tuple[torch.nn.Module, Call]:
    """The optimized module and its example.

    Args:
        names: what optimized.py defines; None: the original.
    """
    if ":" in spec and not spec.endswith(".py"):
        module, args, kwargs = load_factory(spec, training=training)
        return names.attach(module) if names else module, (args, kwargs)
    task = load_task(spec, device, training=training)
    example: Call = (tuple(task.draw(0, device)), {})
    if not isinstance(task, ModuleTask):
        if device.type == "cpu":
            raise UsageError(
                "the kernels of a flat program need a GPU", remedy="export it where a GPU is"
            )
        own = names.fused_operator if names else task.reference(device)
        return _FlatProgram(own), example
    original = task.module(device)
    if not names:
        return original, example
    arguments, keywords = task.get_arguments() if task.get_arguments else ([], {})
    module = names.ModelNew(*arguments, **keywords).to(device).train(original.training)
    module.load_state_dict(original.state_dict())
    return module, example


class _FlatProgram(torch.nn.Module):
    """A flat program."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._function(*inputs)
