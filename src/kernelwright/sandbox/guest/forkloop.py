"""The fork server's process: imports torch and Triton once, then forks a guest per request.

Started by `forkserver.ForkServer` as `python -I -c ...` with one end of a socket pair. CUDA is
never initialised here: a process that did cannot fork guests that use it.
"""

import gc
import json
import os
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from kernelwright.sandbox.confine import forked, guards, kernel, orphaned
from kernelwright.sandbox.confine.namespaces import Namespaces
from kernelwright.sandbox.shared import own_folders
from kernelwright.sandbox.shared.starting import END, MAX_MESSAGE_BYTES, SCRATCH, START_FAILURE

_HOST_S = 10.0
"""The most seconds from the end of the host's channel to the end of the host."""

Serve = Callable[[socket.socket, dict[str, Any], list[str]], None]
"""A guest's loop: of a channel, the host's order and the names of the guards that hold."""


def main(control_fd: int, role: str, host: int) -> None:
    """Serves until the host closes its end.

    Args:
        role: "cpu", "cuda" or "compile".
        host: the process that started this one; it may have ended already.
    """
    control = socket.socket(fileno=control_fd)
    leave = partial(_leave, control, host, Path.cwd().parent)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # to end what guests leave behind
    spaces = Namespaces(needs_proc=role == "cuda")
    with orphaned.watched(control, leave):
        serve = _preloaded(role)
    _share_pages()
    guests: dict[int, int] = {}
    _reply(control, {"ready": os.getpid()})
    while True:
        text, fds = _next(control)
        if text in (b"", END):
            leave(text)
        message = json.loads(text)
        if message["op"] == "fork":
            _reply(control, _fork(guests, control, fds[0], role, message, spaces, serve))
            os.close(fds[0])
        elif message["op"] == "import compiler":
            with orphaned.watched(control, leave):
                _import_compiler()
            _reply(control, {"usable": role != "cuda" or _forks_can_use_cuda()})
        else:
            _reply(control, _reap(message["pid"], guests, spaces))


def _fork(
    guests: dict[int, int],
    control: socket.socket,
    channel_fd: int,
    role: str,
    message: dict[str, Any],
    spaces: Namespaces,
    serve: Serve,
) -> dict[str, Any]:
    """Starts a guest; `guests` remembers the holder of its namespaces. Returns the answer for the
    host."""
    server = os.getpid()
    try:
        pid, holder = spaces.fork()
    except ConnectionError:
        raise  # no guests without the keeper: the host starts another server
    except OSError:
        # The child may fail to join its namespaces: it must not go on as a second server.
        if os.getpid() != server:
            _fail(message)
        return {"error": traceback.format_exc(limit=0).strip()}
    if pid == 0:
        control.close()
        _become_guest(channel_fd, role, message, spaces, serve)
    guests[pid] = holder
    return {"pid": pid}


def _reply(control: socket.socket, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the host is gone, as the next message shows
        control.send(json.dumps(message).encode())


def _next(control: socket.socket) -> tuple[bytes, list[int]]:
    """Returns the host's next message; empty where the host is gone."""
    with suppress(ConnectionResetError):
        text, fds, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 1)
        return text, fds
    return b"", []


def _leave(control: socket.socket, host: int, folders: Path, text: bytes | None = None) -> NoReturn:
    """Ends the process with all guests. If the host is gone, removes its folders, which lie in
    `folders`."""
    text = _next(control)[0] if text is None else text
    _end_all()
    if orphaned.is_gone(host, 0.0 if text == END else _HOST_S):
        own_folders.remove_stale(folders)
    os._exit(0)


def _preloaded(role: str) -> Serve:
    """Imports, warms up and patches modules, which every guest would otherwise pay for (0.1 s
    interpreted, 0.4 s compiled). Returns the loop of a guest."""
    from kernelwright.sandbox.confine import landlock
    from kernelwright.sandbox.guest import crossings, inside, stub_gpu, surroundings, warm_kernel
    from kernelwright.sandbox.guest.interpreter import patches as interpreter

    surroundings.move_clocks_from_here_on()
    crossings.watch_storages()
    if role == "cpu":
        interpreter.install()
        stub_gpu.install()
        warm_kernel.interpret()
    else:
        with stub_gpu.active_driver():
            warm_kernel.compile_only()
    if role == "compile":
        stub_gpu.install()
    landlock.packages()
    return partial(inside.serve, inside.Inside(role))


def _import_compiler() -> None:
    """Imports PyTorch's compiler, for all guests that are forked from now on."""
    from kernelwright.sandbox.guest import compiling

    compiling.import_compiler()
    _share_pages()


def _forks_can_use_cuda() -> bool:
    """Whether imported code has left the driver alone. A process that has asked the driver anything
    cannot fork guests that use the GPU."""
    import torch

    pid = os.fork()
    if pid == 0:
        os._exit(torch.cuda._is_in_bad_fork())
    return os.waitpid(pid, 0)[1] == 0


def _share_pages() -> None:
    """Keeps the garbage collector of guests from copying pages that they share with the server."""
    gc.collect()
    gc.freeze()


def _reap(pid: int, guests: dict[int, int], spaces: Namespaces) -> dict[str, Any]:
    """Returns the status of a guest that ended (None where it still runs), and ends all that it
    left behind."""
    reaped, status = os.waitpid(pid, os.WNOHANG)
    if reaped == 0:
        return {"status": None}
    holder = guests.pop(pid)
    _end_orphans(guests, spaces)  # else a child of ours in the namespace would keep the holder
    spaces.end(holder)
    _end_orphans(guests, spaces)
    return {"status": os.waitstatus_to_exitcode(status)}


def _end_orphans(guests: dict[int, int], spaces: Namespaces) -> None:
    """Ends processes that guests left to the server."""
    forked.end(forked.children() - guests.keys() - spaces.processes)


def _end_all() -> None:
    """Ends every guest and what guests left behind: the host is gone or done."""
    while children := forked.children():
        forked.end(children)


def _become_guest(
    channel_fd: int, role: str, message: dict[str, Any], spaces: Namespaces, serve: Serve
) -> None:
    """Confines the forked child and serves the host. Never returns."""
    try:
        channel_fd = _keep_only(channel_fd)
        folder = Path(message["folder"])
        scratch = folder / SCRATCH
        os.chdir(folder)
        forked.write_only_in(scratch, message["cache"])
        active = guards.confine(
            guards.Confinement(
                folder=folder,
                scratch=scratch,
                cache=Path(message["cache"]) if message["cache"] else None,
                memory_bytes=message["memory_bytes"],
                cpu_s=message["cpu_s"],
                on_gpu=role == "cuda",
                namespaces=spaces,
            )
        )
        channel = socket.socket(fileno=channel_fd)
        serve(channel, message, active)
        os._exit(0)
    except BaseException:
        _fail(message)


def _fail(message: dict[str, Any]) -> NoReturn:
    """Ends a guest that cannot start, and writes down the reason."""
    try:
        Path(message["folder"], START_FAILURE).write_text(traceback.format_exc())
    finally:
        os._exit(1)


def _keep_only(channel_fd: int) -> int:
    """Closes every descriptor except the channel, which is moved to a number that cannot be
    guessed."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    target = 100 + int.from_bytes(os.urandom(2), "big") % 800
    os.dup2(channel_fd, target, inheritable=False)  # a program it starts would keep it open
    os.closerange(3, target)
    os.closerange(target + 1, 65_536)
    return target
