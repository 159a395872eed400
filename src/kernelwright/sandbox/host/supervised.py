"""Runs user code in a process of its own: the parent notices a reference that ends or hangs it.

A parent starts the command again as its child and waits. The child says on a pipe when code of the
user's begins and ends, and at last that the child is done. A child that ends without this message
was ended by user code. The parent ends user code that takes too long.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.sandbox.confine import kernel
from kernelwright.sandbox.confine.kernel import signal_name

VARIABLE = "KERNELWRIGHT_SUPERVISOR"
"""Environment variable: the number of the child's end of the pipe, and the parent's process."""
LOAD_S, CALL_S = 120.0, 600.0
"""The most seconds of user code: an import, a construction or a draw of inputs; a call."""
_POLL_S = 0.5
_END_S = 10.0


@dataclass(slots=True)
class _SupervisedChild:
    """The child's side."""

    pipe: int | None = None
    limit_s: float = CALL_S
    owner: int = 0
    running: list[tuple[str, float]] = field(default_factory=list)
    """Names and limits of user code, the innermost last."""


_child = _SupervisedChild()


def attach() -> bool:
    """Takes over the pipe, in the child. Returns False where no parent supervises this process."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return False
    pipe, parent = map(int, text.split())
    os.set_inheritable(pipe, False)  # a process of the user's would keep the pipe open
    _child.pipe, _child.owner = pipe, os.getpid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # gone before the request was made
        os._exit(1)
    return True


def limit_user_code(limit_s: float) -> None:
    """Makes the parent end user code after so many seconds, from here on."""
    _child.limit_s = min(CALL_S, limit_s)


@contextmanager
def user_code(name: str, limit_s: float = CALL_S) -> Iterator[None]:
    """Marks code of the user's inside, which the parent ends after its limit.

    In a fork, in another thread, and without a parent this does nothing.

    Args:
        name: for messages, for example "get_inputs()".
        limit_s: the parent ends this process after so many seconds.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if _child.pipe is None or os.getpid() != _child.owner or not is_main:
        yield
        return
    _child.running.append((name, min(limit_s, _child.limit_s)))
    _tell()
    try:
        yield
    finally:
        _child.running.pop()
        _tell()


def _tell() -> None:
    """Tells the parent which user code runs, if any does."""
    name, limit_s = _child.running[-1] if _child.running else ("", 0.0)
    _say({"running": name, "limit_s": limit_s})


def done(code: int) -> None:
    """Tells the parent that the child ends by itself, with this exit code."""
    tell({"done": code})


def tell(message: dict[str, object]) -> None:
    """Sends the parent a message of ours. A fork of the child sends nothing."""
    if _child.pipe is not None and os.getpid() == _child.owner:
        _say(message)


def is_child() -> bool:
    """Whether a parent supervises this process."""
    return _child.pipe is not None


def _say(message: dict[str, object]) -> None:
    if _child.pipe is not None:
        with suppress(OSError):  # the parent is gone, and this process ends with it
            os.write(_child.pipe, json.dumps(message).encode() + b"\n")


def import_path() -> dict[str, str]:
    """Returns the environment variable with which a child finds the modules that this process
    finds."""
    return {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def start(command: Sequence[str], **options: Any) -> "tuple[subprocess.Popen[bytes], int]":
    """Starts a child that attaches itself. Returns the child and the parent's end of the pipe.

    Args:
        options: of `subprocess.Popen`.
    """
    reader, writer = os.pipe()
    environment = {**os.environ, **options.pop("env", {}), VARIABLE: f"{writer} {os.getpid()}"}
    child = subprocess.Popen(command, pass_fds=(writer,), env=environment, **options)
    os.close(writer)
    return child, reader


def messages(child: "subprocess.Popen[bytes]", reader: int) -> Iterator[dict[str, Any]]:
    """Yields the child's messages, except those about user code.

    Raises:
        UsageError: user code ended the child, or ran for too long.
        InfraError: the child ended for another reason.
    """
    running, limit_s, end_s, rest = "", 0.0, float("inf"), b""
    while True:
        ready, _, _ = select.select([reader], [], [], _POLL_S)
        if ready:
            text = os.read(reader, 1 << 16)
            *lines, rest = (rest + text).split(b"\n")
            for message in map(json.loads, lines):
                if "running" not in message:
                    yield message
                    continue
                running, limit_s = str(message["running"]), float(message["limit_s"])
                end_s = time.monotonic() + limit_s if running else float("inf")
            if not text:
                raise _death(child, running)
        if time.monotonic() > end_s:
            child.kill()
            child.wait()
            raise UsageError(
                f"{running} did not return within {limit_s:.0f} s",
                remedy="see that the file runs by itself, and in less time",
            )


def supervise(command: Sequence[str]) -> int:
    """Runs a command of ours in a child, waits, and returns its exit code.

    Signals that end a program go to the child, which ends its work in order.

    Raises:
        UsageError: user code ended the child, or ran for too long.
        InfraError: the child ended for another reason.
    """
    child, reader = start(command)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),  # the terminal tells both
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
    }
    try:
        code = next(int(said["done"]) for said in messages(child, reader) if "done" in said)
        return _ended(child, code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        if child.poll() is None:
            child.kill()
            child.wait()


def _ended(child: "subprocess.Popen[bytes]", code: int) -> int:
    """Returns the exit code that the child announced, and ends a child that does not end by
    itself."""
    try:
        child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return code


def _death(child: "subprocess.Popen[bytes]", running: str) -> Exception:
    """Returns the error for a child that ended without a message: the user's where user code ran,
    or where the child exited by itself."""
    code = child.wait()
    how = f"the process was ended by {signal_name(-code)}" if code < 0 else f"it exited with {code}"
    if running:
        return UsageError(
            f"{running} ended the process: {how}", remedy="mend the file; it must run by itself"
        )
    if code < 0:
        return InfraError(f"the working process was ended by {signal_name(-code)}")
    return UsageError(
        f"the process ended before the result was known: {how}",
        remedy="see that nothing in the file calls os._exit, also at exit or in threads",
    )


def command_again(arguments: Sequence[str]) -> list[str]:
    """Returns the command line that starts this program again with these arguments."""
    return [sys.executable, "-P", "-m", "kernelwright.cli.main", *arguments]
