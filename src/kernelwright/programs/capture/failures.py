"""Explains why a module could not be captured: a cause, the user's file and line, a remedy."""

import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import UsageError
from kernelwright.programs.capture import structures
from kernelwright.programs.capture.state import StateError

BRANCH_REMEDY = (
    "make the choice when the module is built, or compute both sides and combine them with "
    "torch.where"
)
OUTSIDE_REMEDY = "keep this part outside the module that is optimized"
_BRANCH_SIGNS = (
    "data-dependent", "Data-dependent", "on meta tensors", "on a meta tensor", "Tensor.item()",
    "DynamicOutputShape", "DataDependentOutput", ".numpy() is not supported",
)  # fmt: skip
_OURS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))
"""Folders whose frames tell a user nothing: PyTorch and this package."""
_LIBRARIES = ("site-packages", "dist-packages")
_STANDARD = sysconfig.get_path("stdlib")
_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized")
Place = tuple[str | None, int | None]


def check_module(module: torch.nn.Module) -> None:
    """Refuse modules of kinds that no capture takes.

    Raises:
        UsageError: the module, or a part of it, is TorchScript or quantized.
    """
    for name, part in module.named_modules():
        place = f"its part {name!r}" if name else "the module"
        if isinstance(part, torch.jit.ScriptModule):
            raise UsageError(
                f"{type(module).__name__}: {place} is a ScriptModule",
                remedy="give the module as it was before torch.jit.script or torch.jit.trace",
            )
        if type(part).__module__.startswith(_QUANTIZED):
            raise UsageError(
                f"{type(module).__name__}: {place} is a quantized {type(part).__name__}",
                remedy="give the module as it was before quantization",
            )


def explained(
    error: BaseException, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> UsageError:
    """The error of a capture as a UsageError with the cause, the place and a remedy.

    If the error does not show the cause, the module runs once in plain PyTorch.
    """
    text = f"{type(error).__name__}: {error}"
    file, line = place_of(error)
    # The order matters. Wrong inputs come before texts of errors, because they raise any error.
    # The run in plain PyTorch is the slowest test and comes last.
    if isinstance(error, structures.ResultError):
        message = f"forward returns {error}, an unsupported output type"
        remedy = "return tensors, numbers, flags, and lists, tuples, dicts or objects of them"
        file, line = definition(module)
    elif isinstance(error, StateError):
        message = str(error)
        remedy = "keep a state that changes in a buffer (register_buffer) of constant shape"
    elif (problem := _wrong_inputs(module, args, kwargs)) is not None:
        message = f"forward does not take these inputs: {problem}"
        remedy = _signature_remedy(module, args)
        file, line = definition(module)
    elif any(sign in text for sign in _BRANCH_SIGNS):
        message, remedy = "control flow or a size depends on the values of a tensor", BRANCH_REMEDY
    elif "register it as buffer" in text:
        name = text.partition("Constant ")[2].partition(" ")[0].removeprefix("inner.")
        message = f"forward changes the tensor attribute {name!r}, which is not a buffer"
        remedy = f"register it in __init__: self.register_buffer({name!r}, ...)"
    elif "fake tensor in the exported program" in text:
        message = "torch.export cannot follow a tensor that forward makes"
        remedy = f"{OUTSIDE_REMEDY}: forward may hold torch.autograd.grad, for example"
    elif "Unsupported input type" in text:
        message = _first_line(error)
        remedy = "pass tensors, numbers, flags, and lists, tuples, dicts or objects of them"
    elif (plain := _plain_error(module, args, kwargs)) is not None:
        message = f"forward raised {type(plain).__name__} in plain PyTorch too: "
        message += _first_line(plain)
        remedy = "the module must run with these inputs by itself; see their shapes and dtypes"
        file, line = place_of(plain)
    else:
        message = f"PyTorch runs this module, but torch.export raised {type(error).__name__}: "
        message += _first_line(error)
        remedy = f"{OUTSIDE_REMEDY}, or write it with plain tensor operators"
    if file is None:
        file, line = definition(module)
    return UsageError(message + _called_from(error, file), file=file, line=line, remedy=remedy)


def _first_line(error: BaseException) -> str:
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), "no message")


