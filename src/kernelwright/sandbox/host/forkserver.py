"""Host side of the fork server: starts it once for each role in a process, and asks it for guests.

An import of torch and Triton takes 2 s, a forked guest with all its guards some 20 ms. So there is
one server, started when the first guest is asked for, and a fresh guest for each candidate.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernelwright.core.errors import GuestLost, InfraError
from kernelwright.sandbox.confine import orphaned
from kernelwright.sandbox.host import launchers
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.host.guest_process import GuestProcess
from kernelwright.sandbox.shared import own_folders, removal, wire
from kernelwright.sandbox.shared.contract import Limits
from kernelwright.sandbox.shared.starting import END, MAX_MESSAGE_BYTES, SCRATCH, START_FAILURE
from kernelwright.timing.stages import stage

_START_S = 120.0
_ANSWER_S = 30.0
_END_S = 5.0
_FORK_PAUSES_S = (0.2, 1.0)
_CHANNEL_BYTES = 1 << 22

_PACKAGES = ("torch", "triton", "numpy", "time_machine")
"""Packages that the fork server and its guests import, beside the standard library and
kernelwright."""

_ENVIRONMENT = [
    "PATH",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CUDA_DEVICE_ORDER",
    "CC",
]
"""Variables of the host's environment that guests see."""
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Libraries that start threads at the first large product, which would pass for the candidate's."""
_TEMPORARY = "temporary"
"""The server's own folder for temporary files, beside those of guests."""


