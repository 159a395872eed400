"""The process that runs whole scripts, each in a confined fork of its own.

Benchmarks that count exit codes and compare printed text need this. `host.scripts` starts the
process as `python -I -c ...`, and sends orders as lines of JSON. A fork costs some 20 ms, an import
of torch and Triton 2 s. CUDA is never initialised here, because forks use it.
"""

import json
import os
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from kernelwright.sandbox.confine import forked, guards, kernel, landlock, orphaned
from kernelwright.sandbox.confine.namespaces import Namespaces
from kernelwright.sandbox.shared.starting import ERRORS, OUTPUT, SCRATCH

_POLL_S = 0.005


def main(device: str, host: int) -> None:
    """Serve orders until the host closes its end.

    Args:
        device: "cpu" (Triton's interpreter) or "cuda".
        host: the process that started this one; it may have ended already.
    """
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # to end what scripts leave behind
    orphaned.end_with_parent(host)
    spaces = Namespaces(needs_proc=device == "cuda")
    _preload(device)
    _reply({"ready": True})
    while line := sys.stdin.readline():
        _reply(_run(json.loads(line), device, spaces))


def _reply(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _preload(device: str) -> None:
    """Import and patch, for all scripts, what guests have too."""
    from kernelwright.sandbox.guest import stub_gpu, warm_kernel
    from kernelwright.sandbox.guest.interpreter import patches as interpreter

    if device == "cpu":
        interpreter.install()
        stub_gpu.install()
        warm_kernel.interpret()
    else:
        import torch
        import triton  # noqa: F401

        torch.set_num_threads(1)
    landlock.packages()


def _run(order: dict[str, Any], device: str, spaces: Namespaces) -> dict[str, Any]:
    """Run a script to its end; "code" is None where its time was over."""
    begin_s = time.monotonic()
    server = os.getpid()
    try:
        pid, holder = spaces.fork()
    except OSError as error:
        if os.getpid() != server:  # the child must not go on as a second server
            os._exit(1)
        return {"failure": str(error)}
    if pid == 0:
        _become_script(order, device, spaces)
    code = _wait(pid, begin_s + order["wall_s"])
    _end_children(spaces)  # else a child of ours in the namespace would keep the holder
    spaces.end(holder)
    _end_children(spaces)
    return {"code": code, "seconds": time.monotonic() - begin_s}


def _wait(pid: int, end_s: float) -> int | None:
    while True:
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(_POLL_S)


def _end_children(spaces: Namespaces) -> None:
    """End processes that a script left behind."""
    forked.end(forked.children() - spaces.processes)


def _become_script(order: dict[str, Any], device: str, spaces: Namespaces) -> NoReturn:
    """Confine the forked child and run its script as the main program. Never returns."""
    code = 1
    try:
        folder = Path(order["folder"])
        scratch = folder / SCRATCH
        _redirect(folder)
        os.chdir(scratch)
        forked.write_only_in(scratch)
        guards.confine(
            guards.Confinement(
                folder=folder,
                scratch=scratch,
                memory_bytes=order["memory_bytes"],
                cpu_s=order["cpu_s"],
                on_gpu=device == "cuda",
                namespaces=spaces,
            )
        )
        sys.argv = [str(folder / order["name"])]
        sys.path.insert(0, str(folder))  # scripts may import themselves by their name
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # the script may have closed or replaced the stream
                code = code or 1
        os._exit(code & 0xFF)


def _redirect(folder: Path) -> None:
    """Send the standard streams to files of the folder, and close all other descriptors."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for name, number in ((OUTPUT, 1), (ERRORS, 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), number)
    os.closerange(3, 65_536)
