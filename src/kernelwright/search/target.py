"""The target of `optimize`: a program to search, a task to judge by, a file to write."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from kernelwright.core.errors import UsageError
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import Lowered, lower
from kernelwright.programs.program import Program
from kernelwright.programs.sizes.fit import Sizes
from kernelwright.programs.sizes.program import SizedProgram
from kernelwright.programs.text import parse, to_text
from kernelwright.search.arguments import Call, warn_of_weights
from kernelwright.search.contest.graphed import can_be_graphed
from kernelwright.search.module import emit
from kernelwright.search.module.guards import LoweredModule
from kernelwright.search.module.original import (
    factory_compiled,
    factory_original,
    flat_compiled,
    model_compiled,
    model_original,
)
from kernelwright.search.sizes.lowering import SizedLowered, lower_at_sizes, sizes_text
from kernelwright.search.sizes.requested import Requested, requested, shapes_of
from kernelwright.timing.stages import stage
from kernelwright.verify.tasks.load import factory_task, load_factory, load_task
from kernelwright.verify.tasks.lowered import lower_model
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask, program_task
from kernelwright.verify.tasks.task import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    name: str
    program: Program
    task: Task
    """The whole, as a stranger would verify it: the original against optimized.py."""
    write: Callable[[str], str]
    """Text of `fused_operator` and its kernels -> text of optimized.py."""
    original: str
    """Text of optimized.py where no kernel is kept: the original module."""
    compiled: Callable[..., str]
    """The same with the original inside torch.compile; takes `moves_layouts`, as `emit.compiled`,
    and `is_graph`, for CUDA graphs."""
    sized: SizedProgram | None = None
    """The program at several sizes, where sizes vary."""
    elsewhere: Mapping[str, Task] = field(default_factory=dict)
    """The whole at other sizes: "batch 3" -> its task."""
    write_graphed: Callable[[str], str] | None = None
    """The same, of an optimized.py that replays all of it as a CUDA graph; None where it cannot,
    and where the task has no module whose tensors stay where they are."""


@stage("load and lower")
def load_target(
    spec: str,
    device: torch.device,
    *,
    training: bool | None = None,
    falls_back: bool = True,
    dynamic: Sequence[str] = (),
    sized: SizedProgram | None = None,
) -> Target:
    """Loads a KernelBench-format file, a flat program file, or "package.module:factory".

    Args:
        training: as of `load_task`.
        falls_back: optimized.py has the original forward for calls that the kernels do not compute.
        dynamic: sizes that vary, as of `sizes.requested.shapes_of`.
        sized: a flat program at several sizes.

    Raises:
        UsageError: it cannot be loaded or captured.
    """
    path = Path(spec)
    if ":" in spec and path.suffix != ".py":
        return _factory(spec, training, falls_back, dynamic)
    task = load_task(spec, device, training=training)
    if isinstance(task, ModuleTask):
        return _model(path, task, device, falls_back, dynamic)
    if isinstance(task, ProgramTask):
        if dynamic:
            raise UsageError(
                "a flat program has no sizes that vary",
                file=spec,
                remedy="write it as a Model with get_inputs and get_init_inputs",
            )
        return _flat(path, task, sized)
    raise _not_flat(task.text, spec)


def _not_flat(text: str, file: str) -> UsageError:
    """The error for a text that is Python, but no flat program: its first line that is neither."""
    message, line, remedy = "the file is no flat program", None, ""
    try:
        parse(text, file)
    except UsageError as error:
        message, line, remedy = f"{message}: {error.message}", error.line, f"{error.remedy}; "
    return UsageError(
        message,
        file=file,
        line=line,
        remedy=f"{remedy}or write a Model with get_inputs and get_init_inputs",
    )


def _flat(path: Path, task: ProgramTask, sized: SizedProgram | None) -> Target:
    text = path.read_text(encoding="utf-8")
    compiled = text
    if sized is not None:
        # torch.compile must serve all sizes, so attributes that depend on sizes are expressions
        # here.
        compiled = emit.flat_file(text, compose(sized.spelled, []).source)
    return Target(
        name=path.name,
        program=task.program,
        task=task,
        write=lambda composed: emit.flat_file(text, composed),
        original=text,
        compiled=partial(flat_compiled, compiled, is_sized=sized is not None),
        sized=sized,
        elsewhere={} if sized is None else _programs_elsewhere(path.name, sized.elsewhere),
    )


def _programs_elsewhere(name: str, programs: Iterable[tuple[Sizes, Program]]) -> dict[str, Task]:
    """The tasks of a program at other sizes."""
    return {sizes_text(sizes): program_task(program, name=name) for sizes, program in programs}


def _model(
    path: Path, task: ModuleTask, device: torch.device, falls_back: bool, dynamic: Sequence[str]
) -> Target:
    if dynamic:
        module = task.module(device)
        sized = _sized(module, (tuple(task.draw(0, device)), {}), dynamic)
        lowered = sized.lowered
    else:
        module, lowered = lower_model(task, device)
        sized = None
    is_for_one_mode = depends_on_mode(
        module, lowered, lambda: lower_model(task.in_other_mode(), device)[1]
    )
    traced = LoweredModule(
        module=module,
        lowered=lowered,
        is_for_one_mode=is_for_one_mode,
        sizes=sized.requested if sized else None,
    )
    write = partial(
        emit.model_file,
        task.text,
        traced,
        arguments=task.get_arguments() if task.get_arguments else ([], {}),
        falls_back=falls_back,
    )
    write("")  # what cannot be written is refused before the search
    may_be_graphed = sized is None and can_be_graphed(lowered)
    return Target(
        name=path.name,
        program=lowered.program,
        task=task,
        write=write,
        original=model_original(task.text),
        compiled=partial(model_compiled, task.text, is_sized=sized is not None),
        write_graphed=partial(write, is_graphed=True) if may_be_graphed else None,
        sized=sized.sized if sized else None,
        elsewhere=_tasks_elsewhere(task, sized) if sized else {},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleTarget:
    """A module that is called with example inputs."""

    target: Target
    lowered: Lowered
    device: torch.device
    """The device of the module and its inputs."""
    sizes: Requested | None
    """The sizes that may vary; None: all sizes stay."""


def module_target(
    module: torch.nn.Module, example: Call, asked: Requested | None = None
) -> ModuleTarget:
    """The target of a module that is called with example inputs.

    Args:
        asked: sizes that vary.

    Raises:
        UsageError: the module cannot be captured, or one program cannot serve all sizes.
    """
    name = type(module).__name__
    sized = None if asked is None else lower_at_sizes(module, example, asked)
    lowered = sized.lowered if sized is not None else lower(module, *example)
    written = sized.sized.spelled if sized is not None else lowered.program
    target = Target(
        name=name,
        program=lowered.program,
        task=program_task(lowered.program, name=name),
        write=lambda composed: composed,
        original="",
        compiled=partial(flat_compiled, compose(written, []).source, is_sized=sized is not None),
        sized=sized.sized if sized is not None else None,
        elsewhere={} if sized is None else _programs_elsewhere(name, sized.elsewhere),
    )
    device = _device(lowered, module, example)
    return ModuleTarget(
        target=target,
        lowered=lowered.on(device),
        device=device,
        sizes=None if sized is None else sized.requested,
    )


def _device(lowered: Lowered, module: torch.nn.Module, example: Call) -> torch.device:
    """The device of the module and its inputs: constants of forward may be on the CPU."""
    tensors = lowered.gather(module, *example)
    sources = zip(lowered.sources, tensors, strict=True)
    return next((t.device for source, t in sources if source.tensor is None), tensors[0].device)


def _factory(spec: str, training: bool | None, falls_back: bool, dynamic: Sequence[str]) -> Target:
    module, args, kwargs = load_factory(spec, training=training)
    warn_of_weights(module)
    sized = _sized(module, (args, kwargs), dynamic) if dynamic else None
    lowered = sized.lowered if sized else lower(module, args, kwargs)
    is_for_one_mode = depends_on_mode(
        module, lowered, lambda: _lower_in_other_mode(module, args, kwargs)
    )
    traced = LoweredModule(
        module=module,
        lowered=lowered,
        is_for_one_mode=is_for_one_mode,
        sizes=sized.requested if sized else None,
    )
    write = partial(emit.factory_file, spec, traced, falls_back=falls_back)
    write("")  # what cannot be written is refused before the search
    return Target(
        name=spec,
        program=lowered.program,
        task=factory_task(spec, module, lowered),
        write=write,
        original=factory_original(spec),
        compiled=partial(factory_compiled, spec, is_sized=sized is not None),
        sized=sized.sized if sized else None,
        elsewhere={
            sizes_text(sizes): factory_task(spec, module, replace(lowered, program=program))
            for sizes, program in (sized.elsewhere if sized else ())
        },
    )


def _sized(module: torch.nn.Module, example: Call, dynamic: Sequence[str]) -> SizedLowered:
    """The module at several sizes.

    Raises:
        UsageError: a size is named wrongly, or one program cannot serve all sizes.
    """
    asked = requested(module.forward, example, shapes_of(dynamic))
    return lower_at_sizes(module, example, asked)


def _tasks_elsewhere(task: ModuleTask, sized: SizedLowered) -> dict[str, Task]:
    """The task with inputs of other sizes: rows of several draws together, each row a fresh one."""

    def drawn(sizes: Sizes) -> list[Any]:
        args, _ = sized.requested.grown(lambda: (tuple(task.get_inputs()), {}), sizes)
        return list(args)

    return {
        sizes_text(sizes): replace(task, get_inputs=partial(drawn, sizes))
        for sizes, _ in sized.elsewhere
    }


def depends_on_mode(
    module: torch.nn.Module, lowered: Lowered, lower_other: Callable[[], Lowered]
) -> bool:
    """Whether the module is another program, or cannot be captured, in the other mode.

    The modes are train and eval. Updates of running statistics, dropout and batch normalization
    count as a difference without a second capture. A second capture of a network with hundreds of
    calls would take half of a search's time.
    """
    if any(call.op == "batch_norm_train" for call in lowered.program.calls):
        return True
    if _holds_a_user_of_mode(module):
        return True
    try:
        return to_text(lower_other().program) != to_text(lowered.program)
    except UsageError:
        return True


def _holds_a_user_of_mode(module: torch.nn.Module) -> bool:
    """Whether some submodule certainly computes another result in the other mode.

    No answer is certain where a class has a `train` of its own: that may keep submodules in one
    mode, as networks with frozen statistics do.
    """
    parts = list(module.modules())
    if any(type(part).train is not torch.nn.Module.train for part in parts):
        return False
    return any(map(_uses_mode, parts))


def _uses_mode(part: torch.nn.Module) -> bool:
    if isinstance(part, _DropoutNd):
        # With p = 0, dropout is the identity in both modes.
        return part.p > 0
    return isinstance(part, _BatchNorm) and part.track_running_stats


def _lower_in_other_mode(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Lowered:
    # `train` sets all submodules alike, also those that the user keeps in another mode.
    modes = {submodule: submodule.training for submodule in module.modules()}
    try:
        return lower(module.train(not module.training), args, kwargs)
    finally:
        for submodule, training in modes.items():
            submodule.training = training
