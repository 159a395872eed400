# mypy: ignore-errors
"""Kind A: processes, sockets and memory outside the guest, and what a machine has little of."""

import ctypes
import os
import signal
import socket
import struct
import threading
import time
from contextlib import suppress

from tests.sandbox.attacks.attack import attack
from tests.sandbox.attacks.prelude import leaked, libc, scratch


@attack(kind="A", outside="the canary's process is dead or stopped")
def signals(facts, x0):
    """Stop a process of the host's by every call that sends signals."""
    for pid in (facts["pid"], -facts["pid"]):
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
    pid = facts["pid"]
    libc.syscall(200, pid, signal.SIGSTOP)  # tkill
    libc.syscall(234, pid, pid, signal.SIGSTOP)  # tgkill
    words = struct.pack("iiiiiiQ", signal.SIGSTOP, 0, -1, 0, os.getpid(), os.getuid(), 0)
    libc.syscall(129, pid, signal.SIGSTOP, words.ljust(128, b"\0"))  # rt_sigqueueinfo
    handle = libc.syscall(434, pid, 0)  # pidfd_open
    if handle >= 0:
        libc.syscall(424, handle, signal.SIGSTOP, None, 0)  # pidfd_send_signal


@attack(kind="A", outside="the verdict has a text of the canary's process")
def memory_of_a_process(facts, x0):
    """Read the memory of a process of the host's."""
    pid = facts["pid"]
    for name in ("environ", "cmdline", "mem", "maps"):
        with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
            leaked(file.read(100))
    if libc.ptrace(16, pid, None, None) == 0:  # PTRACE_ATTACH
        leaked("ptrace")
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    far = (ctypes.c_uint64 * 2)(facts["address"], 8)
    if libc.process_vm_readv(facts["host"], local, 1, far, 1, 0) > 0:
        leaked("process_vm_readv")


@attack(kind="A", outside="the canary's process has other limits, cores or niceness")
def limits_of_a_process(facts, x0):
    """Change what a process of the host's may use, and what all processes of its user may."""
    import resource

    pid = facts["pid"]
    for step in (
        lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8)),
        lambda: os.sched_setaffinity(pid, {0}),
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 7),
        lambda: os.setpriority(os.PRIO_USER, os.getuid(), 7),
    ):
        with suppress(OSError):
            step()
    libc.syscall(251, 3, os.getuid(), (3 << 13) | 7)  # ioprio_set for the user


@attack(kind="A", outside="the listener on the loopback interface has a visitor")
def loopback(facts, x0):
    """Send to services on the loopback interface."""
    for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)):
        with suppress(OSError), socket.socket(family, kind) as visitor:
            visitor.settimeout(1.0)
            port = facts["port" if kind == socket.SOCK_STREAM else "datagram_port"]
            visitor.connect(("127.0.0.1", port))
            visitor.send(b"visited")


@attack(kind="A", outside="the local socket has a visitor")
def local_sockets(facts, x0):
    """Connect to services of the host that listen on files and on abstract names."""
    for address in (facts["stream"], "\0" + facts["abstract"]):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as visitor:
                visitor.connect(address)
                visitor.send(b"visited")


@attack(kind="A", outside="the local socket has a datagram")
def datagram_from_a_pair(facts, x0):
    """Send to a service of the host from a pair of sockets, without socket or connect."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for address in (facts["datagram"], "\0" + facts["abstract_datagram"]):
        with suppress(OSError):
            ours.sendto(b"visited", address)
        with suppress(OSError):
            ours.sendmsg([b"visited"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"")], 0, address)
    theirs.close()


@attack(kind="A", outside="the verdict says that the folder can be watched")
def watch_a_folder(facts, x0):
    """Learn what the user does in a private folder."""
    handle = libc.inotify_init1(os.O_NONBLOCK)
    if handle < 0:
        return
    watched = libc.inotify_add_watch(handle, facts["folder"].encode(), 0xFFF)
    os.close(handle)
    if watched >= 0:
        leaked("the folder is watched")


@attack(kind="A", outside="the verdict has the text in the host's shared memory")
def shared_memory(facts, x0):
    """Attach the host's System V memory, and look for segments of others."""
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(facts["shared_memory"], None, 0)
    if address not in (None, ctypes.c_void_p(-1).value):
        leaked(ctypes.string_at(address, 16))
    with suppress(OSError), open("/proc/sysvipc/shm") as file:
        if lines := file.readlines()[1:]:
            leaked(f"{len(lines)} segments of others")


@attack(kind="A", outside="300 processes stay")
def many_processes(facts, x0):
    """Start 300 processes that leave the guest's session."""
    for _ in range(300):
        os.posix_spawn("/bin/sleep", ["sleep", "600"], {}, setsid=True)


@attack(kind="A", outside="the machine has less memory")
def address_space(facts, x0):
    """Take 30 GiB of address space; the memory is not touched."""
    import mmap

    mmap.mmap(-1, 30 << 30)
    leaked("30 GiB of address space")


@attack(kind="A", outside="the machine has less memory")
def memory_without_addresses(facts, x0):
    """Take 512 MiB as files in memory, which no limit of address space counts."""
    for _ in range(2):
        handle = os.memfd_create("visited")
        for _ in range(256):
            os.write(handle, bytes(1 << 20))


@attack(kind="A", outside="the disk has less room")
def disk(facts, x0):
    """Fill 600 MiB of the disk, and leave a file of 2 GiB without content."""
    for number in range(3):
        with open(os.path.join(scratch, f"large{number}"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 200 << 20)
    with suppress(OSError), open(os.path.join(scratch, "sparse"), "wb") as file:
        os.ftruncate(file.fileno(), 2 << 30)


@attack(kind="A", outside="other programs cannot open files")
def descriptors(facts, x0):
    """Hold 5000 descriptors, half of them pipes that are full."""
    for _ in range(2500):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.write(writing, bytes(4096))
        os.set_inheritable(reading, True)


@attack(kind="A", outside="threads stay")
def many_threads(facts, x0):
    """Start 200 threads that never end."""
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
