"""What differs between records and the kinds that `core.kinds` declares."""

from importlib import import_module
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from kernelwright.core import record

MODULES = ("searching", "suites", "models", "tritonbench", "judging", "training", "data")
KINDS = {
    name: kind
    for module in MODULES
    for name, kind in vars(import_module(f"kernelwright.core.kinds.{module}")).items()
    if name.endswith("Line")
}
COMMANDS = ("optimize", "verify-many", "eval", "lint", "data")
"""First words of commands whose runs are declared. Tools of the checkout write their own runs."""


def words_of_kinds():
    """Word in the field `record` -> the kinds that have the word."""
    words = {}
    for kind in KINDS.values():
        words.setdefault(record.word_of(kind), []).append(kind)
    return words


WORDS = words_of_kinds()


def undeclared(value, kind, where=""):
    """The fields of a value, at any depth, that its kind does not declare."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_typeddict(kind) and isinstance(value, dict):
        fields = get_type_hints(kind)
        for name, inner in value.items():
            if name not in fields:
                yield f"{where}{name}"
            else:
                yield from undeclared(inner, fields[name], f"{where}{name}.")
    elif origin in (Union, UnionType):
        for choice in arguments:
            yield from undeclared(value, choice, where)
    elif origin is list and isinstance(value, list):
        for inner in value:
            yield from undeclared(inner, arguments[0], where)
    elif origin is dict and isinstance(value, dict):
        for inner in value.values():
            yield from undeclared(inner, arguments[1], where)


def fault_of(line, kind):
    """What is wrong with a line of a kind; "" where nothing is."""
    if unknown := sorted(set(undeclared(line, kind))):
        return f"unknown fields {unknown}"
    try:
        msgspec.convert(line, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def is_declared(line):
    """Whether a kind has to fit: tools of the checkout write other kinds and other runs."""
    if line.get("record") == "run":
        return line.get("command", "").partition(" ")[0] in COMMANDS
    return line.get("record") in WORDS


def faults_in(path):
    """What is wrong with the lines of a file, each fault once: nothing where some kind fits."""
    faults = set()
    for line in filter(is_declared, record.read(path)):
        reasons = [fault_of(line, kind) for kind in WORDS[line["record"]]]
        if "" not in reasons:
            faults.add(f"{line['record']}: {' | '.join(reasons)}")
    return faults
