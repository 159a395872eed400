"""The importable `optimized.py`: the composed kernels behind the original's own interface."""

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import UsageError
from kernelwright.core.plan import lines_of
from kernelwright.programs import attributes
from kernelwright.programs.lowering import Lowered
from kernelwright.programs.source_merge import rename

MAX_CONSTANT_ELEMENTS = 64
"""Constants of the traced module up to this size are written into the file."""

GUARDS = '''
def refuse_gradients(module, *tensors):
    """The kernels have no backward: an error beats results without a history."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in (*tensors, *module.parameters())):
        raise RuntimeError(
            "optimized for inference only: call it under torch.no_grad(), "
            "or keep the original module for training"
        )


def expect(name, tensor, shape, dtype):
    """The program was traced at one signature; at another it might compute something else."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(
            f"{name} is {tuple(tensor.shape)} {tensor.dtype}, optimized for {shape} {dtype}: "
            "run `kernelwright optimize` again with inputs of that signature"
        )
'''.strip()

MODE = '''
def expect_mode(module, training):
    """Train and eval mode compute different things here, and one of them was traced."""
    if module.training != training:
        was, now = ("train", "eval") if training else ("eval", "train")
        raise RuntimeError(f"optimized in {was} mode and called in {now} mode")
'''.strip()

NEEDS_GPU = '''
def refuse_cpu(*tensors):
    """Triton runs on a GPU, or anywhere in its interpreter."""
    if not triton.knobs.runtime.interpret and any(t.device.type == "cpu" for t in tensors):
        raise RuntimeError(
            "the kernels need a GPU: move the module and its inputs to one, "
            "or set TRITON_INTERPRET=1 before this file is imported"
        )
'''.strip()

CONSTANT = '''
@functools.cache
def constant(values, dtype, device):
    """A tensor that the original makes anew in each call."""
    return torch.tensor(values, dtype=dtype, device=device)
'''.strip()


def model_file(
    source: str, lowered: Lowered, composed: str, module: torch.nn.Module, *, is_for_one_mode: bool
) -> str:
    """`optimized.py` for a file that defines `Model`: the same file with `ModelNew`.

    Everything of the original stays, constructor and constants included; only the class's name
    and its `forward` change.

    Args:
        source: text of the original file.
        composed: text of `fused_operator` and its kernels.
        module: the original, for its signature and its mode.
        is_for_one_mode: refuse the other of train and eval mode.
    """
    method = forward_function(lowered, module, composed, is_for_one_mode=is_for_one_mode)
    docstring, rest = _opened(source)
    renamed = rename(rest, {"Model": "ModelNew"})
    return f"{docstring}{_with_guards(composed, method)}{_replace_forward(renamed, method)}"


def flat_file(source: str, composed: str) -> str:
    """`optimized.py` for a flat program: the same file with `fused_operator` replaced."""
    docstring, rest = _opened(source)
    lines = lines_of(rest)
    for node in ast.parse(rest).body:
        if isinstance(node, ast.FunctionDef) and node.name == "fused_operator":
            lines[node.lineno - 1 : node.end_lineno] = []
    return f"{docstring}{composed}\n\n" + "\n".join(lines).strip() + "\n"


def factory_file(
    spec: str, lowered: Lowered, composed: str, module: torch.nn.Module, *, is_for_one_mode: bool
) -> str:
    """`optimized.py` for `package.module:factory`: `attach(module)` gives the factory's module a
    new forward; parameters, buffers and state_dict keys stay its own. The file imports nothing of
    the user's, so the judge reads the very file that is written."""
    method = forward_function(lowered, module, composed, is_for_one_mode=is_for_one_mode)
    return f'''{_with_guards(composed, method)}{method}


def attach(module):
    """The module that {spec} makes, computing with the kernels above."""
    kind = type(module)
    module.__class__ = type("Optimized" + kind.__name__, (kind,), {{"forward": forward}})
    return module
'''


def _with_guards(composed: str, method: str) -> str:
    """The kernels, then what the forward calls besides `fused_operator`."""
    parts = [composed.rstrip(), GUARDS]
    if "expect_mode(" in method:
        parts.append(MODE)
    if "refuse_cpu(" in method:
        parts.append(NEEDS_GPU)
    if "constant(" in method:
        parts = ["import functools\n\n" + parts[0], *parts[1:], CONSTANT]
    return "\n\n\n".join([*parts, ""])


