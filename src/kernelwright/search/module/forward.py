"""The `forward` of an optimized module, as text: from the caller's tensors and the module's own to
`fused_operator` and back."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.programs.capture import carriers
from kernelwright.programs.capture.carriers import is_carried
from kernelwright.programs.lowering import attributes
from kernelwright.programs.lowering.lower import InputSource, Lowered
from kernelwright.search.contest import captured
from kernelwright.search.module.guards import HELPERS, LoweredModule, call_text, guards
from kernelwright.search.module.structure_text import BECOME, BUILT, ResultText

RESULTS = {"built": BUILT, "become": BECOME}
"""Functions that make results, by name."""
MAX_CONSTANT_ELEMENTS = 4096
"""Constants of the traced module up to this size are written into the file."""

EXPECT_VALUE = '''
def expect_value(name, value, traced):
    """Numbers, flags and texts are part of the program."""
    are_nan = value != value and traced != traced
    if type(value) is not type(traced) or (value != traced and not are_nan):
        raise ValueError(
            f"{name} is {value!r}, optimized for {traced!r}: "
            "run `kernelwright optimize` again with that value"
        )
'''.strip()

CONSTANT = '''
@functools.cache
def constant(values, dtype, device):
    """A tensor that the original makes anew in each call."""
    return torch.tensor(values, dtype=dtype, device=device)
'''.strip()


@dataclass(frozen=True, slots=True)
class Forward:
    preamble: str
    """The kernels, and what else the method calls."""
    method: str
    """`def forward(self, ...)`."""


def forward_of(
    traced: LoweredModule,
    composed: str,
    *,
    is_graphed: bool = False,
    own_module: str = "",
    original: str | None = None,
) -> Forward:
    """A forward that gathers weights by name and calls `fused_operator`, or replays such a call.
    Calls that the program does not compute run the original.

    Args:
        composed: text of `fused_operator` and its kernels.
        is_graphed: as a CUDA graph; `graphed.can_be_graphed` says where.
        own_module: the module whose text the file keeps, and whose classes need no import.
        original: the function that computes what the original does; None: other calls raise
            ValueError.

    Raises:
        UsageError: inputs, outputs or constants have no literal form.
    """
    lowered, module = traced.lowered, traced.module
    signature = signature_text(module.forward)
    names = _parameter_names(signature)
    users = _users(lowered, names)
    # `run_kernels` returns only what the caller gets, so results have other positions there.
    places = {position: i for i, position in enumerate(_given_out(lowered))} if is_graphed else {}
    results = ResultText(
        own_module,
        f"{users[0]}.device" if users else "None",
        [_user_expression(path, names) for path in lowered.part_paths],
    )
    returned = _returned(lowered, names, results, places)
    values = [
        (_user_expression(path, names), _plain_text(value)) for path, value in lowered.plain_inputs
    ]
    call = call_text(original, module.forward) if original else None
    head = [
        f"def forward(self{', ' if signature else ''}{signature}):",
        *guards(traced, composed, users, values, call),
        *(f"    import {module}" for module in sorted(results.modules)),
    ]
    if is_graphed:
        method = [*head, *_replayed(users), *returned]
        preamble = _preamble(composed, _run_kernels(lowered), method)
    else:
        method = [*head, *_called(lowered, users), *returned]
        preamble = _preamble(composed, [], method)
    return Forward(preamble, "\n".join(method))


def _preamble(composed: str, run_kernels: list[str], method: list[str]) -> str:
    text = "\n".join([*run_kernels, *method])
    helpers = HELPERS | RESULTS
    parts = [composed.rstrip()]
    parts += [helper.strip() for name, helper in helpers.items() if f"{name}(" in text]
    # The file imports only what its text names.
    if "OrderedDict(" in text:
        parts[0] = "from collections import OrderedDict\n\n" + parts[0]
    if "warnings.warn(" in text:
        parts[0] = "import warnings\n\n" + parts[0]
    if "constant(" in text:
        parts = ["import functools\n\n" + parts[0], *parts[1:], CONSTANT]
    if run_kernels:
        imports, text = _captured_call()
        parts = [imports + parts[0], *parts[1:], text, "\n".join(run_kernels)]
    return "\n\n\n".join([*parts, ""])


def _captured_call() -> tuple[str, str]:
    """The imports of `search.contest.captured` but torch, which kernels import, and its code."""
    # Comments for type checkers mean nothing in the user's file.
    text = re.sub("  # type: .*", "", inspect.getsource(captured))
    begin, end = text.index("import weakref"), text.index("\nimport torch\n")
    return text[begin:end], text[text.index("Tensors =") :].rstrip()


def _run_kernels(lowered: Lowered) -> list[str]:
    """Lines of what a graph replays, from tensors to those results that the caller is given."""
    users = [f"tensors[{i}]" for i in range(len(_user_sources(lowered)))]
    results = ", ".join(f"results[{position}]" for position in _given_out(lowered))
    return ["def run_kernels(self, tensors):", *_called(lowered, users), f"    return [{results}]"]


def _given_out(lowered: Lowered) -> list[int]:
    """Outputs of the program that change what the caller holds, each once."""
    results = {value for kind, value in lowered.user_outputs if kind == "output"}
    return sorted(results | {position for position, _ in lowered.input_mutations})


def _replayed(users: Sequence[str]) -> list[str]:
    tensors = ", ".join(users) + ("," if len(users) == 1 else "")
    return [f"    results = replay(self, ({tensors}), run_kernels)"]


def _user_sources(lowered: Lowered) -> list[int]:
    return [i for i, source in enumerate(lowered.sources) if source.kind == "user"]


def _users(lowered: Lowered, names: list[str]) -> list[str]:
    """The caller's tensors, as expressions of forward's parameters, in the program's order."""
    return [_user_expression(lowered.sources[i].name, names) for i in _user_sources(lowered)]


