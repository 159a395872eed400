"""Tasks from what a user names: a reference file, a flat program, `package.module:factory`.

Everything wrong with a file is a `UsageError` that names file, line and remedy, before a candidate
is looked at.
"""

import importlib
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch

from kernelwright.core.errors import KernelwrightError, UsageError
from kernelwright.programs.capture.structures import class_modules
from kernelwright.programs.lowering.lower import Lowered, lower
from kernelwright.programs.text import parse
from kernelwright.sandbox.host import supervised
from kernelwright.verify.tasks.module_task import Arguments, ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask, program_task
from kernelwright.verify.tasks.task import CPU, FunctionTask, Task

HEADROOM = 5
"""The memory that judging needs, as a multiple of inputs and parameters in fp32. These and their
fp64 copies take 3, and the guest's copies take 2. Results are not counted."""

_numbers = itertools.count()


def load_task(
    spec: str | Path, device: torch.device = CPU, *, training: bool | None = None
) -> Task:
    """Loads the task that a file or `package.module:factory` describes.

    A file with `Model` gives a `ModuleTask`. A file with `fused_operator` gives a `ProgramTask`, or
    a `FunctionTask` where its text is not that of a program. A factory returns a module and its
    example inputs, which are lowered to a `ProgramTask`.

    On the meta device nothing is allocated and any size fits: such a task can be lowered, not run.

    Args:
        training: put modules into train mode (True) or eval mode (False). None: modules stay as
            their code leaves them.

    Raises:
        UsageError: it cannot be loaded or built, or does not fit into the device's memory.
    """
    path = Path(spec)
    if path.is_file():
        return _from_file(path, device, training)
    # A name that ends in .py is a missing file, also if it has a colon.
    if ":" in str(spec) and path.suffix != ".py":
        return _from_factory(str(spec), training)
    raise UsageError(
        "no such file" if not path.exists() else "not a file",
        file=str(spec),
        remedy="give a Python file or package.module:factory",
    )


def _from_file(path: Path, device: torch.device, training: bool | None) -> Task:
    file = _File(path)
    if file.has("Model"):
        return _module_task(file, device, training)
    if not file.has("fused_operator"):
        file.fail(
            "defines neither Model nor fused_operator",
            "define Model, get_inputs and get_init_inputs, or get_inputs and fused_operator;"
            " or name a factory in the file: package.module:factory",
        )
    file.need("get_inputs")
    try:
        program = parse(file.text)
    except UsageError:  # more than a flat program can say: the file itself is the reference
        file.check_size(device, None)
        function = file.function("fused_operator")
        return FunctionTask(
            name=path.name, get_inputs=file.inputs, function=function, text=file.text
        )
    return program_task(program, name=path.name)


def _module_task(file: "_File", device: torch.device, training: bool | None) -> ModuleTask:
    file.need("get_inputs")
    model = vars(file.module)["Model"]
    if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
        file.fail("Model is not a torch.nn.Module class", "derive Model from torch.nn.Module")

    def arguments() -> Arguments:
        values = file.call("get_init_inputs") if file.has("get_init_inputs") else []
        # A pair of a list and a dict is read as positional and keyword arguments.
        if len(values) == 2 and isinstance(values[0], list | tuple) and isinstance(values[1], dict):
            return list(values[0]), values[1]
        return values, {}

    def build_with(args: list[Any], kwargs: dict[str, Any]) -> torch.nn.Module:
        with file.errors("Model cannot be constructed from get_init_inputs()"):
            return in_mode(model(*args, **kwargs), training)

    def build() -> torch.nn.Module:
        return build_with(*arguments())

    file.check_size(device, build)
    task = ModuleTask(
        name=file.path.name,
        get_inputs=file.inputs,
        build=build,
        text=file.text,
        get_arguments=arguments,
        build_with=build_with,
    )
    if device.type != "meta":
        # Built now, so that a faulty constructor is reported before any candidate is judged.
        task.module(device)
    return task


def in_mode(module: torch.nn.Module, training: bool | None) -> torch.nn.Module:
    """Puts the module into train mode (True) or eval mode (False), or leaves it as it is (None)."""
    if training is not None:
        module.train(training)
    return module