def forward_function(
    lowered: Lowered, module: torch.nn.Module, composed: str, *, is_for_one_mode: bool
) -> str:
    """Text of a `forward(self, ...)` that gathers weights by name and calls `fused_operator`.

    Raises:
        UsageError: inputs, outputs or constants have no literal form.
    """
    signature = signature_text(module.forward)
    arguments, checks = [], []
    names = _parameter_names(signature)
    users = [_user_expression(s.name, names) for s in lowered.sources if s.kind == "user"]
    device = f"{users[0]}.device" if users else "None"
    for value, source in zip(lowered.program.inputs, lowered.sources, strict=True):
        if source.kind == "user":
            text = _user_expression(source.name, names)
            dtype = f"torch.{value.type.dtype}"
            checks.append(f'expect("{text}", {text}, {value.type.shape}, {dtype})')
        elif source.kind == "constant":
            text = _constant(source.tensor, device)
        elif source.kind == "attribute":
            text = f"{attributes.text(source.name)}.to({device})"
        else:
            text = f'self.get_{source.kind}("{source.name}")'
        arguments.append(text)
    lines = [
        f"def forward(self{', ' if signature else ''}{signature}):",
        f"    refuse_gradients({', '.join(['self', *users])})",
        *([f"    expect_mode(self, {module.training})"] if is_for_one_mode else []),
        *([f"    refuse_cpu({', '.join(users)})"] if "@triton.jit" in composed and users else []),
        *(f"    {check}" for check in checks),
        "    results = fused_operator(",
        *(f"        {argument}," for argument in arguments),
        "    )",
        *(f"    {line}" for line in _stores(lowered)),
        f"    return {_returned(lowered)}",
    ]
    return "\n".join(lines)


def _stores(lowered: Lowered) -> list[str]:
    """Lines that change the module's state."""
    return [
        f"{attributes.text(name)} = results[{position}]"
        if name in lowered.changed_attributes
        else f'self.get_buffer("{name}").copy_(results[{position}])'
        for position, name in lowered.mutations
    ]


def signature_text(forward: Callable[..., Any]) -> str:
    """Parameters of a bound forward without annotations: "x, mask=None, **kwargs"."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(forward).parameters.values()
    ]
    return str(inspect.Signature(parameters))[1:-1]


def _parameter_names(signature: str) -> list[str]:
    arguments = ast.parse(f"def f({signature}): ...").body[0].args  # type: ignore[attr-defined]
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args)]


def _user_expression(path: str, names: list[str]) -> str:
    """ "args[0]['mask']" -> "x['mask']" by the forward's own parameter names."""
    if match := re.match(r"args\[(\d+)\](.*)", path):
        position, rest = int(match[1]), match[2]
        if position < len(names):
            return names[position] + rest
    elif match := re.match(r"kwargs\['(\w+)'\](.*)", path):
        return match[1] + match[2]
    raise UsageError(
        f"input {path} does not belong to a named parameter of forward",
        remedy="give forward a parameter for it instead of *args",
    )


def _constant(tensor: Any, device: str) -> str:
    if tensor.numel() > MAX_CONSTANT_ELEMENTS:
        raise UsageError(
            f"forward uses a constant tensor of {tensor.numel()} elements that is no buffer",
            remedy="register it with register_buffer, so that it belongs to the module's state",
        )
    return f"constant({_frozen(tensor.tolist())!r}, {tensor.dtype}, {device})"


def _frozen(values: Any) -> Any:
    return tuple(map(_frozen, values)) if isinstance(values, list) else values


def _returned(lowered: Lowered) -> str:
    leaves = [
        f"results[{value}]" if kind == "output" else repr(value)
        for kind, value in lowered.user_outputs
    ]
    return _literal(pytree.tree_unflatten(leaves, lowered.out_spec))


def _literal(tree: Any) -> str:
    if tree is None or isinstance(tree, str):
        return str(tree)
    if type(tree) is tuple:
        inside = ", ".join(map(_literal, tree))
        return f"({inside},)" if len(tree) == 1 else f"({inside})"
    if type(tree) is list:
        return f"[{', '.join(map(_literal, tree))}]"
    if type(tree) is dict:
        return "{" + ", ".join(f"{key!r}: {_literal(value)}" for key, value in tree.items()) + "}"
    raise UsageError(
        f"forward returns a {type(tree).__name__}, which optimized.py cannot spell",
        remedy="return tensors in tuples, lists or dicts, or call kernelwright.optimize",
    )


def _opened(source: str) -> tuple[str, str]:
    """(module docstring, the rest without `if __name__ == "__main__":` blocks)."""
    lines = lines_of(source)
    body = ast.parse(source).body
    for node in reversed(body):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            lines[node.lineno - 1 : node.end_lineno] = []
    first = body[0] if body else None
    docstring, end = "", 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        end = first.end_lineno or 0
        docstring = "\n".join(lines[first.lineno - 1 : end]) + "\n\n"
    return docstring, "\n".join(lines[end:]).strip() + "\n"


def _replace_forward(source: str, method: str) -> str:
    lines = lines_of(source.rstrip())
    tree = ast.parse(source)
    model = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelNew")
    start = end = model.end_lineno or 0
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            start, end = first - 1, node.end_lineno or 0
    indent = " " * model.body[0].col_offset
    lines[start:end] = [indent + line if line else line for line in method.splitlines()]
    return "\n".join(lines) + "\n"