class ForkServer:
    """Forks guests that run candidates on `device`: "cpu" (Triton's interpreter), "cuda", or
    "compile" (no interpreter and no GPU: kernels are compiled, never launched).

    Threads may share a server. `shared(device)` gives the server of this process.
    """

    def __init__(self, device: str = "cpu") -> None:
        if device not in ("cpu", "cuda", "compile"):
            raise ValueError(f"no such guest device: {device!r}")
        self.device = device
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._root: Path | None = None
        self._has_compiler, self._may_import = False, True
        orphaned.add_heir(self.clears_up)
        atexit.register(self.close)

    @stage("start server")
    def start(self, *, compiles: bool = False) -> None:
        """Starts the server, for which the first guest would otherwise wait.

        Args:
            compiles: import PyTorch's compiler there, for guests that compile. Where that import
                uses the GPU's driver, guests import for themselves.

        Raises:
            InfraError: it cannot be started.
        """
        with self._lock:
            self._start()
            if compiles and self._may_import and not self._has_compiler:
                with suppress(GuestLost):  # the next guest starts another server
                    self._import_compiler()

    @stage("start guest")
    def guest(
        self,
        limits: Limits | None = None,
        *,
        trusted: bool = False,
        patient: bool = False,
        compiles: bool = False,
    ) -> Guest:
        """Starts a fresh confined process, a context manager.

        Args:
            limits: None stands for the defaults of `Limits`.
            trusted: the sources are our own (the teacher's in screening): compiled kernels are kept
                in a cache that trusted guests of every server share. Others read it and compile
                what is not there into their own folder.
            patient: the guest sleeps while it waits for the GPU: for guests that take no times.
            compiles: on a GPU, for a candidate that uses torch.compile: the compiler is loaded
                first, so that the variables and limits that it sets are not the candidate's.

        Raises:
            GuestLost: the guest did not start, or the server ended; the next call starts another.
            InfraError: the server cannot be started.
        """
        limits = limits or Limits()
        memory = self._memory()
        with self._lock:
            self._start()
            root = self._root
        assert root is not None
        folder = Path(tempfile.mkdtemp(dir=root, prefix="guest-"))
        (folder / SCRATCH).mkdir()
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHANNEL_BYTES)
        request = {
            "op": "fork",
            "folder": str(folder),
            "cache": str(_trusted_cache(os.getpid())) if trusted else "",
            "ours": self._ours(),
            "memory_bytes": limits.memory_bytes,
            "cpu_s": limits.cpu_s,
            "patient": patient,
            "compiles": compiles,
        }
        try:
            with theirs:
                server, pid = self._fork(request, theirs)
            process = GuestProcess(pid, partial(self._reap, server, pid))
            return Guest(ours, process, folder, limits, memory)
        except (TimeoutError, wire.Closed, wire.MalformedFrame) as error:
            log = folder / START_FAILURE
            why = log.read_text(errors="replace") if log.exists() else type(error).__name__
            ours.close()
            removal.remove(folder)
            raise GuestLost(f"the guest did not start: {why}") from error

    def close(self) -> None:
        """Ends the server and all guests, and removes their folders."""
        with self._lock:
            self._end_server()
            if self._root is not None:
                own_folders.remove(self._root)
            self._root = None

    def clears_up(self) -> bool:
        """Whether the server removes the folders of this process if this process ends now. Takes no
        lock, which another thread may hold for long."""
        process = self._process
        return self._control is not None and process is not None and process.poll() is None

    def _end_server(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            with suppress(OSError):
                control.send(END, socket.MSG_DONTWAIT)
            control.close()
        if self._process is not None:
            # The server ends its guests first. A Ctrl-C meanwhile ends the server at once.
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.wait(_END_S)
            self._process.kill()
            self._process.wait()
        self._process = None

    def _ours(self) -> list[str]:
        """Returns folders of compiled kernels (0.1 to 5 s each) and launchers (0.5 s of gcc each).
        Without CUDA guests read their own folder only."""
        if self.device != "cuda":
            return []
        return [str(_trusted_cache(os.getpid())), str(launchers.folder())]

    def _memory(self) -> Any:
        if self.device != "cuda":
            return None
        from kernelwright.sandbox.shared.cuda_memory import DeviceMemory

        return DeviceMemory()

    def _fork(
        self, request: dict[str, Any], channel: socket.socket
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Returns the server that forked a guest, and the guest's process id. Tries again a little
        later where the machine has no room for another process."""
        for pause_s in (*_FORK_PAUSES_S, None):
            with self._lock:
                self._start()
                assert self._process is not None
                server, answer = self._process, self._ask(request, channel)
            if "pid" in answer:
                return server, int(answer["pid"])
            if pause_s is not None:
                time.sleep(pause_s)
        raise GuestLost(f"no guest can be forked: {answer['error']}")

    def _import_compiler(self) -> None:
        """Imports PyTorch's compiler in the server. The caller holds the lock.

        Raises:
            GuestLost: the server failed; guests import for themselves from now on.
        """
        assert self._control is not None
        # Set first: if the server dies in this import, the next server must not try again.
        self._may_import = False
        self._control.settimeout(_START_S)
        self._may_import = self._ask({"op": "import compiler"})["usable"]
        self._has_compiler = self._may_import
        if self._may_import:
            self._control.settimeout(_ANSWER_S)
        else:
            self._end_server()
            self._start()

    def _reap(self, server: subprocess.Popen[bytes], pid: int) -> int | None:
        with self._lock:
            if self._process is not server:
                raise GuestLost("the guest's fork server has ended")
            status = self._ask({"op": "reap", "pid": pid})["status"]
        return None if status is None else int(status)

    def _ask(self, request: dict[str, Any], passed: socket.socket | None = None) -> dict[str, Any]:
        """Sends a request and returns the answer. The caller holds the lock; a server that fails is
        ended."""
        assert self._control is not None
        try:
            message = [json.dumps(request).encode()]
            socket.send_fds(self._control, message, [passed.fileno()] if passed else [])
            answer = json.loads(self._control.recv(MAX_MESSAGE_BYTES) or b"{}")
        except OSError as error:
            self._end_server()
            raise GuestLost(f"the fork server does not answer: {error}") from error
        except KeyboardInterrupt:
            self._end_server()  # its answer would be taken for the answer to the next request
            raise
        if not isinstance(answer, dict) or not answer:
            self._end_server()
            raise GuestLost("the fork server has ended")
        return answer

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._end_server()
        self._has_compiler = False
        if self._root is None:
            self._root = own_folders.make("server")
            (self._root / _TEMPORARY).mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_START_S)
        code = (
            f"import sys; sys.path[:0] = {package_folders()!r}; "
            "from kernelwright.sandbox.guest.forkloop import main; "
            f"main({theirs.fileno()}, {self.device!r}, {os.getpid()})"
        )
        environment = environment_of(self.device, self._root / _TEMPORARY)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                pass_fds=[theirs.fileno()],
                cwd=self._root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=(self._root / "server.log").open("wb"),
                start_new_session=True,  # Ctrl-C is for us: what is right so far is still judged
            )
        self._control = ours
        try:
            ready = ours.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            self._end_server()
            raise InfraError(f"the fork server does not start: {error}") from error
        except KeyboardInterrupt:
            self._end_server()
            raise
        if not ready:
            self._end_server()
            log = (self._root / "server.log").read_text(errors="replace")[-2_000:]
            raise InfraError(f"the fork server died while it started:\n{log}")
        ours.settimeout(_ANSWER_S)


def environment_of(device: str, temporary: Path) -> dict[str, str]:
    """Returns the environment of a process that forks confined processes for `device`.

    Args:
        temporary: where torch makes a folder of its own.
    """
    environment = {k: os.environ[k] for k in _ENVIRONMENT if k in os.environ}
    environment |= dict.fromkeys(_ONE_THREAD, "1")
    environment["TMPDIR"] = str(temporary)
    if device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    return environment


@cache
def package_folders() -> list[str]:
    """Returns the folders of what guests import. They can be on this process's path alone, for
    example through PYTHONPATH, which an isolated interpreter does not read."""
    folders = [Path(__file__).parents[3]]
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise InfraError(f"{name} is not installed; run `pip install .` again")
        folders.append(Path(spec.origin).parents[1])
    return list(dict.fromkeys(map(str, folders)))


@cache
def _trusted_cache(_process_id: int) -> Path:
    """Returns the folder of kernels and launchers compiled from our own sources, by all servers of
    this process. Triton keys them by source and options."""
    return own_folders.make("cache")


@cache
def _shared(device: str, _process_id: int) -> ForkServer:
    return ForkServer(device)


def shared(device: str) -> ForkServer:
    """Returns the fork server of this process for `device`; it starts with its first guest."""
    return _shared(device, os.getpid())
