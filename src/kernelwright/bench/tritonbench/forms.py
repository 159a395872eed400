"""Texts that pose one call of a function to the judge.

The judge needs a `get_inputs` that draws the tensors of the call. The judge also needs a
`fused_operator` that makes the call: the adapter. The same adapter stands below the golden function
and below a prediction. The adapter passes the tensors at their places, and spells out all other
arguments. The adapter returns a list with the tensors of the result.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

MAX_LITERAL = 4_096
"""The most elements of a tensor whose values are written into the text."""
_DEVICE = re.compile(r"(?:cpu|cuda)(?::\d+)?")
_PLAIN = (bool, int, str, type(None))


class Unposable(Exception):
    """A call that the judge cannot pose; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallForm:
    """A recorded call of a function, as text with places for its tensors."""

    function: str
    """The name of the function in the file."""
    arguments: str
    """The text of all arguments. Tensors are named x0, x1 and so on."""
    tensors: tuple[torch.Tensor, ...]
    """The tensors x0, x1 and so on, as they were before the call."""
    positions: tuple[int, ...]
    """For each tensor, its number among the leaves of (args, kwargs)."""
    results: tuple[str, ...]
    """For each tensor of the result, an expression of `result`, "result[0]" for example."""
    leaves: tuple[int, ...]
    """For each tensor of the result, its number among the leaves of the result."""
    changed: tuple[int, ...]
    """The numbers of the tensors that the call changes in place."""

    @property
    def signature(self) -> tuple[object, ...]:
        """A key that is equal for two calls if their texts differ only in values of tensors."""
        types = tuple((tuple(t.shape), t.stride(), t.dtype) for t in self.tensors)
        return (self.function, self.arguments, types, self.results, self.changed)

    def adapter(self, order: Sequence[int], results: Sequence[str]) -> str:
        """The text of `fused_operator`.

        Args:
            order: numbers of the tensors, in the order of the parameters.
            results: expressions of `result` to return. The changed tensors follow in the list.
        """
        lines = [f"def fused_operator({', '.join(f'x{i}' for i in order)}):"]
        # The caller's inputs stay as they are: a changed tensor is a result instead.
        lines += [f"    x{i} = x{i}.clone()" for i in self.changed]
        lines.append(f"    result = {self.function}({self.arguments})")
        returned = [*results, *(f"x{i}" for i in self.changed)]
        lines.append(f"    return [{', '.join(returned)}]")
        return "\n\n\nimport torch\n\n\n" + "\n".join(lines) + "\n"

    def own_adapter(self) -> str:
        """The adapter with all tensors and results, in the order of the call."""
        return self.adapter(range(len(self.tensors)), self.results)

    def inputs(self, *, fresh: bool) -> str:
        """The text of `get_inputs`.

        Args:
            fresh: whether floating-point tensors are drawn in the recorded range. Otherwise the
                recorded values are multiplied by a drawn factor, which keeps properties such as
                symmetry.

        Raises:
            Unposable: a tensor cannot be drawn.
        """
        draws = [_draw(tensor, fresh=fresh) for tensor in self.tensors]
        lines = [f"    x{i} = {draw}" for i, draw in enumerate(draws)]
        names = ", ".join(f"x{i}" for i in range(len(draws)))
        return "\n\ndef get_inputs():\n" + "\n".join([*lines, f"    return [{names}]\n"])


