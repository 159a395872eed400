"""Times a benchmark task: PyTorch, torch.compile and optimized.py take turns in one process."""

from pathlib import Path

import torch

from kernelwright.search.contest.side_by_side import COMPILE_MODES, CalledContender, TimedContender
from kernelwright.search.contest.side_by_side import side_by_side as time_contenders
from kernelwright.search.module.importing import import_file
from kernelwright.timing.turns import OURS
from kernelwright.verify.tasks.module_task import ModuleTask


def side_by_side(
    task: ModuleTask, optimized: Path | None, *, precision: str, max_autotune: bool = False
) -> TimedContender:
    """Time the contenders on the task's inputs, with a cold L2 cache.

    Args:
        optimized: trusted code, since it is imported here; None: time the baselines alone.
        precision: as of `search.contest.side_by_side.side_by_side`.
        max_autotune: time torch.compile in that mode too; it compiles for minutes.
    """
    device = torch.device("cuda")
    eager = task.reference(device)
    assert isinstance(eager, torch.nn.Module)
    modes = [name for name in COMPILE_MODES if max_autotune or name != "max_autotune"]
    contenders = {
        "eager": CalledContender(eager),
        **{
            name: CalledContender(torch.compile(task.reference(device), mode=COMPILE_MODES[name]))
            for name in modes
        },
    }
    if optimized is not None:
        contenders[OURS] = CalledContender(_model_new(task, optimized, eager, device))
    return time_contenders(
        contenders,
        lambda seed: task.draw(seed, device),
        precision=precision,
        uncompiled=task.reference(device),
    )


def _model_new(
    task: ModuleTask, path: Path, eager: torch.nn.Module, device: torch.device
) -> torch.nn.Module:
    """The file's ModelNew, on the device, with the reference's parameters and training mode."""
    module = import_file(path)
    with torch.device(device):
        arguments = module.get_init_inputs()
        if len(arguments) == 2 and isinstance(arguments[1], dict):
            built: torch.nn.Module = module.ModelNew(*arguments[0], **arguments[1])
        else:
            built = module.ModelNew(*arguments)
    built.load_state_dict(eager.state_dict())
    return built.to(device).train(task.module(device).training)
