"""Reads what guests answer, field by field, each within bounds.

A guest runs hostile code: a field may hold any JSON value. A function here gives plain data or
raises; `Exchange.reading` turns whatever is raised into a fault of the candidate's.
"""

from collections.abc import Sequence
from typing import Any

import torch

from kernelwright.core.text import printable
from kernelwright.sandbox.shared.contract import Compiled, Loaded, ProcessState
from kernelwright.sandbox.shared.tensors import TensorMeta

MAX_NAME, MAX_NAMES, MAX_STRUCTURE = 200, 4096, 1 << 16
"""Characters of a name, names in one answer, characters of a structure."""
_MAX_COUNT = 1 << 53
_MAX_SETTING, _MAX_PATH = 2_000, 1_000
"""Characters of a setting's value; of the path of a parameter."""
_USAGE = ("registers", "shared_bytes", "spills")


def name_of(value: object) -> str:
    """Returns a name that a guest wrote, without control codes and cut to `MAX_NAME`."""
    return printable(str(value), MAX_NAME)


def counts_of(values: dict[str, object]) -> dict[str, int]:
    """Returns counts by name that a guest wrote.

    Raises:
        ValueError, AttributeError: not counts, or too many.
    """
    if len(values) > MAX_NAMES:
        raise ValueError("too many names")
    return {name_of(name): count(number) for name, number in values.items()}


def count(value: object) -> int:
    """Returns a whole number from 0 to 2^53 that a guest wrote.

    Raises:
        ValueError: another value.
    """
    # `type` and not `isinstance`, because True is an int.
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise ValueError("a count must be a whole number from 0")
    return value


def _pairs(values: Sequence[Sequence[object]]) -> tuple[tuple[int, int], ...]:
    return tuple((count(i), count(j)) for i, j in values)


def call_facts(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns fields of `Ran` from a guest's description of one call. The outputs come separately.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the answer does not follow the protocol.
    """
    structure = str(answer["structure"])
    if len(structure) > MAX_STRUCTURE:
        raise ValueError("a structure of too many parts")
    kinds = ("launches", "suppressed", "operators")
    return {
        **{kind: counts_of(answer.get(kind, {})) for kind in kinds},
        "structure": printable(structure, MAX_STRUCTURE),
        "changed_inputs": tuple(map(count, answer["changed"])),
        "aliases": _pairs(answer["aliases"]),
        "shared": _pairs(answer.get("shared", ())),
        "held": tuple(map(count, answer.get("held", ()))),
        "inference": tuple(map(count, answer.get("inference", ()))),
        "grad": tuple(map(count, answer.get("grad", ()))),
        "overwritten": tuple(map(count, answer.get("overwritten", ()))),
        "kept_bytes": count(answer.get("kept_bytes", 0)),
        "overrun": bool(answer.get("overrun")),
        "process": process_state(answer["process"]),
    }


def process_state(values: Any) -> ProcessState:
    """Returns a guest's description of its process, with every text cut to a bound."""
    settings, objects = values["settings"], values.get("objects", {})
    if max(len(settings), len(objects)) > MAX_NAMES:
        raise ValueError("too many names")
    return ProcessState(
        settings={
            name_of(name): printable(str(text), _MAX_SETTING) for name, text in settings.items()
        },
        running=counts_of(values["running"]),
        objects={name_of(name): name_of(text) for name, text in objects.items()},
        changed=tuple(map(name_of, values.get("changed", ())[:MAX_NAMES])),
    )


def loaded(name: str, header: dict[str, Any]) -> Loaded:
    """Returns the description of a loaded candidate."""
    kernels = tuple(map(name_of, header["kernels"][:MAX_NAMES]))
    return Loaded(name, name_of(header["entry"]), kernels)


def attributes(header: dict[str, Any]) -> dict[str, Any]:
    """Returns plain attributes by path, as `instances` describes them."""
    values = header["attributes"]
    if len(values) > MAX_NAMES:
        raise ValueError("too many attributes")
    return {name_of(path): _attribute(value) for path, value in values.items()}


def entries(header: dict[str, Any]) -> list[tuple[str, str, TensorMeta]]:
    """Returns name, kind and description of each parameter and buffer."""
    return [
        (
            printable(str(entry["name"]), _MAX_PATH),
            name_of(entry["kind"]),
            TensorMeta.from_json(entry),
        )
        for entry in header["entries"]
    ]


def compiled(header: dict[str, Any]) -> Compiled:
    """Returns the usage and the signatures of compiled kernels. `launchers.plain_signature` checks
    the signatures."""
    usage = {
        name_of(kernel): counts_of({key: used[key] for key in _USAGE})
        for kernel, used in header["kernels"].items()
    }
    return Compiled(usage, tuple(header["signatures"][:MAX_NAMES]))


def metas(values: Any) -> list[TensorMeta]:
    """Returns descriptions of tensors."""
    return [TensorMeta.from_json(value) for value in values]


def time_ms(header: dict[str, Any]) -> float:
    """Returns a time in milliseconds, finite and above 0."""
    time_ms = header["time_ms"]
    if type(time_ms) is not float or not 0.0 < time_ms < float("inf"):
        raise ValueError("no time")
    return time_ms


def queued_ms(header: dict[str, Any]) -> float:
    """Returns a time in milliseconds, finite and not below 0."""
    queued_ms = header["queued_ms"]
    if type(queued_ms) is not float or not 0.0 <= queued_ms < float("inf"):
        raise ValueError("no time in which a call was queued")
    return queued_ms


def share(header: dict[str, Any]) -> float | None:
    """Returns a share from 0 to 1, or None."""
    value = header["share"]
    if value is not None and (type(value) is not float or not 0.0 <= value <= 1.0):
        raise ValueError("no share")
    return value


def unexpected(
    metas: Sequence[TensorMeta], like: Sequence[torch.Tensor] | None
) -> list[torch.Tensor | None]:
    """Returns a tensor without memory for each output that the host did not expect, and None for
    each other output. Values of unexpected outputs never reach the host."""
    if like is None:
        return [None] * len(metas)
    if len(metas) != len(like):
        return [meta.without_memory() for meta in metas]
    pairs = zip(metas, like, strict=True)
    return [None if meta.is_like(tensor) else meta.without_memory() for meta, tensor in pairs]


def _attribute(value: Any) -> Any:
    """A plain attribute as `instances` describes it."""
    if isinstance(value, str):
        return printable(value, MAX_NAME)
    if isinstance(value, dict):
        return float(value["float"]) if "float" in value else {"type": name_of(value["type"])}
    return value if value is None or isinstance(value, bool | int | float) else {"type": "?"}