def check_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that a call can be written as text.

    Raises:
        Unposable: an argument cannot be spelled out, or no argument is a tensor.
    """
    _arguments(args, kwargs)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, list[torch.Tensor]]:
    """The text of the arguments, and the tensors that this text names.

    Raises:
        Unposable: as `check_arguments`.
    """
    tensors: list[torch.Tensor] = []
    words = [_expression(value, tensors) for value in args]
    words += [f"{key}={_expression(value, tensors)}" for key, value in kwargs.items()]
    if not tensors:
        raise Unposable("the call takes no tensors")
    return ", ".join(words), tensors


def call_form(
    function: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    changed: Sequence[int],
) -> CallForm:
    """The form of a recorded call.

    Args:
        function: the name of the function in the file.
        args: the arguments as they were before the call.
        kwargs: the keyword arguments as they were before the call.
        result: the result of the call.
        changed: numbers of the tensors that the call changed, among the tensors of the arguments.

    Raises:
        Unposable: an argument cannot be spelled out, or the call neither returns nor changes a
            tensor.
    """
    arguments, tensors = _arguments(args, kwargs)
    flat = pytree.tree_leaves((args, kwargs))
    positions = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)]
    results = [
        (i, f"result{pytree.keystr(path)}")
        for i, (path, leaf) in enumerate(pytree.tree_flatten_with_path(result)[0])
        if isinstance(leaf, torch.Tensor)
    ]
    if not results and not changed:
        raise Unposable("the call gives no tensors")
    return CallForm(
        function=function,
        arguments=arguments,
        tensors=tuple(tensors),
        positions=tuple(positions),
        results=tuple(expression for _, expression in results),
        leaves=tuple(leaf for leaf, _ in results),
        changed=tuple(changed),
    )


def _expression(value: Any, tensors: list[torch.Tensor]) -> str:
    """The Python text of an argument. A tensor is appended to `tensors`; its number makes its
    name."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return f"x{len(tensors) - 1}"
    if type(value) in (tuple, list, torch.Size):
        items = ", ".join(_expression(item, tensors) for item in value)
        return f"[{items}]" if type(value) is list else f"({items}{',' * bool(items)})"
    if type(value) is dict:
        pairs = (f"{key!r}: {_expression(item, tensors)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, torch.device | str) and _DEVICE.fullmatch(str(value)) and tensors:
        return f"str(x{len(tensors) - 1}.device)"  # wherever the judge has its inputs
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return str(value)
    raise Unposable(f"an argument is a {type(value).__name__}")


def _draw(tensor: torch.Tensor, *, fresh: bool) -> str:
    """An expression that draws a tensor like a recorded tensor, on the default device."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unposable(f"an input has the layout {tensor.layout}")
    dtype, shape = tensor.dtype, tuple(tensor.shape)
    if not (dtype.is_floating_point or dtype.is_complex):
        return _laid_out(tensor, _integers(tensor))
    if not tensor.isfinite().all():
        raise Unposable("an input is not finite")
    if not fresh:
        scale = "(0.75 + 0.5 * torch.rand(()).item())"
        return _laid_out(tensor, f"({_literal(tensor)} * {scale}).to({dtype})")
    if dtype.is_complex:
        return _laid_out(tensor, f"torch.randn({shape}, dtype={dtype})")
    return _laid_out(tensor, f"({_floats(tensor, shape)}).to({dtype})")


def _floats(tensor: torch.Tensor, shape: tuple[int, ...]) -> str:
    """An expression that draws numbers of the recorded spread. If all recorded numbers have one
    sign, the drawn numbers have this sign too: the numbers may be variances."""
    if not tensor.numel():
        return f"torch.empty({shape})"
    values = tensor.double()
    low, high = values.min().item(), values.max().item()
    if low == high:
        return f"torch.full({shape}, {low!r})"
    if low >= 0.0 or high <= 0.0:
        return f"torch.rand({shape}) * {high - low!r} + {low!r}"
    return f"torch.randn({shape}) * {values.std().item():.6g} + {values.mean().item():.6g}"


def _integers(tensor: torch.Tensor) -> str:
    """An expression of recorded integers or flags. They are repeated exactly, because they may be
    indices, lengths or offsets. Only a tensor that is too large for the text is drawn, in the
    recorded range."""
    if tensor.numel() <= MAX_LITERAL:
        return _literal(tensor)
    low, high = int(tensor.min().item()), int(tensor.max().item())
    return f"torch.randint({low}, {high + 1}, {tuple(tensor.shape)}).to({tensor.dtype})"


def _literal(tensor: torch.Tensor) -> str:
    """An expression with all values of a tensor.

    Raises:
        Unposable: the tensor has too many values.
    """
    if tensor.numel() > MAX_LITERAL:
        raise Unposable("an input has too many values to spell out")
    shape = tuple(tensor.shape)
    flat = tensor.detach().cpu().flatten().tolist()
    return f"torch.tensor({flat!r}, dtype={tensor.dtype}).reshape({shape})"


def _laid_out(tensor: torch.Tensor, text: str) -> str:
    """An expression that puts a drawn tensor into the recorded memory layout.

    Args:
        text: the expression that draws the tensor.
    """
    if tensor.is_contiguous() or not tensor.numel():
        return text
    shape, strides = tuple(tensor.shape), tensor.stride()
    if 0 in strides:
        raise Unposable("an input is expanded")
    return f"torch.empty_strided({shape}, {strides}, dtype={tensor.dtype}).copy_({text})"
