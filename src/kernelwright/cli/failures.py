"""Errors as the user sees them: one message with a remedy, an exit code, JSON where asked for."""

import os
import tempfile
import traceback
from pathlib import Path
from typing import Any

from kernelwright.cli.console import note, print_json
from kernelwright.core.errors import FULL_DISK, InfraError, UsageError, file_error

USAGE_CODE, INFRA_CODE, UNFINISHED_CODE = 2, 3, 4
TRACEBACK_VARIABLE = "KERNELWRIGHT_TRACEBACK"
"""Environment variable: with any value, the traceback of a fault of ours goes to stderr."""
RESUMABLE = frozenset(
    {"verify-many", "synth", "data build", "data collect", "data pool", "lint"}
    | {f"eval {suite}" for suite in ("all", "kernelbench", "models", "synthetic", "modules")}
    | {"eval tritonbench", "eval corpus"}
)
"""Verbs that the same command resumes after an interruption."""


def show(error: Exception, *, as_json: bool) -> int:
    """Print an error that ended a verb; return the exit code."""
    if (users := _users(error)) is not None:
        return _show_users(users, as_json=as_json)
    cause = error.__cause__ if isinstance(error, InfraError) else None
    message = str(error) if isinstance(error, InfraError) else f"{type(error).__name__}: {error}"
    where = _written(cause or error)
    if as_json:
        facts = {"kind": "infra", "message": str(error), "traceback": where}
        print_json({"error": facts})
    note(f"our side failed, nothing is known about the input: {message}", "red")
    if where:
        note(f"  traceback: {where}")
    return INFRA_CODE


def show_interrupted(verb: str, code: int, *, as_json: bool) -> int:
    """Print that a signal ended a verb; return the exit code."""
    message = f"{verb} was interrupted"
    remedy = "run the same command again: it goes on from here" if verb in RESUMABLE else ""
    if as_json:
        print_json({"error": {"kind": "interrupted", "message": message, "remedy": remedy}})
    note(f"{message}; {remedy}" if remedy else message, "yellow")
    return code


def _users(error: Exception) -> UsageError | None:
    """The user's error that `error` is or stems from."""
    if isinstance(error, UsageError):
        return error
    if hasattr(error, "format_message"):  # the parser's errors: typer has no public name for them
        return _of_parser(error)
    if isinstance(error, OSError):
        return file_error(error)
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in FULL_DISK:
            return file_error(cause)
        cause = cause.__cause__
    return None


def _of_parser(error: Any) -> UsageError:
    """A wrong option or argument, with the command that lists the right ones."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "kernelwright"
    text = " ".join(error.format_message().split()).rstrip(".") or "the command is missing"
    return UsageError(text, remedy=f"see `{command} --help`")


def _show_users(error: UsageError, *, as_json: bool) -> int:
    if as_json:
        print_json({"error": {"kind": "usage", **error.to_json()}})
    note(f"error: {error}", "red")
    return USAGE_CODE


def _written(error: BaseException) -> str | None:
    """The file with an error's traceback; None where stderr has it or no file can be written."""
    text = "".join(traceback.format_exception(error))
    if os.environ.get(TRACEBACK_VARIABLE):
        note(text)
        return None
    try:
        handle, name = tempfile.mkstemp(prefix="kernelwright-fault-", suffix=".txt")
        os.close(handle)
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        note(f"  set {TRACEBACK_VARIABLE}=1 to see the traceback")
        return None
    return name
