"""A guest's namespaces: users, network, System V IPC, process ids, and mounts for its own /proc.

Each guest joins the namespaces of a holder: a small process that makes them and waits. In the PID
namespace the holder is process 1. When the holder is ended, the kernel ends all processes there.
The guest is not process 1, so any signal can end it. The keeper makes the holders: a process that
is forked before the fork server is big and has threads.
"""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from kernelwright.sandbox.confine import kernel

_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_KINDS = {_NEWUSER: "user", _NEWNET: "net", _NEWIPC: "ipc", _NEWPID: "pid", _NEWNS: "mnt"}
"""In the order in which a guest joins: the first gives it the right to the others."""

_CLONE = {"x86_64": 56, "aarch64": 220}
_NOSUID_NODEV_NOEXEC, _PRIVATE_AND_BELOW = 0b1110, 0x44000
_MAX_WORDS_BYTES = 1_024
_WITH_OWN_PROC, _WITHOUT_OWN_PROC, _FAILS = 0, 10, 11  # exit codes of a trial


class Namespaces:
    """The server's side: forks guests into namespaces of their own.

    Make it before the server starts threads or loads anything. Namespaces that the kernel refuses
    to this user are left out; `names` says which ones guests get.

    Args:
        needs_proc: no PID namespace without a /proc of its own. CUDA's driver names its threads
            through /proc, where it must find them under the numbers that it knows.
    """

    def __init__(self, *, needs_proc: bool) -> None:
        self.own_proc = False
        self._flags = 0
        self._keeper = 0
        own_users = _NEWUSER if _has_own_users() else 0
        for flags in ([_NEWPID | _NEWNS] if kernel.MACHINE in _CLONE else []) + [0]:
            self._start_keeper(own_users | _NEWNET | _NEWIPC | flags)
            if self._try() and (self.own_proc or not flags or not needs_proc):
                return
            self._end_keeper()
        self._flags = 0

    @property
    def names(self) -> list[str]:
        active = [f"{kind}ns" for flag, kind in _KINDS.items() if self._flags & flag & ~_NEWNS]
        return active + ["procfs"] * self.own_proc

    @property
    def processes(self) -> set[int]:
        """Children of the server that are no guests."""
        return {self._keeper} if self._keeper else set()

    def fork(self) -> tuple[int, int]:
        """Forks as `os.fork`, into new namespaces and a session of its own.

        Returns:
            (pid, holder) in the caller, for `end`; (0, 0) in the guest.

        Raises:
            OSError: nothing can be started now; in the caller.
            ConnectionError: the keeper has ended.
        """
        holder = self._new_holder() if self._flags else 0
        try:
            if self._flags & _NEWPID:
                _join(holder, [_NEWPID])  # holds for children only
            pid = os.fork()
        except OSError:
            self.end(holder)
            raise
        if pid == 0:
            os.setsid()
            joined = [flag for flag in _KINDS if self._flags & flag & ~_NEWPID]
            _join(holder, joined)
            return 0, 0
        return pid, holder

    def end(self, holder: int) -> None:
        """Ends a holder and, in a PID namespace, all processes that its guest left behind.

        Raises:
            ConnectionError: the keeper has ended.
        """
        if holder:
            self._ask(f"end {holder}")

    def _try(self) -> bool:
        """Starts and ends a guest that does nothing, and returns whether that worked. A child does
        this: a process that has joined a PID namespace which then ended can start no process but
        guests."""
        if pid := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            self.own_proc = code == _WITH_OWN_PROC
            return code in (_WITH_OWN_PROC, _WITHOUT_OWN_PROC)
        code, guest = _FAILS, -1
        try:
            guest, holder = self.fork()
            if guest and os.waitpid(guest, 0)[1] == 0:
                code = _WITH_OWN_PROC if self.own_proc else _WITHOUT_OWN_PROC
            self.end(holder)
        finally:
            os._exit(code if guest else 0)

    def _new_holder(self) -> int:
        answer = self._ask("new").split()
        if answer[0] == "error":
            raise OSError(int(answer[1]), os.strerror(int(answer[1])))
        self.own_proc = answer[1] == "proc"
        return int(answer[0])

    def _start_keeper(self, flags: int) -> None:
        self._flags = flags
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._keeper = os.fork()
        if self._keeper == 0:
            self._channel.close()
            _keep(theirs, flags)
        theirs.close()

    def _end_keeper(self) -> None:
        self._channel.close()
        os.waitpid(self._keeper, 0)
        self._keeper = 0

    def _ask(self, words: str) -> str:
        self._channel.send(words.encode())
        answer = self._channel.recv(_MAX_WORDS_BYTES).decode()
        if not answer:
            raise ConnectionError("the keeper of namespaces has ended")
        return answer