def _wrong_inputs(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """The mismatch of the inputs with the signature of forward; None where they fit."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def _signature_remedy(module: torch.nn.Module, args: tuple[Any, ...]) -> str:
    parameters = inspect.signature(module.forward).parameters.values()
    names = [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in parameters]
    many = f"; {len(args)} positional inputs were given" if args else ""
    return f"it is forward({', '.join(names)}){many}: one tensor alone is written (x,)"


def _plain_error(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> BaseException | None:
    """The error of the module in plain PyTorch on copies of the inputs; None where it runs."""
    # The run must leave no trace: copies of inputs, old buffers and the random state are restored.
    buffers = [(tensor, tensor.clone()) for tensor in module.buffers() if not tensor.is_meta]
    copies = pytree.tree_map(
        lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf,
        (args, dict(kwargs)),
    )
    try:
        with structures.kept(module), torch.no_grad(), torch.random.fork_rng():
            module(*copies[0], **copies[1])
    except (Exception, SystemExit) as error:  # the user's forward may raise anything
        return error
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
    return None


def place_of(error: BaseException) -> Place:
    """(File, line) where a chain of errors began, in code of the user or of a library.

    (None, None) if all frames belong to PyTorch, to Python or to this package.
    """
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    for link in reversed(chain):
        for frame in reversed(traceback.extract_tb(link.__traceback__)):
            if _is_worth_naming(frame.filename):
                return frame.filename, frame.lineno
    return None, None


def _is_worth_naming(file: str) -> bool:
    """Whether a user can open the file, and it belongs to neither PyTorch, Python nor us."""
    is_file = not file.startswith("<") and file != "None"
    return is_file and not file.startswith(_OURS) and (_is_library(file) or not _is_standard(file))


def _is_library(file: str) -> bool:
    return any(folder in file for folder in _LIBRARIES)


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) or "/lib/python" in file


def _called_from(error: BaseException, file: str | None) -> str:
    """A text with the user's own line, if the file of the error belongs to a library."""
    if file is None or not _is_library(file):
        return ""
    frames = [*traceback.extract_stack(), *traceback.extract_tb(error.__traceback__)]
    for frame in reversed(frames):
        if _is_users(frame.filename):
            return f" (called from {frame.filename}:{frame.lineno})"
    return ""


def _is_users(file: str) -> bool:
    is_script = Path(sys.argv[0]).name == Path(file).name and not file.endswith(".py")
    return _is_worth_naming(file) and not _is_library(file) and not is_script


def definition(module: torch.nn.Module) -> Place:
    """(File, line) where the class of the module defines `forward`."""
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    if code is None or not _is_worth_naming(code.co_filename):
        return None, None
    return code.co_filename, code.co_firstlineno


def changed_in_place(module: torch.nn.Module, target: str, node: torch.fx.Node) -> UsageError:
    """The error for an input or a parameter that forward changes in place.

    Args:
        target: its name in the exported graph.
        node: the call that computes the new values.
    """
    file, line = location(node)
    if file is None:  # some nodes have lost their trace
        file, line = definition(module)
    own = target.removeprefix("inner.")
    if own != target:
        message = f"forward changes the parameter {own!r} in place"
        remedy = "keep a state that changes in a buffer (register_buffer)"
    else:
        # The capture writes names in small letters.
        names = inspect.signature(module.forward).parameters
        name = next((name for name in names if name.lower() == target), target)
        message = f"forward changes {name!r} in place, which is an input"
        remedy = "return a new tensor instead, or clone the input first"
    return UsageError(message, file=file, line=line, remedy=remedy)


def foreign_object(kind: str, node: torch.fx.Node) -> UsageError:
    """The error for an object of the graph that is no tensor.

    Args:
        kind: its class, for example "torch._C.Generator".
        node: the placeholder of the object.
    """
    file, line = next((location(user) for user in node.users), (None, None))
    message = f"forward uses an object of {kind}, which is no tensor"
    return UsageError(message, file=file, line=line, remedy=OUTSIDE_REMEDY)


def location(node: torch.fx.Node) -> Place:
    """File and line of the code, the user's or a library's, that a graph node comes from."""
    trace = node.meta.get("stack_trace") or ""
    for file, line in reversed(list(_frames(trace))):
        if _is_worth_naming(file):
            return file, line
    return None, None


def _frames(trace: str) -> Iterator[tuple[str, int]]:
    for file, line in re.findall(r'File "([^"]+)", line (\d+)', trace):
        yield file, int(line)