def load_factory(
    spec: str, *, training: bool | None = None
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Returns the module that "package.module:factory" makes, and the positional and keyword
    arguments of an example call.

    The factory returns (module, inputs) or (module, inputs, keyword inputs). A dict as the inputs
    stands for keyword inputs.

    Args:
        training: as of `load_task`.

    Raises:
        UsageError: it cannot be imported, fails, or returns something else.
    """
    module, _, factory = spec.partition(":")
    sys.path.insert(0, "")  # as `python -m` finds modules
    try:
        with supervised.user_code(f"the factory {spec}", supervised.LOAD_S):
            function = getattr(importlib.import_module(module), factory, None)
            if not callable(function):
                raise UsageError(
                    f"the module {module} has no function {factory!r}",
                    remedy="name a function of the module that takes no arguments",
                )
            parts = function()
    except KernelwrightError:
        raise
    except (Exception, SystemExit) as error:
        file, line = _own_place(error, module)
        raise UsageError(
            f"{spec} fails: {type(error).__name__}: {error}",
            file=file,
            line=line,
            remedy="mend the factory; it must run by itself, without arguments",
        ) from error
    finally:
        sys.path.remove("")
    if not (isinstance(parts, tuple) and len(parts) in (2, 3)):
        raise UsageError(
            f"{spec} returns a {type(parts).__name__}",
            remedy="return (module, inputs) or (module, inputs, keyword inputs), for example"
            ' (model, (x,), {"mask": mask})',
        )
    built, inputs, *rest = parts
    if not isinstance(built, torch.nn.Module):
        raise UsageError(f"{spec} returns a {type(built).__name__} where a module is wanted")
    built = in_mode(built, training)
    if isinstance(inputs, dict) and not rest:
        return built, (), inputs
    args = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    return built, args, dict(rest[0]) if rest else {}


def _own_place(error: BaseException, module: str) -> tuple[str | None, int | None]:
    """Returns file and line of the innermost frame in the file of a module; None where the error is
    from elsewhere."""
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module
    ]
    return places[-1] if places else (None, None)


def factory_task(spec: str, module: torch.nn.Module, lowered: Lowered) -> ProgramTask:
    """Returns the task of a factory's module. A candidate in hybrid mode may import the packages of
    the module and of the classes in its inputs and results."""
    packages = {type(module).__module__, *class_modules(lowered.in_spec, lowered.out_spec)}
    imports = "\n".join(f"import {package}" for package in sorted(packages))
    return replace(program_task(lowered.program, name=spec), text=imports)


def _from_factory(spec: str, training: bool | None) -> ProgramTask:
    module, args, kwargs = load_factory(spec, training=training)
    return factory_task(spec, module, lower(module, args, kwargs))


class _File:
    """A user's Python file, imported under a name of its own.

    Where the file does not serve, methods raise `UsageError` with file, line and remedy.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"cannot be read: {error}", "give a UTF-8 Python file")
        # Many references have one file name; a number keeps their modules apart.
        name = f"kernelwright_reference_{next(_numbers)}"
        spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
        if spec is None:
            self.fail("cannot be imported", "give a Python file")
        self.module: ModuleType = importlib.util.module_from_spec(spec)
        self.module.__file__ = str(path)
        sys.modules[name] = self.module  # dataclasses look up the module of a class here
        with self.errors("cannot be imported"):
            exec(compile(self.text, str(path), "exec"), vars(self.module))

    def has(self, name: str) -> bool:
        return name in vars(self.module)

    def need(self, name: str) -> None:
        if not self.has(name):
            self.fail(f"{name} is not defined", f"define {name}()")

    def function(self, name: str) -> Callable[..., Any]:
        defined = vars(self.module)[name]
        if not callable(defined):
            self.fail(f"{name} is not a function", f"define {name}()")
        return defined  # type: ignore[no-any-return]

    def call(self, name: str) -> Any:
        """Returns the result of a function of the file, which must be a list or tuple, as a
        list."""
        with self.errors(f"{name}() fails"):
            value = self.function(name)()
        if not isinstance(value, list | tuple):
            self.fail(f"{name}() returns {type(value).__name__}", f"return a list from {name}()")
        return list(value)

    def inputs(self) -> list[Any]:
        values: list[Any] = self.call("get_inputs")
        for i, value in enumerate(values):
            if not isinstance(value, torch.Tensor | bool | int | float | str | None):
                self.fail(
                    f"input {i} of get_inputs() is a {type(value).__name__}",
                    "return tensors and plain numbers",
                )
        return values

    def fail(self, message: str, remedy: str, line: int | None = None) -> NoReturn:
        raise UsageError(message, file=str(self.path), line=line, remedy=remedy)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turns an exception inside into a `UsageError` that names the line of this file."""
        try:
            with supervised.user_code(f"{_step(what)} of {self.path.name}", supervised.LOAD_S):
                yield
        # Such an error names its own place and remedy.
        except KernelwrightError:
            raise
        except SyntaxError as error:
            raise UsageError(
                f"not Python: {error.msg}",
                file=str(self.path),
                line=error.lineno,
                remedy=f"see that python -m py_compile {self.path.name} passes",
            ) from error
        except (Exception, SystemExit) as error:
            # The last frame in this file is the innermost line of the user's own code.
            lines = [
                frame.lineno
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename == str(self.path)
            ]
            raise UsageError(
                f"{what}: {type(error).__name__}: {error}",
                file=str(self.path),
                line=lines[-1] if lines else None,
                remedy="mend the file; it must run by itself",
            ) from error

    def check_size(self, device: torch.device, build: Callable[[], torch.nn.Module] | None) -> None:
        """Refuses a task that cannot fit, before it is allocated: it is built on the meta device
        first."""
        if device.type == "meta":
            return
        try:
            with torch.device("meta"):
                tensors = {f"input {i}": v for i, v in enumerate(self.inputs())}
                if build is not None:
                    module = build()
                    tensors |= dict(module.named_parameters()) | dict(module.named_buffers())
        except UsageError:
            return  # needs real values: the real run says what is wrong, if anything is
        sizes = {
            name: value.numel() * value.element_size()
            for name, value in tensors.items()
            if isinstance(value, torch.Tensor)
        }
        needed, available = HEADROOM * sum(sizes.values()), available_bytes(device)
        if needed > available:
            # The largest tensor is the one that a user can make smaller with most effect.
            name = max(sizes, key=lambda name: sizes[name])
            self.fail(
                f"too big for this machine: {name} {list(tensors[name].shape)} alone is "
                f"{_gib(sizes[name])}, judging needs about {_gib(needed)} and "
                f"{_gib(available)} are free",
                "use smaller sizes, or a machine with more memory",
            )


def _step(failure: str) -> str:
    """Returns the step that a failure's text is about, for messages of the parent process."""
    return {
        "cannot be imported": "the import",
        "Model cannot be constructed from get_init_inputs()": "the construction of Model",
    }.get(failure, failure.removesuffix(" fails"))


def available_bytes(device: torch.device) -> int:
    """Returns the memory that can still be had on the device: free GPU memory, or MemAvailable.

    Raises:
        UsageError: Linux does not say how much memory is free.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise UsageError("the kernel does not say how much memory is free", file="/proc/meminfo")


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 30):.1f} GiB"
