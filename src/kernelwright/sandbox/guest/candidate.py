"""Guest side: a candidate's source as a loaded module, and its exceptions as data."""

import ast
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from kernelwright.sandbox.guest.instances import Instances
from kernelwright.sandbox.guest.interpreter import patches as interpreter
from kernelwright.sandbox.guest.interpreter.bounds import OutOfBounds
from kernelwright.sandbox.guest.own_code import OwnCodeTimeout

_MESSAGE_LIMIT = 2_000


@dataclass(slots=True)
class LoadedCandidate:
    """A candidate ready to be called."""

    path: Path
    entry: str
    """"fused_operator" or "ModelNew"."""
    function: Callable[..., object] | None
    """None where the entry is a module: `instances` has these."""
    instances: Instances
    kernels: tuple[str, ...]

    def call(self, instance: int) -> Callable[..., object]:
        """The function that a judged call calls."""
        return self.instances.get(instance) if self.function is None else self.function


class MissingEntry(Exception):
    """The source defines neither entry point."""


class IllegalKernel(Exception):
    """Code in the body of a kernel raised an exception of Python's when the kernel was compiled."""


NOT_COMPILED = (CompilationError, OutOfResources, PTXASError, IllegalKernel)
"""A kernel that raises these when it is compiled runs on no GPU."""


def load(path: Path, init: dict[str, Any] | None) -> LoadedCandidate:
    """Imports the file. Where the entry is `ModelNew`, constructs it under its seed. Raises
    whatever the candidate raises."""
    try:
        return _loaded(_import(path), path, init)
    except BaseException:
        sys.modules.pop(module_name(path), None)
        raise


def _loaded(module: ModuleType, path: Path, init: dict[str, Any] | None) -> LoadedCandidate:
    kernels = tuple(name for name, value in vars(module).items() if _is_kernel(value))
    if callable(entry := vars(module).get("ModelNew")) and init is not None:
        instances = Instances(partial(_construct, entry))
        instances.construct(init)
        return LoadedCandidate(path, "ModelNew", None, instances, kernels)
    if callable(entry := vars(module).get("fused_operator")):
        return LoadedCandidate(path, "fused_operator", entry, Instances(None), kernels)
    wanted = "fused_operator" if init is None else "ModelNew or fused_operator"
    raise MissingEntry(f"the source does not define {wanted}")


def _import(path: Path) -> ModuleType:
    name = module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # inspect and dataclasses look a module up by name
    spec.loader.exec_module(module)
    return module


def module_name(path: Path) -> str:
    """Returns the name of the candidate in `sys.modules`."""
    return path.stem


def unload(loaded: LoadedCandidate) -> None:
    """Removes a candidate's module and source from the caches of Python and the interpreter."""
    sys.modules.pop(module_name(loaded.path), None)
    interpreter.forget(module_name(loaded.path))
    linecache.cache.pop(str(loaded.path), None)


def _is_kernel(value: object) -> bool:
    """Whether a value is a kernel of Triton, by the names of its classes."""
    names = {base.__name__ for base in type(value).__mro__}
    return bool(names & {"JITFunction", "InterpretedFunction", "Autotuner", "Heuristics"})


def _construct(entry: Callable[..., Any], init: dict[str, Any]) -> torch.nn.Module:
    """Constructs a module. Arguments come as the text of a literal, or from the reference's
    `get_init_inputs`."""
    if "init_inputs" in init:
        args, kwargs = _init_inputs(init["init_inputs"])
    else:
        args, kwargs = ast.literal_eval(init.get("arguments", "([], {})"))
    torch.manual_seed(init.get("seed", 0))
    with torch.device(init.get("device", "cpu")):
        model = entry(*args, **kwargs)
    if not isinstance(model, torch.nn.Module):
        raise TypeError("ModelNew must be a torch.nn.Module")
    model = model.to(init.get("device", "cpu"))
    return model.train() if init.get("train", True) else model.eval()


def _init_inputs(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The result of `get_init_inputs` of this text."""
    namespace: dict[str, Any] = {"__name__": "reference"}
    exec(compile(text, "<reference>", "exec"), namespace)
    values = namespace["get_init_inputs"]() if "get_init_inputs" in namespace else []
    if len(values) == 2 and isinstance(values[0], list) and isinstance(values[1], dict):
        return values[0], values[1]
    return list(values), {}


def fault(error: BaseException, path: Path | None, default: str) -> dict[str, Any]:
    """Returns an exception of the candidate's as data: kind, type, message, line in its file. If
    other code raised it at run time, the message ends with the place."""
    chain = list(_chain(error))
    root, kind = chain[-1], _kind(chain, default)
    place = _foreign_place(root, path) if kind == "runtime" else ""
    return {
        "kind": kind,
        "type": type(root).__name__,
        "message": f"{root}"[:_MESSAGE_LIMIT] + place,
        "line": None if path is None else _line(chain, path),
    }


def _foreign_place(error: BaseException, path: Path | None) -> str:
    """Returns the place outside of the candidate's file that raised: " (raised in inspect,
    1745)"."""
    last = list(traceback.walk_tb(error.__traceback__))[-1:]
    if not last or last[0][0].f_code.co_filename == str(path):
        return ""
    frame, line = last[0]
    return f" (raised in {frame.f_globals.get('__name__')!s:.80}, {line})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and its causes, the root cause last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )


def _kind(chain: list[BaseException], default: str) -> str:
    text = " ".join(f"{error}"[:_MESSAGE_LIMIT] for error in chain)
    if any(isinstance(error, OutOfBounds) for error in chain):
        return "out_of_bounds"
    if "illegal memory access" in text or "misaligned address" in text:
        return "out_of_bounds"
    if any(isinstance(error, OwnCodeTimeout) for error in chain):
        return "timeout"
    if any(isinstance(error, MemoryError | torch.OutOfMemoryError) for error in chain):
        return "out_of_memory"
    if "can't allocate memory" in text or "CUDA out of memory" in text:
        return "out_of_memory"
    if any(isinstance(error, NOT_COMPILED) for error in chain):
        return "compile"
    if isinstance(chain[0], MissingEntry):
        return "missing_entry"
    return default


def _line(chain: list[BaseException], path: Path) -> int | None:
    """Returns the line of the candidate's file that an exception is about, nearest to the root
    cause."""
    for error in reversed(chain):
        if isinstance(error, SyntaxError) and error.filename == str(path):
            return error.lineno
        if isinstance(error, CompilationError) and (line := _compiled_line(error, path)):
            return line
        line, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == str(path):
                line = trace.tb_lineno
            trace = trace.tb_next
        if line is not None:
            return line
    return None


def _compiled_line(error: CompilationError, path: Path) -> int | None:
    """Returns the line in the file: Triton counts lines from the kernel's `def`, so that text is
    searched."""
    if error.src is None or error.node is None:
        return None
    kernel = [line.strip() for line in error.src.rstrip().splitlines()]
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    for start in range(len(lines)):
        if lines[start : start + len(kernel)] == kernel:
            return start + int(vars(error.node).get("lineno", 1))
    return None