def _has_own_users() -> bool:
    """Moves the server into a user namespace, where it may make and join all others. Returns False
    where the kernel refuses."""
    uid, gid = os.getuid(), os.getgid()
    try:
        kernel.unshare(_NEWUSER)
        _map_user(uid, gid)
    except OSError:
        return False
    return True


def _map_user(uid: int, gid: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path("/proc/self", name).write_text(text)


def _join(holder: int, flags: list[int]) -> None:
    handles = [os.open(f"/proc/{holder}/ns/{_KINDS[flag]}", os.O_RDONLY) for flag in flags]
    for handle, flag in zip(handles, flags, strict=True):
        kernel.setns(handle, flag)
        os.close(handle)


# -- the keeper's process and its holders


def _keep(channel: socket.socket, flags: int) -> NoReturn:
    """Runs the keeper: makes and ends holders as asked, until the server is gone."""
    try:
        _close_all_but(channel.fileno())
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        holders: set[int] = set()
        ahead = ""  # making a holder takes 3 ms: one is ready before it is asked for
        while words := channel.recv(_MAX_WORDS_BYTES).decode().split():
            if words[0] == "new":
                channel.send((ahead or _make_holder(holders, flags)).encode())
                ahead = _make_holder(holders, flags)
                ahead = "" if ahead.startswith("error") else ahead
            else:
                _kill(int(words[1]))
                holders.discard(int(words[1]))
                channel.send(b"ended")
        for holder in holders:
            _kill(holder)
    finally:
        os._exit(0)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _make_holder(holders: set[int], flags: int) -> str:
    """Starts a holder; returns its process id and "proc" or "plain", or "error" and an errno."""
    uid, gid = os.getuid(), os.getgid()  # the holder has neither until they are mapped
    ready, notifier = os.pipe()
    try:
        pid = _start(flags)
    except OSError as error:
        os.close(notifier)
        os.close(ready)
        return f"error {error.errno}"
    if pid == 0:
        _hold(flags, uid, gid, notifier)
    os.close(notifier)
    with open(ready) as reading:
        words = reading.read()
    if words.startswith("error"):
        _kill(pid)
        return words
    holders.add(pid)
    return f"{pid} {words}"


def _start(flags: int) -> int:
    """Starts a child in the namespaces; returns as `os.fork`."""
    # `unshare` would move only later children into a PID namespace; clone moves the child itself.
    if flags & _NEWPID:
        return kernel.system_call(_CLONE[kernel.MACHINE], flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid := os.fork():
        return pid
    kernel.unshare(flags)
    return 0


def _hold(flags: int, uid: int, gid: int, told: int) -> NoReturn:
    """Runs a holder: sets up its namespaces, reports, and waits to be killed."""
    words = "error 0"
    try:
        _close_all_but(told)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans need no waiting for
        if flags & _NEWUSER:
            _map_user(uid, gid)
        words = "plain"
        if flags & _NEWNS:
            number = os.readlink("/proc/self")  # as the outer namespace counts
            with suppress(OSError):
                kernel.mount("none", "/", "none", _PRIVATE_AND_BELOW)
                kernel.mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)
                words = "proc"
                # Else every guest had the same number, by which some name files in /dev/shm.
                Path("/proc/sys/kernel/ns_last_pid").write_text(number)
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    except OSError as error:
        words = f"error {error.errno}"
    os.write(told, words.encode())
    os.close(told)
    while True:
        signal.pause()


def _close_all_but(kept: int) -> None:
    os.closerange(0, kept)
    os.closerange(kept + 1, 65_536)