def _called(lowered: Lowered, users: Sequence[str]) -> list[str]:
    """Lines that call `fused_operator` and change the module's state."""
    left, device = iter(users), f"{users[0]}.device" if users else "None"
    arguments = []
    for source in lowered.sources:
        if source.kind == "user":
            text = next(left)
        elif source.kind == "constant":
            text = _constant(source, device)
        elif source.kind == "attribute":
            text = f"{attributes.text(source.name)}.to({device})"
        else:
            text = f'self.get_{source.kind}("{source.name}")'
        arguments.append(
            carriers.carried_text(text, source.dtype) if is_carried(source.dtype) else text
        )
    return [
        "    results = fused_operator(",
        *(f"        {argument}," for argument in arguments),
        "    )",
        *(f"    {line}" for line in _separated(lowered)),
        *(f"    {line}" for line in _stores(lowered)),
    ]


def _separated(lowered: Lowered) -> list[str]:
    """Lines that do what `Lowered.separated` does."""
    return [
        f"results[{i}] = results[{i}].{_own_copy(lowered, i)}"
        for i in sorted(lowered.copied_outputs | lowered.contiguous_outputs)
    ]


def _own_copy(lowered: Lowered, position: int) -> str:
    """The call that gives a result the memory that the original's result has."""
    if position not in lowered.copied_outputs:
        return "contiguous()"
    is_contiguous = position in lowered.contiguous_outputs
    return f"clone({'memory_format=torch.contiguous_format' if is_contiguous else ''})"


def _stores(lowered: Lowered) -> list[str]:
    """Lines that change the module's state."""
    return [
        f"{attributes.text(name)} = {_result(lowered, position)}"
        if name in lowered.changed_attributes
        else f'self.get_buffer("{name}").copy_({_result(lowered, position)})'
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


def _constant(source: InputSource, device: str) -> str:
    """A tensor that is no parameter and no buffer: where the module holds it, or its values."""
    if source.path:
        return f"{source.path}.to({device})"
    tensor = source.tensor
    assert tensor is not None
    if tensor.numel() > MAX_CONSTANT_ELEMENTS:
        raise UsageError(
            f"forward uses a constant tensor of {tensor.numel()} elements that is no buffer",
            remedy="register it with register_buffer, so that it belongs to the module's state",
        )
    return f"constant({_values_text(tensor.tolist())}, {tensor.dtype}, {device})"


def _values_text(values: Any) -> str:
    """Numbers in tuples of tuples, or one number."""
    if not isinstance(values, list):
        return _plain_text(values)
    # Tuples and not lists, because `constant` caches by its arguments.
    return f"({', '.join(map(_values_text, values))}{',' * (len(values) == 1)})"


def _result(lowered: Lowered, position: int, places: Mapping[int, int] | None = None) -> str:
    """An output of the program in its own dtype.

    Args:
        places: where `results` holds an output of the program; at its own position by default.
    """
    text = f"results[{(places or {}).get(position, position)}]"
    dtype = lowered.carried_outputs.get(position)
    return carriers.restored_text(text, dtype) if dtype else text


def _returned(
    lowered: Lowered, names: list[str], results: ResultText, places: Mapping[int, int]
) -> list[str]:
    """Lines that change objects among the inputs and return the result."""
    inputs = {p: _user_expression(path, names) for p, path in lowered.leaf_paths.items()}
    leaf_of: dict[str, Callable[[Any], str]] = {
        "output": lambda i: _result(lowered, i, places),
        "input": lambda i: inputs[i],
        "value": _plain_text,
    }
    leaves = iter([leaf_of[kind](value) for kind, value in lowered.user_outputs])
    result, changed = [results.text(spec, leaves) for spec in lowered.out_spec.children()]
    lines = [
        f"{inputs[i]}.copy_({_result(lowered, position, places)})"
        for position, i in lowered.input_mutations
    ]
    # All results are computed from the old content before an input gets new content.
    if lowered.changed_parts:
        lines += [f"result, changed = {result}, {changed}"]
        lines += [f"become({results.parts[i]}, changed[{i}])" for i in lowered.changed_parts]
        result = "result"
    return [f"    {line}" for line in (*lines, f"return {result}")]


def _plain_text(value: Any) -> str:
    if isinstance(value, float) and value - value != 0:  # infinities and NaN have no literal
        return f'float("{value}")'
    return repr(value)
